// LSTM, GRU and RNN written out step by step, in ops that have gradients.
#ifndef ONNX_MEMOPT_LIB_GRAD_LOWER_RECURRENT_H_
#define ONNX_MEMOPT_LIB_GRAD_LOWER_RECURRENT_H_

#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::grad {

// Those of the main block whose number of steps is known before the run, with
// their usual activations, without peepholes, clipping and lengths of their
// own. Others stay as they are.
void LowerRecurrent(rewrite::Builder& builder);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_LOWER_RECURRENT_H_
