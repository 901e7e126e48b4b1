// SplitToSequence whose parts are taken one by one becomes Split: a sequence
// has no gradient, and costs a copy.
#ifndef ONNX_MEMOPT_LIB_GRAD_LOWER_SEQUENCES_H_
#define ONNX_MEMOPT_LIB_GRAD_LOWER_SEQUENCES_H_

#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::grad {

// In the main block. Sequences of another kind are left as they are.
void LowerSequences(rewrite::Builder& builder);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_LOWER_SEQUENCES_H_
