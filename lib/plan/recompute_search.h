// The parts of the planner that PlanRecompute puts together.
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_SEARCH_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

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

struct KeptChoice {
  double cost = 0;  // of what is made again
  std::vector<bool> again;
};

// The best few choices of what is made again after a moment, from `again` on,
// by node; the cheapest first. Each fits the budget at that moment. At most
// `max_tries`, if that is not 0.
std::vector<KeptChoice> ChooseKept(const RecomputeModel& model,
                                   const RecomputeMoment& moment,
                                   const std::vector<bool>& again,
                                   size_t max_sets, int64_t max_tries,
                                   uint64_t seed,
                                   const std::function<bool()>& stop);

struct ExactRecompute {
  bool complete = false;          // within the states: what follows is proved
  std::vector<int32_t> sequence;  // empty: no plan exists
};

// Dijkstra's algorithm over (what has run, what is live); at most 31 nodes.
ExactRecompute SolveExactly(const RecomputeModel& model, int64_t budget,
                            int64_t max_states,
                            const std::function<bool()>& stop);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_SEARCH_H_
