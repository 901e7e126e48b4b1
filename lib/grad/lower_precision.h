// Mixed precision: a forward pass in float32 made to compute in 16 bits.
//
//   w (float32) -> Cast -+
//   x (float32) -> Cast -+-> MatMul -> Cast -> Softmax (float32) -> Cast -> ...
//
// The gradient of a Cast is a Cast, so the backward pass computes in the same
// types, and parameters get gradients in float32.
#ifndef ONNX_MEMOPT_LIB_GRAD_LOWER_PRECISION_H_
#define ONNX_MEMOPT_LIB_GRAD_LOWER_PRECISION_H_

#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::grad {

// `half`: kFloat16 or kBfloat16. Makes `outputs` float32, which may be other
// values than before.
//
// Products compute in 16 bits, and so does what reads their results, but for
// ops that the op table keeps in float32 (OpInfo::needs_float32) or that do not
// take 16 bits. What is computed of weights and inputs alone stays in float32
// up to the first product, and what comes out of a norm or a softmax goes on in
// 16 bits.
void LowerPrecision(ir::ElementType half,
                    absl::Span<const ir::ValueId> parameters,
                    absl::Span<ir::ValueId* const> outputs,
                    rewrite::Builder& builder);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_LOWER_PRECISION_H_
