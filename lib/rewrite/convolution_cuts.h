// Whether a region would cut a convolution off from what the runtime runs
// together with it.
//
//   if (CutsConvolutions(flow, plan)) ...  // no good region
#ifndef ONNX_MEMOPT_LIB_REWRITE_CONVOLUTION_CUTS_H_
#define ONNX_MEMOPT_LIB_REWRITE_CONVOLUTION_CUTS_H_

#include "onnx_memopt/rewrite/grow_region.h"
#include "onnx_memopt/rewrite/split_region.h"

namespace onnx_memopt::rewrite {

// ONNX Runtime runs a convolution together with the activation and the residual
// sum behind it, and keeps a blocked layout from one to the next: at a cut
// between them tensors of their own would appear.
bool CutsConvolutions(const BlockFlow& flow, const SplitPlan& plan);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_CONVOLUTION_CUTS_H_
