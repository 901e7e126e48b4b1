// The order in which the nodes of a training step stand in the file.
//
//   OrderForDepthFirst(graph, ir::kMainBlock, step.loss);
#ifndef ONNX_MEMOPT_GRAD_NODE_ORDER_H_
#define ONNX_MEMOPT_GRAD_NODE_ORDER_H_

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::grad {

// For a runtime that runs depth first from the last node without readers
// (ONNX Runtime's default): the last updates of a step come first in the file,
// so that the first one is the first to run, and `loss` is last of all.
// Otherwise the update of the first layer, which needs the whole backward pass,
// would run first, and all other gradients' operands be held meanwhile.
void OrderForDepthFirst(ir::Graph& graph, ir::BlockId block, ir::ValueId loss);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_NODE_ORDER_H_
