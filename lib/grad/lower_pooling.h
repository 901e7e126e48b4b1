// Pools of images as pools of volumes of depth one: ONNX Runtime would copy the
// image into its own layout and the result out of it, which takes the image's
// bytes once more and saves no time.
#ifndef ONNX_MEMOPT_LIB_GRAD_LOWER_POOLING_H_
#define ONNX_MEMOPT_LIB_GRAD_LOWER_POOLING_H_

#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::grad {

// In the main block, where convolutions with trained filters leave images in
// the usual layout. MaxPool stays: its gradient asks for positions, with which
// the runtime copies nothing.
void LowerPooling(absl::Span<const ir::ValueId> parameters,
                  rewrite::Builder& builder);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_LOWER_POOLING_H_
