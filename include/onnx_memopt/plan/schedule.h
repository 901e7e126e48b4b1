// In which order to run a graph's nodes so that the most bytes live at one
// moment are few.
//
// A problem is nodes with dependencies, and buffers. A node allocates the
// buffers that it is the `producer` of, then runs, then every buffer whose last
// reader has run is freed. While a node runs, its operands' and results'
// buffers are both live, and so are its `extra_bytes`. A buffer that nobody
// reads is freed after its producer, or never was there if it has none; a
// buffer with `live_to_end` is never freed.
//
//   live      |      ___
//   bytes     |  ___|   |___     <- peak: the highest point
//             |_|           |__
//              a   b   c  d      steps
//
// In place: a node may write a result over one of its operands' buffers, if
// that node is the last reader in this order: then the result takes over the
// bytes. The two sizes must be equal. Of several pairs of a node, the first
// whose operand is free and whose buffers are not taken by an earlier pair
// applies.
//
//   ScheduleProblem p = ...;
//   std::vector<int32_t> order = MinimizePeak(p, {.initial_order = order0});
//   int64_t peak = *EvaluateSchedule(p, order);
#ifndef ONNX_MEMOPT_PLAN_SCHEDULE_H_
#define ONNX_MEMOPT_PLAN_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace onnx_memopt::plan {

struct ScheduleBuffer {
  int64_t size_bytes = 0;
  // A node; -1: live from the start. Such a buffer is overwritten in place
  // only if a pair says so, like any other.
  int32_t producer = -1;
  std::vector<int32_t> readers = {};  // nodes, ascending, no duplicates
  bool live_to_end = false;
};

struct InPlacePair {
  int32_t operand_buffer = 0;
  int32_t result_buffer = 0;
};

struct ScheduleNode {
  // Nodes that must run before, beyond the producers of what it reads.
  std::vector<int32_t> after;
  std::vector<InPlacePair> in_place;
  int64_t extra_bytes = 0;
};

struct ScheduleProblem {
  std::vector<ScheduleNode> nodes;
  std::vector<ScheduleBuffer> buffers;
};

// Bytes while each step runs. peak_bytes is the largest of them.
struct ScheduleProfile {
  std::vector<int64_t> step_bytes;
  int64_t peak_bytes = 0;
};

// Replays `order` by the rules above, with no code shared with the search.
// Fails if it is not a permutation of the nodes or breaks a dependency.
absl::StatusOr<ScheduleProfile> EvaluateSchedule(
    const ScheduleProblem& problem, absl::Span<const int32_t> order);

struct ScheduleOptions {
  // A valid order to start from, and never to be worse than. Empty: the node
  // numbers, which must then be a valid order.
  std::vector<int32_t> initial_order = {};
  // Exact search on each cell (part of the graph between two moments at which
  // every order has the same live set) of at most this many nodes.
  int exact_nodes = 24;
  // States kept per step by the beam search on larger cells.
  int beam_width = 64;
  // A bound on the work of all searches together, in states looked at, so that
  // the result does not depend on the machine's speed.
  int64_t max_states = 2'000'000;
};

struct ScheduleResult {
  std::vector<int32_t> order;
  int64_t peak_bytes = 0;
  bool optimal = false;  // proved: exact search, or the peak meets a bound
  // "input", "units" (as the input, but some nodes moved next to their
  // neighbours), "dfs", "list", "exact", "beam" or "local".
  std::string found_by;
};

// The best order found. Deterministic. Fails if the problem is malformed or has
// a cycle.
absl::StatusOr<ScheduleResult> MinimizePeak(const ScheduleProblem& problem,
                                            const ScheduleOptions& options);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_SCHEDULE_H_
