// Lets ONNX Runtime lay out the filters of convolutions in a body when it loads
// the model. It does so where filters and bias are constants of the very graph
// that the convolution is in:
//
//     w = ConstantOfShape(dims)                 Scan {
//     Scan {                             =>       w = ConstantOfShape(dims)
//       y = Conv(x, w, bias) }                    b = Reshape(bias, [-1])
//                                                 y = Conv(x, w, b) }
//
// What nodes make from weights alone goes along, if nothing else reads it:
// scales and norms too, which are folded into the filters. A bias that has to
// stay, since the model names it as an input, is folded into a constant of the
// body through a Reshape. Filters that have to stay are left alone: a copy
// would be held beside them.
#ifndef ONNX_MEMOPT_REWRITE_LAY_OUT_FILTERS_H_
#define ONNX_MEMOPT_REWRITE_LAY_OUT_FILTERS_H_

#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::rewrite {

void LayOutFilters(Builder& builder, ir::BlockId body);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_LAY_OUT_FILTERS_H_
