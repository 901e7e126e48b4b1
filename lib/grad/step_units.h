// A training step as the planner of recomputation sees it (plan/recompute.h).
//
// A unit is what runs again as one: a node, together with the nodes before it
// whose results it overwrites, where it pays to think of them as one. Views are
// no units: whoever reads one reads the bytes that it shows. Beside the units
// the problem has
//
//   workspace   a node that makes what a kernel takes while it runs, read by
//               that unit alone
//   returned    results of the step that a unit makes beside larger values
//   sink        the last node: reads all results, which live to the end
//
//   ASSIGN_OR_RETURN(StepUnits units, StepUnits::Compute(graph, ir::kMainBlock,
//   step));
//   ... plan::PlanRecompute(units.problem(), ...) ...
//   std::vector<int32_t> runs = units.RunsOf(result.sequence);
#ifndef ONNX_MEMOPT_LIB_GRAD_STEP_UNITS_H_
#define ONNX_MEMOPT_LIB_GRAD_STEP_UNITS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx_memopt/grad/training_step.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/plan/recompute.h"

namespace onnx_memopt::grad {

struct StepUnit {
  std::vector<ir::NodeId> nodes;  // in order
  // Units that must have run, ascending.
  std::vector<int32_t> inputs;
  bool is_forward = false;
  bool can_repeat = true;
  bool returns = false;         // makes a result of the step
  int64_t bytes = 0;            // of what it makes, without what it overwrites
  int64_t workspace_bytes = 0;  // of its kernels, while they run
  // Of the largest result that one of its nodes overwrites: a buffer beside the
  // unit's where a stage hands the unit on, since the runtime writes what a
  // branch returns to a buffer of its own.
  int64_t overwritten_bytes = 0;
  double seconds = 0;  // as modelled
};

class StepUnits {
 public:
  // Sizes have to be known; the error names a tensor whose size is not.
  // `block` has the forward and the backward pass.
  static absl::StatusOr<StepUnits> Compute(const ir::Graph& graph,
                                           ir::BlockId block,
                                           const StepInfo& step);

  ir::BlockId block() const { return block_; }

  // In the order of the graph.
  const std::vector<StepUnit>& units() const { return units_; }
  const StepUnit& unit(int32_t id) const {
    return units_[static_cast<size_t>(id)];
  }
  size_t size() const { return units_.size(); }
  // The unit that makes the value's bytes, and through which views; -1 for
  // what is there before the step runs: inputs, weights, and what follows from
  // weights alone.
  int32_t UnitOf(ir::NodeId node) const { return unit_of_[ir::Index(node)]; }
  bool IsView(ir::NodeId node) const { return is_view_[ir::Index(node)]; }
  // Nodes that read nothing but weights: no part of any plan.
  const std::vector<ir::NodeId>& constants() const { return constants_; }
  double total_seconds() const { return total_seconds_; }

  const plan::RecomputeProblem& problem() const { return problem_; }
  // Each unit once.
  std::vector<int32_t> PlainRuns() const;
  // Between sequences of the problem's nodes and of units.
  std::vector<int32_t> RunsOf(absl::Span<const int32_t> sequence) const;
  std::vector<int32_t> SequenceOf(absl::Span<const int32_t> runs) const;
  // Of the runs after each unit's first.
  double AddedSeconds(absl::Span<const int32_t> runs) const;
  // By unit: of the forward pass, and read by the backward pass.
  std::vector<bool> Saved() const;
  // Every repeated unit can be repeated.
  bool CanRun(absl::Span<const int32_t> runs) const;

 private:
  friend class StepUnitsBuilder;

  ir::BlockId block_ = ir::kMainBlock;
  std::vector<StepUnit> units_;
  std::vector<int32_t> unit_of_;  // by node
  std::vector<bool> is_view_;     // by node
  std::vector<ir::NodeId> constants_;
  double total_seconds_ = 0;
  plan::RecomputeProblem problem_;
  // By node of the problem: the unit, or -1 for a helper.
  std::vector<int32_t> unit_of_problem_;
  // By unit: its node of the problem, those right before it (workspace), and
  // those right behind it (returned).
  std::vector<int32_t> node_of_unit_;
  std::vector<std::vector<int32_t>> before_;
  std::vector<std::vector<int32_t>> behind_;
};

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_STEP_UNITS_H_
