// ONNX Runtime's own layout of images: channels in blocks, as its convolutions
// with constant filters read and write them.
//
//   if (KeepsBlockedLayout(graph.node(id))) ...  // no copy to another layout
#ifndef ONNX_MEMOPT_ANALYSIS_BLOCKED_LAYOUT_H_
#define ONNX_MEMOPT_ANALYSIS_BLOCKED_LAYOUT_H_

#include "absl/functional/function_ref.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

// A node that the runtime fuses with a convolution before it, or runs on the
// blocked layout that a convolution leaves.
bool KeepsBlockedLayout(const ir::Node& node);

// Whether the runtime, at its default level, has the value in that layout: a
// convolution that takes it, as those with constant filters do, made the value
// or is before it.
bool IsInBlocks(const ir::Graph& graph, ir::ValueId value,
                absl::FunctionRef<bool(const ir::Node&)> takes_blocks);

// Whether the runtime copies the image that a pooling reads into that layout,
// as it does at its default level with every image of two spatial axes that no
// convolution made in that layout; not for a pooling that returns
// positions, too.
bool CopiesIntoBlocks(const ir::Graph& graph, const ir::Node& pooling,
                      absl::FunctionRef<bool(const ir::Node&)> takes_blocks);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_BLOCKED_LAYOUT_H_
