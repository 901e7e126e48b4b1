// How the elements of values lie in their buffers in PyTorch. Private to
// lib/estimate.
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_TORCH_LAYOUT_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_TORCH_LAYOUT_H_

#include <cstdint>

#include "estimate/value_sizes.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {

enum class Layout : uint8_t {
  kContiguous,
  kPermuted,
  // Fused attention writes [batch, token, head, feature], whatever order the
  // graph gives its result.
  kTokensFirst,
};

// Of the result of a view.
Layout LayoutAfter(const ir::Node& view, Layout layout);

// A reshape of a permuted tensor that does more than split dims or drop ones: a
// contiguous copy.
bool MergesDims(const ir::Graph& graph, const ValueSizes& sizes,
                ir::ValueId source, ir::ValueId result);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_TORCH_LAYOUT_H_
