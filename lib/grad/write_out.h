// Nodes that are written out in ops whose gradients are known.
#ifndef ONNX_MEMOPT_LIB_GRAD_WRITE_OUT_H_
#define ONNX_MEMOPT_LIB_GRAD_WRITE_OUT_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {

// Asks `write` for the values that stand for each result of a node; what it
// emits takes the node's place. Empty: the node stays. Names are the node's.
void WriteOut(rewrite::Builder& builder,
              absl::FunctionRef<std::vector<ir::ValueId>(const ir::Node& node,
                                                         rewrite::Emitter* e)>
                  write);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_WRITE_OUT_H_
