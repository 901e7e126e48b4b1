// Annealing over which values go first when memory is short: each try is a
// whole plan, made by eviction under that choice, and within the budget by
// construction. It sees what a choice costs in the end, which a search over
// single runs learns only after many steps.
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_KEEP_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_KEEP_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "plan/recompute_evict.h"
#include "plan/recompute_model.h"

namespace onnx_memopt::plan {

struct KeepOptions {
  int64_t max_tries = 10'000;
  uint64_t seed = 1;
  // The nodes whose place among the first may change.
  std::vector<int32_t> choices;
  double hot = 0.1;  // temperatures, in units of the mean cost of a node
  double cold = 0.001;
  // As in AnnealOptions.
  std::function<double()> time_share = {};
  std::function<void(absl::Span<const int32_t>)> on_better = {};
};

struct KeepResult {
  EvictionRule rule;              // the best
  std::vector<int32_t> sequence;  // empty: none was within the budget
};

KeepResult SearchKept(const RecomputeModel& model,
                      absl::Span<const int32_t> order, int64_t budget,
                      const EvictionRule& start, const KeepOptions& options);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_KEEP_H_
