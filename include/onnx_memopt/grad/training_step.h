// From a forward model to one step of its training, in place, with nodes that
// nothing reads (run drop-dead) and in the order in which they were made: loss,
// gradients and updates are added, parameters become inputs, and the results
// are the loss and the next value of every parameter and state.
//
//   inputs    those of the model, "target", "learning_rate" (float scalar),
//             "step" (int64 scalar: updates done so far), each parameter by its
//             name, states as "PARAMETER.momentum"
//   results   "loss", "step.next", "PARAMETER.next", "PARAMETER.momentum.next"
//
// Mixed precision adds "loss_scale" and "good_steps", and a model that draws
// "seed" (int64 scalar).
//
//   StepOptions options{.loss = Loss::kCrossEntropy};
//   ASSIGN_OR_RETURN(StepInfo step, BuildTrainingStep(options, &graph));
#ifndef ONNX_MEMOPT_GRAD_TRAINING_STEP_H_
#define ONNX_MEMOPT_GRAD_TRAINING_STEP_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/grad/step_options.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::grad {

struct StateInfo {
  std::string name;       // "w.momentum"
  std::string parameter;  // "w"
};

// What is added up over the micro-batches of an accumulating step.
struct SummedValue {
  ir::ValueId value;
  // A tensor of its shape that is there anyway; kNoValue for a scalar.
  ir::ValueId start = ir::kNoValue;
};

struct StepInfo {
  ir::ValueId loss = ir::kNoValue;
  // Nodes with smaller ids are of the forward pass, but for the teacher's.
  size_t forward_nodes = 0;
  // Nodes of which the backward pass reads a result.
  size_t saving_nodes = 0;
  std::vector<ir::ValueId> parameters;
  // Also inputs, moved by the batches and not by gradients: the running
  // statistics of BatchNormalization.
  std::vector<ir::ValueId> statistics;
  std::vector<StateInfo> states;  // zero at the beginning, like their parameter
  // What parameters and statistics begin with: weights of the forward model,
  // which are none of the step.
  llvm::DenseMap<ir::ValueId, ir::WeightId> initial;
  // States of the step as a whole, beside "step", and what they begin with.
  bool has_loss_scale = false;
  bool has_seed = false;
  std::vector<std::string> frozen;
  // What is not a parameter although it could be, and other things to know.
  std::vector<std::string> notes;
  int64_t parameter_bytes = 0;
  int64_t state_bytes = 0;
  // What the backward pass keeps of the forward pass, without weights and
  // inputs; -1 where a size is unknown.
  int64_t saved_bytes = -1;

  // For AccumulateGradients (accumulate.h), where StepOptions::accumulate is
  // above 1: inputs that are split along their first axis,
  std::vector<ir::ValueId> batched;
  // sums, first that of the loss,
  std::vector<SummedValue> sums;
  // running statistics and what a micro-batch makes of them,
  std::vector<std::pair<ir::ValueId, ir::ValueId>> moved_statistics;
  // a constant that stands for the number of the micro-batch, if it is read,
  ir::ValueId micro_batch = ir::kNoValue;
  // and nodes that run after the last micro-batch: the updates.
  std::vector<ir::NodeId> after;

  // Of a distillation, in order: what is computed of the teacher alone. They
  // come first in the schedule, and belong neither to the forward pass nor to
  // the backward pass.
  std::vector<ir::NodeId> teacher;
};

absl::StatusOr<StepInfo> BuildTrainingStep(const StepOptions& options,
                                           ir::Graph* graph);

// "*" stands for any characters, "?" for one.
bool MatchesPattern(const std::string& name, const std::string& pattern);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_TRAINING_STEP_H_
