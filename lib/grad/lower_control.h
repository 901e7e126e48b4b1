// If, Loop and Scan written out, where it is known before the run which branch
// is taken and how many trips there are: their gradients are those of the
// nodes.
//
//   Scan(h, x) { h' = Tanh(MatMul(h, w) + x_i) }   over 3 of x
//   -> h1 = Tanh(MatMul(h, w) + x0), h2 = ..., h3 = ...
#ifndef ONNX_MEMOPT_LIB_GRAD_LOWER_CONTROL_H_
#define ONNX_MEMOPT_LIB_GRAD_LOWER_CONTROL_H_

#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::grad {

// What cannot be written out stays: a condition or a number of trips that is
// known at run time only, or too many nodes.
void LowerControl(rewrite::Builder& builder);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_LOWER_CONTROL_H_
