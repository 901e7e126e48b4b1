// Weights that are matrices of layers, and the matrices of their forms.
//
//   for (const LayerGroup& group : FindLayerGroups(graph)) {
//     const Matrix matrix = FormMatrix(elements, dims, group.form, ...);
//   }
#ifndef ONNX_MEMOPT_LIB_REWRITE_LAYER_GROUPS_H_
#define ONNX_MEMOPT_LIB_REWRITE_LAYER_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/factorize.h"
#include "onnx_memopt/rewrite/low_rank.h"

namespace onnx_memopt::rewrite {

using Dims = std::vector<int64_t>;

// One weight with all the nodes that read it, each in the same way.
struct LayerGroup {
  ir::ValueId weight = ir::kNoValue;
  std::vector<ir::NodeId> nodes;
  // kConvChannels of a convolution, which may have its spatial form too.
  LayerForm form = LayerForm::kMatMul;
  bool transposed = false;  // Gemm's transB
};

// In the order in which the nodes come. Weights that play another part too are
// left out.
std::vector<LayerGroup> FindLayerGroups(const ir::Graph& graph);

// Whether the convolution can be split by rows and columns.
bool CanSplitSpatially(const ir::Node& node, const Dims& dims);

// The matrix that is split.
Matrix FormMatrix(std::vector<float> elements, const Dims& dims, LayerForm form,
                  bool transposed);
// The largest rank with which bytes and arithmetic both fall; may be 0.
int64_t LargestRank(const Matrix& matrix, const Dims& dims, LayerForm form,
                    const ir::Node& node);

// Element `index` of an attribute that is a list, or `value`.
inline int64_t ElementOr(const std::vector<int64_t>* list, size_t index,
                         int64_t value) {
  return list == nullptr || index >= list->size() ? value : (*list)[index];
}

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_LAYER_GROUPS_H_
