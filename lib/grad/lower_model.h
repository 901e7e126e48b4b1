// A model written in ops whose gradients are known.
#ifndef ONNX_MEMOPT_LIB_GRAD_LOWER_MODEL_H_
#define ONNX_MEMOPT_LIB_GRAD_LOWER_MODEL_H_

#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::grad {

// Control flow, attention, sequences and recurrent cells of the main block, as
// far as they can be written out; the rest stays.
void LowerModel(rewrite::Builder& builder);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_LOWER_MODEL_H_
