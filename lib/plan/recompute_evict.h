// A plan by simulation: run the nodes in a given order, and when memory is
// short let go of the live value that is worth least. Worth is what it costs to
// make again, for each unit of memory and of time until it is read next; the
// rule of dynamic tensor rematerialisation, with the future known.
//
//   Evictor evictor(model, model.order, budget);
//   if (evictor.Run({}, max_runs, max_cost) && evictor.fits()) {
//     Use(evictor.sequence());
//   }
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_EVICT_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_EVICT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "plan/recompute_model.h"

namespace onnx_memopt::plan {

// How a value's worth is weighed when something has to go.
struct EvictionRule {
  double distance_power = 1;  // of the time until it is read next
  // Count what has to be made again along with it, up to so many nodes.
  int32_t neighbours = 16;
  // By node: values that go before all others. Empty: none do.
  std::vector<bool> goes_first = {};
  // With `goes_first`: what it holds is made again after this node.
  int32_t moment = -1;
  // What goes first goes at once, memory short or not, when it is not read any
  // more before the moment; made again, it is a value like others.
  bool eager = false;
  // What goes will be made again where it is read next: until then its inputs
  // count as needed.
  bool keep_sources = false;
};

class Evictor {
 public:
  // `model` and `order`, a valid one, must outlive this.
  Evictor(const RecomputeModel& model, absl::Span<const int32_t> order,
          int64_t budget);

  // False if the plan would take more runs, or cost more, or `stop`, which is
  // asked now and then and may be empty, says so.
  bool Run(const EvictionRule& rule, int64_t max_runs, double max_cost,
           const std::function<bool()>& stop = {});
  // Of the last run that was not cut short: the plan, its cost, and whether it
  // is within the budget: it is over where nothing could go.
  const std::vector<int32_t>& sequence() const { return sequence_; }
  double cost() const { return cost_; }
  bool fits() const { return fits_; }

 private:
  struct Frame {
    int32_t node;
    size_t next_input;
  };

  void Reset(const EvictionRule& rule);
  void AddUsesByRemakes();
  bool IsLive(int32_t v) const { return is_live_[v] != 0; }
  void SetLive(int32_t v, bool live);
  void ForgetCosts(int32_t v);
  void AddUse(int32_t v, size_t from, int32_t step);
  int32_t NextUse(int32_t v, int32_t from);
  void DropIfDone(int32_t v, int32_t from);
  void Drop(int32_t v);
  void KeepSources(int32_t v);
  bool Make(int32_t node);
  void MakeRoom(int64_t memory);
  double Worth(int32_t v, double cost);
  double CostAgain(int32_t node);
  double WalkToLive(int32_t node);

  const RecomputeModel& model_;
  absl::Span<const int32_t> order_;
  int64_t budget_;
  std::vector<std::vector<int32_t>> order_uses_;  // by node: steps of `order_`
  std::vector<int32_t> step_of_;                  // by node

  const EvictionRule* rule_ = nullptr;
  int64_t max_runs_ = 0;
  double max_cost_ = 0;
  const std::function<bool()>* stop_ = nullptr;
  std::vector<std::vector<int32_t>> uses_;  // and by remakes
  std::vector<int32_t> changed_;    // nodes whose uses_ are not order_uses_
  std::vector<int32_t> remade_at_;  // by node: a step, or -1
  std::vector<int32_t> next_use_;   // by node: index in uses_
  double power_ = -1;
  std::vector<double> distance_;  // by steps: to the power
  std::vector<char> is_live_;     // by node
  std::vector<int32_t> live_;     // what is live and takes memory
  std::vector<int32_t> live_at_;  // by node: index in live_
  // By node: CostAgain, or less than 0 if it is not known; and the nodes whose
  // known cost depends on whether this one is live.
  std::vector<double> cost_again_;
  std::vector<std::vector<int32_t>> watchers_;
  std::vector<int32_t> locks_;
  std::vector<int64_t> visited_;
  std::vector<int32_t> stack_;
  std::vector<Frame> frames_;
  std::vector<int32_t> sequence_;
  double cost_ = 0;
  bool fits_ = false;
  int64_t live_memory_ = 0;
  int64_t visit_ = 0;
  int32_t now_ = 0;
  int32_t moment_ = -1;  // a step of `order_`
};

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_EVICT_H_
