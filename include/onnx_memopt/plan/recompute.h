// How to stay within a memory budget by running some nodes again.
//
// A problem is a DAG of nodes, each with one result of `memory` units and a
// `cost`. A plan is a sequence of nodes: every node runs at least once, and may
// run again to make a value that was let go. Each run reads the latest value of
// each of its inputs. A value lives from its run to the last run that reads it,
// at least for its own run; while a run lasts, its inputs and its result are
// all live. Any order that respects this is valid, not just the given one.
//
//   memory  budget ------------------------------
//             kept |####|                 |####|      a is dropped after c and
//                  a    b   c   d   e     a'   f      made again for f
//
//   RecomputeProblem p = {.memory = {2, 2, 2}, .cost = {1, 1, 1},
//                         .inputs = {{}, {0}, {0, 1}}};
//   RecomputeResult r = *PlanRecompute(p, {.budget = 6});
//   RecomputeReplay seen = *ReplayRecompute(p, r.sequence);
//   // seen.peak <= 6, seen.cost == r.cost
#ifndef ONNX_MEMOPT_PLAN_RECOMPUTE_H_
#define ONNX_MEMOPT_PLAN_RECOMPUTE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace onnx_memopt::plan {

// Parallel vectors, one entry a node. Memory may be in any unit: bytes, KiB.
// The sum of all memory, and of all cost, must be below 2^63.
struct RecomputeProblem {
  std::vector<int64_t> memory;
  std::vector<int64_t> cost;
  // Nodes whose values a node reads; no duplicates, no cycles.
  std::vector<std::vector<int32_t>> inputs;
  // A valid order to start from. Empty: the node numbers if they are a valid
  // order, else one that is made here.
  std::vector<int32_t> initial_order = {};
};

struct RecomputeReplay {
  int64_t peak = 0;
  int64_t cost = 0;
};

// Replays a plan by the rules above, with no code shared with the planner.
// Fails if the plan breaks them, or if the problem is malformed.
absl::StatusOr<RecomputeReplay> ReplayRecompute(
    const RecomputeProblem& problem, absl::Span<const int32_t> sequence);

// Values that must be live together in every plan, whatever its order.
struct WorkingSet {
  int64_t memory = 0;
  int32_t node = -1;            // while this node runs ...
  int32_t before = -1;          // ... as the last input of this one, or -1
  std::vector<int32_t> values;  // ascending, `node` included
};

// The largest working set: no plan has a lower peak. Nodes count with their
// inputs; and, because one of a node's inputs is made last, while the others
// are live, also that input's inputs, for the input where this is least.
absl::StatusOr<WorkingSet> LargestWorkingSet(const RecomputeProblem& problem);

// No plan within the budget costs less. Each node costs at least one run; and
// when a node runs for the first time, what its descendants read either is live
// or is made again later, along with what that takes: a cut problem, relaxed by
// a price on memory. Largest over the nodes.
absl::StatusOr<int64_t> RecomputeCostBound(const RecomputeProblem& problem,
                                           int64_t budget);

struct RecomputeProgress {
  bool found = false;  // a plan within the budget
  int64_t cost = 0;    // of the best one
  int64_t lower_bound = 0;
  double seconds = 0;
};

// What the planner may use; to measure what each is worth.
struct RecomputeMethods {
  bool schedule = true;  // orders of a lower peak than the given one
  bool chain = true;     // dynamic programming over a chain of blocks
  bool choices = true;   // seeds from what to keep at the critical moment
  bool eviction = true;  // simulation, letting go of what is worth least
  bool keep = true;      // annealing over what is let go first
  bool anneal = true;    // annealing over single runs
};

struct RecomputeOptions {
  int64_t budget = 0;
  // Stop after so many seconds with what there is. 0: no limit, and the result
  // depends on the seed and the number of threads alone.
  double time_limit_seconds = 0;
  // Work of the local search, in moves tried per thread, where no time limit
  // stops it. 0: chosen by the size of the problem.
  int64_t max_moves = 0;
  int threads = 1;
  uint64_t seed = 1;
  // A plan to start from, besides the planner's own: may be over the budget.
  std::vector<int32_t> initial_sequence = {};
  // Exact search on problems of at most so many nodes, within `exact_states`.
  int exact_nodes = 20;
  int64_t exact_states = 400'000;
  RecomputeMethods methods = {};
  // Called when something better is found, from one thread at a time.
  std::function<void(const RecomputeProgress&)> on_progress = {};
};

enum class RecomputeOutcome {
  kPlan,        // `sequence` is within the budget
  kInfeasible,  // proved: `working_set` does not fit, or the exact search ended
  kNotFound,    // neither a plan nor a proof
};

struct RecomputeResult {
  RecomputeOutcome outcome = RecomputeOutcome::kNotFound;
  std::vector<int32_t> sequence;  // kNotFound: the one with the least excess
  int64_t cost = 0;
  int64_t peak = 0;
  int64_t lower_bound = 0;  // on the cost of any plan within the budget
  bool optimal = false;     // proved
  WorkingSet working_set;   // the largest
  // What found the plan: "order" (nothing runs twice), "exact", "chain",
  // "greedy", "keep", "anneal", "input".
  std::string method;
  double seconds = 0;
};

absl::StatusOr<RecomputeResult> PlanRecompute(const RecomputeProblem& problem,
                                              const RecomputeOptions& options);

// One plan a budget, in the order of `budgets`. A larger budget never costs
// more: it starts from the plan of the next smaller one. Of `options` the
// budget is not used, and a time limit holds for each budget.
absl::StatusOr<std::vector<RecomputeResult>> SweepRecompute(
    const RecomputeProblem& problem, absl::Span<const int64_t> budgets,
    const RecomputeOptions& options);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_RECOMPUTE_H_
