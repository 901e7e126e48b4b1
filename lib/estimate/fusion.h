// Chains of nodes that PyTorch runs as one operator with a gradient of its own,
// and that exporters write out. Private to lib/estimate.
//
//   x -> Div -> Erf -> Add -> Mul -> Mul(x, .) -> y        GELU keeps x alone
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_FUSION_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_FUSION_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {

enum class FusionKind : uint8_t {
  kGelu,
  kSilu,
  kGroupNorm,
  kLayerNorm,
  kBias,       // a product and the addition of a vector of weights
  kAttention,  // scores, scale, mask, softmax, weighted sum
};

struct Fusion {
  FusionKind kind = FusionKind::kGelu;
  std::vector<ir::NodeId> nodes;  // in order of execution
  // Values from outside that the gradient needs, activations only.
  std::vector<ir::ValueId> saved;
  absl::string_view name;
};

struct FusionOptions {
  bool attention = false;
};

// No node is in two of them. `steps`: the nodes in order of execution.
std::vector<Fusion> FindFusions(const ir::Graph& graph,
                                absl::Span<const ir::NodeId> steps,
                                const FusionOptions& options);

// The nodes of the attention cores, from the product of the scores to that with
// the values, whether or not they are fused. In order; no node twice.
std::vector<std::vector<ir::NodeId>> FindAttention(
    const ir::Graph& graph, absl::Span<const ir::NodeId> steps);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_FUSION_H_
