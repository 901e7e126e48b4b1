// What ONNX Runtime runs in the step of a convolution, at its default level:
//
//   c = Conv(x, filters)
//   n = BatchNormalization(c, constants)     folded into the filters
//   y = Add(n, skip)                         written over `skip`
//
// Neither c nor n is ever there. Sums and activations run with it where images
// are in the runtime's own layout, in blocks of channels. A product x *
// sigmoid(x) is one step everywhere. Private to lib/analysis.
#ifndef ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_FUSION_H_
#define ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_FUSION_H_

#include <vector>

#include "absl/types/span.h"
#include "analysis/runtime_block.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

// Whether the runtime lays out the filters of this convolution in blocks of
// channels.
bool TakesBlocks(const RuntimeContext& context, const ir::Node& convolution);
// As in blocked_layout.h.
bool IsInBlocks(const RuntimeContext& context, ir::ValueId value);

class ConvolutionFusion {
 public:
  struct Step {
    ir::NodeId last = ir::kNoNode;   // makes the result
    ir::ValueId sum = ir::kNoValue;  // what is added to it, if anything
  };

  // Of the nodes of one block, in the order of the file, and what it returns.
  ConvolutionFusion(const RuntimeContext& context,
                    absl::Span<const ir::NodeId> nodes,
                    absl::Span<const ir::ValueId> results);

  bool empty() const { return taken_.empty(); }
  // What runs with this convolution; null where it runs by itself.
  const Step* With(ir::NodeId convolution) const;
  // True for nodes that run as part of another one's step.
  bool IsTaken(ir::NodeId node) const { return taken_.contains(node); }
  // True for what is never there, though a node reads it.
  bool IsGone(ir::ValueId value) const { return gone_.contains(value); }

 private:
  bool Take(ir::NodeId convolution, ir::ValueId image, ir::NodeId reader);
  ir::ValueId AddedTo(ir::ValueId image, const ir::Node& node) const;
  bool IsFoldedInto(ir::ValueId image, const ir::Node& node) const;

  const RuntimeContext& context_;
  llvm::DenseMap<ir::ValueId, int> uses_;
  // Convolutions by what they have come to, while more may run with them.
  llvm::DenseMap<ir::ValueId, ir::NodeId> open_;
  void TakeSigmoid(const ir::Node& product);

  llvm::DenseSet<ir::NodeId> taken_;
  llvm::DenseSet<ir::ValueId> gone_;
  llvm::DenseMap<ir::NodeId, Step> steps_;  // by convolution
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_FUSION_H_
