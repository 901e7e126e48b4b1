// Attention written out in products and a softmax, whose gradients are known.
#ifndef ONNX_MEMOPT_LIB_GRAD_LOWER_ATTENTION_H_
#define ONNX_MEMOPT_LIB_GRAD_LOWER_ATTENTION_H_

#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::grad {

// One with keys of earlier calls, a window, scores that are capped or returned
// stays.
void LowerAttention(rewrite::Builder& builder);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_LOWER_ATTENTION_H_
