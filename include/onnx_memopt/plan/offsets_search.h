// The best arena plan that the time allows, with a proved lower bound.
//
//   OffsetSolution s = *SolveOffsets(buffers, {.capacity_bytes = 1 << 20});
//   if (s.plan.arena_bytes <= 1 << 20) ...      // it fits
//   else if (s.lower_bound_bytes > 1 << 20) ... // proved: nothing fits
//
// The search is anytime: it starts from the greedy plan and only improves on
// it. It ends when the plan meets the bound, when the capacity is met or proved
// out of reach, or when a limit strikes. For one seed and thread count the
// result is always the same unless `time_limit_s` ended the search.
#ifndef ONNX_MEMOPT_PLAN_OFFSETS_SEARCH_H_
#define ONNX_MEMOPT_PLAN_OFFSETS_SEARCH_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"

namespace onnx_memopt::plan {

struct OffsetProgress {
  double seconds = 0;
  int64_t best_bytes = 0;
  int64_t lower_bound_bytes = 0;
};

// What makes the search quick; switched off only to measure what each buys.
struct OffsetRules {
  bool nogoods = true;     // remember refuted states
  bool support = true;     // nothing floats
  bool decompose = true;   // split where no buffer crosses
  bool fail_first = true;  // decide the section with the fewest choices
  bool raise = true;       // monotonic floor: lift what nothing can fill
  bool restarts = true;    // many short searches in turn, not one long one
  bool low_aims = true;    // search below the height that is asked for, too
  bool warm_up = true;     // improve the greedy plan first
};

struct OffsetOptions {
  // Stop as soon as a plan is this low. nullopt: as low as possible.
  std::optional<int64_t> capacity_bytes = std::nullopt;
  double time_limit_s = std::numeric_limits<double>::infinity();
  // Work limits, which do not depend on the machine: states of the exact
  // search, and placements of the improvement of large problems, per thread.
  int64_t max_states = 20'000'000;
  int64_t max_placements = 100'000'000;
  int threads = 1;
  uint64_t seed = 1;
  OffsetRules rules = {};
  // Called from the calling thread whenever the plan or the bound improves.
  std::function<void(const OffsetProgress&)> progress = nullptr;
};

struct OffsetSolution {
  OffsetPlan plan;
  int64_t lower_bound_bytes = 0;  // proved
  // How the plan was found: "greedy", "improved" or "search".
  std::string method;
  int64_t states = 0;  // of the exact search, all threads
};

// Errors: those of PackFirstFit, a negative capacity, fewer than one thread.
absl::StatusOr<OffsetSolution> SolveOffsets(absl::Span<const Buffer> buffers,
                                            const OffsetOptions& options);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_OFFSETS_SEARCH_H_
