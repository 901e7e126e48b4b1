// A loss that a user gives as a model of its own.
#ifndef ONNX_MEMOPT_LIB_DRIVER_APPEND_LOSS_H_
#define ONNX_MEMOPT_LIB_DRIVER_APPEND_LOSS_H_

#include "absl/status/status.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt {

// Puts the nodes of `loss` behind those of `graph`. Inputs of the loss that are
// named as outputs of the model are these; others ("target") become inputs of
// the model. Afterwards the loss is the model's only output. Errors name what
// is in the way: another opset, subgraphs, several outputs.
absl::Status AppendLoss(const ir::Graph& loss, ir::Graph* graph);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_LIB_DRIVER_APPEND_LOSS_H_
