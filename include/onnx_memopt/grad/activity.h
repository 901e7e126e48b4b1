// Through which values a gradient flows, and which values the backward pass
// reads: what "saved for backward" means everywhere in this project. No
// gradient is built for it.
//
//   const Activity activity = Activity::Compute(graph, {w1, w2}, {loss});
//   for (NodeId node : graph.block(kMainBlock).nodes) {
//     for (ValueId v : SavedForBackward(graph, node, activity).values) ...
//   }
//
// Trainable(graph) finds values to begin with where the caller has none.
#ifndef ONNX_MEMOPT_GRAD_ACTIVITY_H_
#define ONNX_MEMOPT_GRAD_ACTIVITY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "llvm/ADT/BitVector.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::grad {

class Activity {
 public:
  // `wanted`: values whose gradients are asked for. `outputs`: where gradients
  // come from. Looks at the main block; a node with subgraphs counts as one
  // that reads all they capture.
  static Activity Compute(const ir::Graph& graph,
                          absl::Span<const ir::ValueId> wanted,
                          absl::Span<const ir::ValueId> outputs);

  // Depends on a wanted value, and an output depends on it: it has a gradient.
  bool active(ir::ValueId value) const {
    return value != ir::kNoValue && ir::Index(value) < active_.size() &&
           active_[static_cast<unsigned>(ir::Index(value))];
  }

 private:
  llvm::BitVector active_;
};

struct SavedValues {
  // Operands and results that the node's gradient reads, without duplicates:
  // activations and weights alike. Results that the forward model does not ask
  // the node for, as MaxPool's positions, are not in here.
  std::vector<ir::ValueId> values;
  // False: there is no rule for the op; all operands and results are listed.
  bool known = true;
};

// Nothing if the node has no gradient to pass on.
SavedValues SavedForBackward(const ir::Graph& graph, ir::NodeId node,
                             const Activity& activity);

// The initializers of the main block that a training would change: those of a
// floating-point type that a gradient reaches from `outputs`, but for the ones
// that exporters turn constants into. `why_not` gets a line for each of those.
std::vector<ir::ValueId> Trainable(const ir::Graph& graph,
                                   absl::Span<const ir::ValueId> outputs,
                                   std::vector<std::string>* why_not = nullptr);

// True for the floating-point types that have gradients.
bool HasGradient(const ir::Type& type);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_ACTIVITY_H_
