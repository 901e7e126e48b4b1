// The graph that ONNX Runtime's CPU provider runs of one with float16 tensors.
//
//     h16 = MatMul(x16, w16)           x32 = Cast(x16)   w32 = Cast(w16)
//     y16 = Reshape(h16)         =>    h32 = MatMul(x32, w32)
//                                      h16 = Cast(h32)
//                                      y16 = Reshape(h16)
//
// Most of its kernels take float32 only, so it puts Casts around them, and
// takes out those that meet. Kernels that move data take any type: one alone
// among others runs in float32 too. Casts of weights are computed when the
// session is made, unless graph_optimization_level is "none".
#ifndef ONNX_MEMOPT_LIB_ANALYSIS_HALF_ON_CPU_H_
#define ONNX_MEMOPT_LIB_ANALYSIS_HALF_ON_CPU_H_

#include <vector>

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

struct HalfOnCpu {
  ir::Graph graph;
  // By the new graph's ids: what stands for this in the graph as it was.
  std::vector<ir::ValueId> values;
  std::vector<ir::NodeId> nodes;
};

// True if the runtime would change anything.
bool HasHalf(const ir::Graph& graph);
HalfOnCpu RunsHalfAs(const ir::Graph& graph);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_LIB_ANALYSIS_HALF_ON_CPU_H_
