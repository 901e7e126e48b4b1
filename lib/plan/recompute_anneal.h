// Simulated annealing over sequences of runs. What is over the budget is
// allowed at a price, which goes up while the sequence stays over it and down
// while it is within: the search crosses the border to and fro.
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_ANNEAL_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_ANNEAL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "plan/recompute_state.h"

namespace onnx_memopt::plan {

struct AnnealOptions {
  int64_t max_moves = 1'000'000;
  uint64_t seed = 1;
  // Temperatures, in units of the mean cost of a node.
  double hot = 1.0;
  double cold = 0.003;
  // Asked now and then: the seconds that have passed, as a share of those that
  // there are; 1 ends the search. Empty: the moves alone say when it ends.
  std::function<double()> time_share = {};
  // Called with each better plan that is within the budget.
  std::function<void(absl::Span<const int32_t>)> on_better = {};
  // A plan of this cost, in scaled units, cannot be bettered: the search ends.
  double lower_bound = -1;
};

struct AnnealResult {
  std::vector<int32_t> sequence;  // the best
  double cost = 0;                // in scaled units
  double overflow = 0;
};

// Starts from `start` and never returns worse: first less overflow, then less
// cost.
AnnealResult Anneal(const ScaledModel& scaled, absl::Span<const int32_t> start,
                    const AnnealOptions& options);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_ANNEAL_H_
