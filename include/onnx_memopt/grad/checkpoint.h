// Checkpoints of a training step: which values of the forward pass are kept,
// and which are made again when the backward pass needs them.
//
// A plan is a sequence in which nodes may run several times, in any order, from
// plan/recompute.h; or one of the usual rules, to compare with. It is written
// as stages that ONNX Runtime runs in that order (lib/grad/staged_step.h).
//
//   ASSIGN_OR_RETURN(CheckpointPlanner planner,
//                    CheckpointPlanner::Create({}, step, graph));
//   ASSIGN_OR_RETURN(CheckpointSearch found, planner.Search(budget));
//   ASSIGN_OR_RETURN(CheckpointResult made,
//                    planner.Insert(found.curve.back().plan, &graph));
#ifndef ONNX_MEMOPT_GRAD_CHECKPOINT_H_
#define ONNX_MEMOPT_GRAD_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/grad/recomputed_segment.h"
#include "onnx_memopt/grad/training_step.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/prediction.h"

namespace onnx_memopt::grad {

class StepUnits;
struct Stages;

struct CheckpointOptions {
  // Where forward and backward pass are. Of a step of micro-batches (grad/
  // accumulate.h) that is the loop's body, and StepInfo::loss what it sums.
  ir::BlockId block = ir::kMainBlock;
  // The order in which the runtime runs a file: depth first from the last leaf,
  // or that of the file.
  bool depth_first = true;
  // The session whose peaks are predicted.
  analysis::RuntimeOptions runtime = rewrite::RewriteOptions();
  // By node: the module that the exporter names, "layer1.0.conv2", or empty.
  // Nodes past the end have none.
  std::vector<std::string> modules;
  // Work of the planner for each budget that it is asked for; 0: as much as
  // pays for a graph of this size.
  int64_t max_moves = 0;
};

// Runs of units of the step, in order. Empty: the step as it is, without
// stages.
struct CheckpointPlan {
  std::vector<int32_t> runs;
  // Where two plans have the same peak, this one is the cheaper one: time that
  // it adds, as a part of the step's.
  double overhead = 0;
};

// One point of the curve of budget against overhead.
struct CheckpointPoint {
  CheckpointPlan plan;
  int64_t peak_bytes = 0;  // predicted, of CheckpointOptions::runtime
};

struct CheckpointSearch {
  // From the largest peak to the smallest; each costs more than the one before
  // it.
  std::vector<CheckpointPoint> curve;
  // Where the smallest peak is, what is held, largest first: names and bytes.
  std::vector<std::pair<std::string, int64_t>> floor;
};

struct CheckpointResult {
  std::vector<RecomputedSegment> segments;
  std::vector<KeptValue> kept;
  std::vector<WrappedModule> wrapped;
  double overhead = 0;
};

// What a predicted peak should be at most for a measured one to be within the
// budget: with an arena predictions of steps were up to 7 %, or 4 MiB, low, and
// without one 2 % (docs/training.md).
int64_t PlannedBudget(int64_t budget, bool arena);

class CheckpointPlanner {
 public:
  // `graph` as BuildTrainingStep or AccumulateGradients left it, without dead
  // nodes; it must outlive this. Its sizes have to be known.
  static absl::StatusOr<CheckpointPlanner> Create(CheckpointOptions options,
                                                  const StepInfo& step,
                                                  const ir::Graph& graph);
  ~CheckpointPlanner();
  CheckpointPlanner(CheckpointPlanner&& other) noexcept;
  CheckpointPlanner& operator=(CheckpointPlanner&& other) noexcept;

  // What crosses between about the square root of the number of nodes that
  // save.
  CheckpointPlan Sqrt() const;
  // Each repeated module of the exporter ("encoder.layer.3", "layer1.0") keeps
  // what it reads. kOutOfRange where the model names no such modules.
  absl::StatusOr<CheckpointPlan> PerLayer() const;
  // The plans that no other one beats. With a budget it also looks for the
  // cheapest within PlannedBudget.
  absl::StatusOr<CheckpointSearch> Search(std::optional<int64_t> budget) const;

  // What the backward pass reads of the forward pass, in order.
  std::vector<KeptValue> Saved() const;
  // The modules of CheckpointResult::wrapped.
  std::vector<std::string> Wrapped(const CheckpointPlan& plan) const;

  // The predicted peak of a plan.
  absl::StatusOr<int64_t> PeakOf(const CheckpointPlan& plan) const;
  // What a plan holds where it holds the most: names and bytes of the largest.
  std::vector<std::pair<std::string, int64_t>> HeldAtPeak(
      const CheckpointPlan& plan) const;

  // `graph`: the one that the planner was made for. Orders it, too.
  absl::StatusOr<CheckpointResult> Insert(const CheckpointPlan& plan,
                                          ir::Graph* graph) const;

 private:
  CheckpointPlanner(CheckpointOptions options, const StepInfo& step,
                    const ir::Graph& graph, StepUnits units);

  CheckpointPlan PlanOf(std::vector<int32_t> runs) const;
  absl::Status AddPoint(std::vector<int32_t> runs, CheckpointSearch* search,
                        std::vector<CheckpointPoint>* points) const;
  // Of plan/recompute.h's nodes.
  std::vector<int32_t> SequenceOf(const CheckpointPlan& plan) const;
  // The planner's plan for a budget, from the best point that there is.
  absl::Status Plan(int64_t budget, CheckpointSearch* search,
                    std::vector<CheckpointPoint>* points) const;
  absl::Status Refine(int64_t budget, CheckpointSearch* search,
                      std::vector<CheckpointPoint>* points) const;
  const std::string& ModuleOf(ir::NodeId node) const;
  KeptValue ValueOf(int32_t unit) const;
  CheckpointResult Describe(const CheckpointPlan& plan, const Stages& stages,
                            const ir::Graph& graph) const;
  absl::Status Write(const CheckpointPlan& plan, const Stages& stages,
                     ir::Graph* graph) const;

  CheckpointOptions options_;
  const ir::Graph* graph_;
  ir::ValueId loss_;
  std::unique_ptr<StepUnits> units_;
};

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_CHECKPOINT_H_
