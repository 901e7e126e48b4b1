// The parts of the planner that PlanRecompute puts together.
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_SEARCH_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/plan/recompute.h"
#include "plan/recompute_model.h"

namespace onnx_memopt::plan {

// See LargestWorkingSet and RecomputeCostBound. `stop` is asked now and then,
// and may be empty.
WorkingSet FindWorkingSet(const RecomputeModel& model);
// The moment when a node runs for the first time.
struct RecomputeMoment {
  int32_t node = -1;
  std::vector<int32_t> ancestors;  // in a valid order
  std::vector<bool> required;      // by node: ancestors that descendants read
  std::vector<bool> held;          // by node: inputs, live in any case
  double room = 0;                 // for what is live besides those
};

struct CostBound {
  int64_t cost = 0;
  // By node: values that the relaxed plan behind the bound makes again, where
  // it fits the budget; empty if the bound is the plain sum of costs.
  std::vector<bool> again;
  RecomputeMoment moment;  // when that is
};
CostBound FindCostBound(const RecomputeModel& model, int64_t budget,
                        const std::function<bool()>& stop);

// The best few choices of what is made again after a moment, from `again` on,
// by node; the cheapest first. Each fits the budget at that moment.
std::vector<std::vector<bool>> ChooseKept(const RecomputeModel& model,
                                          const RecomputeMoment& moment,
                                          const std::vector<bool>& again,
                                          size_t max_sets, uint64_t seed);

struct ExactRecompute {
  bool complete = false;          // within the states: what follows is proved
  std::vector<int32_t> sequence;  // empty: no plan exists
};

// Dijkstra's algorithm over (what has run, what is live); at most 31 nodes.
ExactRecompute SolveExactly(const RecomputeModel& model, int64_t budget,
                            int64_t max_states,
                            const std::function<bool()>& stop);

// How a value's worth is weighed when something has to go.
struct EvictionRule {
  double distance_power = 1;  // of the time until it is read next
  double memory_power = 1;
  // Count what has to be made again along with it, up to so many nodes.
  int32_t neighbours = 16;
  // By node: values that go before all others. Empty: none do.
  std::vector<bool> goes_first = {};
  // With `goes_first`: what it holds is made again after this node.
  int32_t moment = -1;
  // What goes first goes at once, memory short or not, when it is not read any
  // more before the moment; made again, it is a value like others.
  bool eager = false;
};

// Runs the nodes in `order`, lets go of the value with the least worth when
// memory is short, and makes it again when it is read. Over the budget where
// nothing can go; empty if it would take more than `max_runs` runs.
std::vector<int32_t> EvictGreedily(const RecomputeModel& model,
                                   absl::Span<const int32_t> order,
                                   int64_t budget, const EvictionRule& rule,
                                   int64_t max_runs);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_SEARCH_H_
