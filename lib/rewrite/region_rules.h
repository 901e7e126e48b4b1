// What makes a region none that a runtime would gain by, whatever its bytes.
//
//   if (!HasProduct(graph, plan) || CutsConvolutions(flow, plan)) ...  // skip
#ifndef ONNX_MEMOPT_LIB_REWRITE_REGION_RULES_H_
#define ONNX_MEMOPT_LIB_REWRITE_REGION_RULES_H_

#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/grow_region.h"
#include "onnx_memopt/rewrite/split_region.h"

namespace onnx_memopt::rewrite {

// Chains of cheap nodes are fused by runtimes: what a region of these alone
// would save is not there.
bool HasProduct(const ir::Graph& graph, const SplitPlan& plan);

// Parts of filters are no constants, so that the runtime lays out none of them.
bool SplitsFilters(const ir::Graph& graph, const SplitPlan& plan);

// A runtime lays the weights of products out when it loads the model, for the
// main graph and its subgraphs; in subgraphs of those it does so in every run.
bool ReadsLargeWeights(const ir::Graph& graph, const analysis::Sizes& sizes,
                       const SplitPlan& plan);

// ONNX Runtime runs a convolution together with the activation and the residual
// sum behind it, and keeps a blocked layout from one to the next: at a cut
// between them tensors of their own would appear. With `plain_anyway`, not
// where another reader needs such a tensor, or a sum runs with another
// convolution.
bool CutsConvolutions(const BlockFlow& flow, const SplitPlan& plan,
                      bool plain_anyway);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_REGION_RULES_H_
