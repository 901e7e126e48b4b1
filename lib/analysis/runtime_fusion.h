// What ONNX Runtime runs in the step of a convolution, at its default level:
//
//   c = Conv(x, filters)
//   n = BatchNormalization(c, constants)     folded into the filters
//   y = Add(n, skip)                         written over `skip`
//
// Neither c nor n is ever there. Activations behind it run in place anyway.
// Private to lib/analysis.
#ifndef ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_FUSION_H_
#define ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_FUSION_H_

#include <vector>

#include "absl/types/span.h"
#include "analysis/runtime_block.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

class ConvolutionFusion {
 public:
  struct Step {
    ir::NodeId convolution = ir::kNoNode;
    ir::NodeId last = ir::kNoNode;   // makes the result
    ir::ValueId sum = ir::kNoValue;  // what is added to it, if anything
  };

  // Of the nodes of one block, in the order of the file, and what it returns.
  ConvolutionFusion(const RuntimeContext& context,
                    absl::Span<const ir::NodeId> nodes,
                    absl::Span<const ir::ValueId> results);

  // The step whose result this node makes; null where it runs by itself.
  const Step* EndingIn(ir::NodeId node) const;
  // True for nodes of a step that do not make its result.
  bool IsInside(ir::NodeId node) const { return inside_.contains(node); }

 private:
  Step Follow(ir::NodeId convolution, std::vector<ir::NodeId>* inside) const;
  bool IsFoldedInto(ir::ValueId image, const ir::Node& node) const;

  const RuntimeContext& context_;
  llvm::DenseMap<ir::ValueId, int> uses_;
  llvm::DenseMap<ir::ValueId, ir::NodeId> reader_;  // one of them
  llvm::DenseSet<ir::NodeId> inside_;
  llvm::DenseMap<ir::NodeId, Step> by_last_;
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_FUSION_H_
