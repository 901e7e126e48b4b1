// Puts elements back to where an op took them from, adding where it took one
// several times. By ScatterElements: ONNX Runtime's ScatterND adds from several
// threads without a lock, and loses terms.
#ifndef ONNX_MEMOPT_LIB_GRAD_SCATTER_H_
#define ONNX_MEMOPT_LIB_GRAD_SCATTER_H_

#include <cstddef>
#include <cstdint>

#include "grad/rule_context.h"

namespace onnx_memopt::grad {

// A tensor like `updates`, but with `extent` (a list of one) elements along
// `axis`: element i of `updates` along it goes to positions[i].
ValueId ScatterAlongAxis(Emitter& e, ValueId updates, int64_t axis,
                         ValueId positions, ValueId extent, size_t rank);
// zeros(dims) with `updates` added at `indices` along `axis`, as
// GatherElements read them.
ValueId ScatterAdd(Emitter& e, ValueId dims, ValueId indices, ValueId updates,
                   int64_t axis);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_SCATTER_H_
