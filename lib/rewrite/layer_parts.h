// Puts two layers in the place of one.
//
//   LayerParts parts(&graph);
//   parts.Replace(group, form, dims, factors);
//   ...
//   parts.Finish();  // the old nodes and weights leave the graph
#ifndef ONNX_MEMOPT_LIB_REWRITE_LAYER_PARTS_H_
#define ONNX_MEMOPT_LIB_REWRITE_LAYER_PARTS_H_

#include <array>
#include <map>
#include <vector>

#include "absl/strings/string_view.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/factorize.h"
#include "onnx_memopt/rewrite/low_rank.h"
#include "rewrite/large_bytes.h"
#include "rewrite/layer_groups.h"

namespace onnx_memopt::rewrite {

class LayerParts {
 public:
  explicit LayerParts(ir::Graph* graph)
      : graph_(*graph), builder_(graph), bytes_(graph) {}

  // The factors are those of FormMatrix.
  void Replace(const LayerGroup& group, LayerForm form, const Dims& dims,
               const Factors& factors);
  // Once, at the end.
  void Finish();

 private:
  ir::ValueId Weight(const LayerGroup& group, absl::string_view suffix,
                     const Matrix& matrix, const Dims& dims);
  void ReplaceNode(ir::NodeId id, LayerForm form,
                   const std::array<ir::ValueId, 2>& parts, int64_t rank);

  ir::Graph& graph_;
  Builder builder_;
  LargeBytes bytes_;
  std::map<ir::NodeId, std::vector<ir::NodeId>> new_nodes_;
  std::vector<ir::ValueId> replaced_;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_LAYER_PARTS_H_
