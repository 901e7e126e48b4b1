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
  double cold = 0.01;
  // Asked now and then; true ends the search.
  std::function<bool()> stop = {};
  // Seconds of the search that have passed, as a share of what it has; empty:
  // the moves alone say when it ends.
  std::function<double()> time_share = {};
  // Called with each better plan that is within the budget.
  std::function<void(absl::Span<const int32_t>, double)> on_better = {};
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
