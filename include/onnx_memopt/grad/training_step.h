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
//   StepOptions options{.loss = Loss::kCrossEntropy};
//   ASSIGN_OR_RETURN(StepInfo step, BuildTrainingStep(options, &graph));
#ifndef ONNX_MEMOPT_GRAD_TRAINING_STEP_H_
#define ONNX_MEMOPT_GRAD_TRAINING_STEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/grad/step_options.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::grad {

struct StateInfo {
  std::string name;       // "w.momentum"
  std::string parameter;  // "w"
};

struct StepInfo {
  ir::ValueId loss = ir::kNoValue;
  // Nodes with smaller ids are of the forward pass.
  size_t forward_nodes = 0;
  // Nodes of which the backward pass reads a result.
  size_t saving_nodes = 0;
  std::vector<ir::ValueId> parameters;
  // Also inputs, moved by the batches and not by gradients: the running
  // statistics of BatchNormalization.
  std::vector<ir::ValueId> statistics;
  std::vector<StateInfo> states;  // zero at the beginning, like their parameter
  std::vector<std::string> frozen;
  // What is not a parameter although it could be, and other things to know.
  std::vector<std::string> notes;
  int64_t parameter_bytes = 0;
  int64_t state_bytes = 0;
  // What the backward pass keeps of the forward pass, without weights and
  // inputs; -1 where a size is unknown.
  int64_t saved_bytes = -1;
};

absl::StatusOr<StepInfo> BuildTrainingStep(const StepOptions& options,
                                           ir::Graph* graph);

// "*" stands for any characters, "?" for one.
bool MatchesPattern(const std::string& name, const std::string& pattern);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_TRAINING_STEP_H_
