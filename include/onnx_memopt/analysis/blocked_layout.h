// ONNX Runtime's own layout of images: channels in blocks, as its convolutions
// with constant filters read and write them.
//
//   if (KeepsBlockedLayout(graph.node(id))) ...  // no copy to another layout
#ifndef ONNX_MEMOPT_ANALYSIS_BLOCKED_LAYOUT_H_
#define ONNX_MEMOPT_ANALYSIS_BLOCKED_LAYOUT_H_

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

// A node that the runtime fuses with a convolution before it, or runs on the
// blocked layout that a convolution leaves.
bool KeepsBlockedLayout(const ir::Node& node);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_BLOCKED_LAYOUT_H_
