// Which nodes are views in PyTorch: their results have no bytes of their own.
// Private to lib/estimate.
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_TORCH_VIEWS_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_TORCH_VIEWS_H_

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {

// More than in ONNX Runtime: Transpose, Split, Slice and Expand are, and so is
// what does nothing (Dropout with a ratio of 0, Cast to the same type).
bool IsTorchView(const ir::Graph& graph, const ir::Node& node);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_TORCH_VIEWS_H_
