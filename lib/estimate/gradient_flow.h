// Which parameters are trained and through which values gradients flow, as far
// as a forward graph tells. Private to lib/estimate.
//
// An initializer is trained if it is floating-point, has more than one element,
// and is used as a weight: a factor of a product or convolution, a scale or
// shift of a normalisation, a table that is looked up, or added to or
// multiplied with something that has a gradient. Masks, running statistics,
// position tables that are fed to sin and cos, and bounds are not.
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_GRADIENT_FLOW_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_GRADIENT_FLOW_H_

#include <vector>

#include "absl/types/span.h"
#include "llvm/ADT/SmallVector.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {

struct GradientFlow {
  // By ValueId.
  std::vector<bool> depends_on_input;
  std::vector<bool> has_gradient;
  std::vector<bool> trained;  // of an initializer
  // The initializers that a value is made of by views alone (a transposed
  // weight); itself for an initializer.
  std::vector<llvm::SmallVector<ir::ValueId, 1>> weights_behind;
};

// `ignored`: initializers that fused operators do not have.
GradientFlow FindGradientFlow(const ir::Graph& graph,
                              absl::Span<const ir::NodeId> steps,
                              const std::vector<bool>& ignored);

bool IsFloatingPoint(const ir::Value& value);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_GRADIENT_FLOW_H_
