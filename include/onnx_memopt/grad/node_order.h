// The order in which the nodes of a training step stand in the file.
//
//   OrderForDepthFirst(graph, ir::kMainBlock, step.loss);
#ifndef ONNX_MEMOPT_GRAD_NODE_ORDER_H_
#define ONNX_MEMOPT_GRAD_NODE_ORDER_H_

#include <vector>

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::grad {

// For a runtime that runs depth first from the last node without readers
// (ONNX Runtime's default): the last updates of a step come first in the file,
// so that the first one is the first to run, and `loss` is last of all.
// Otherwise the update of the first layer, which needs the whole backward pass,
// would run first, and all other gradients' operands be held meanwhile.
void OrderForDepthFirst(ir::Graph& graph, ir::BlockId block, ir::ValueId loss);

// For the same runtime: puts `teacher` (StepInfo::teacher), which is first in
// the schedule, as late as its readers let it. Of the operands of a node the
// one that stands last is computed first, so that the teacher has run, and its
// activations are dead, before the student begins.
void OrderTeacherForDepthFirst(ir::Graph& graph, ir::BlockId block,
                               const std::vector<ir::NodeId>& teacher);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_NODE_ORDER_H_
