#include "rewrite/layer_groups.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "onnx_memopt/rewrite/half_precision.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::BlockId;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

bool IsOp(const Node& node, absl::string_view op) {
  return node.domain.empty() && node.op_type == op && !node.is_call;
}

// From W [o, i, kh, kw] to [i * kh, o * kw].
Matrix SpatialMatrix(const std::vector<float>& w, const Dims& d) {
  Matrix m{d[1] * d[2], d[0] * d[3], std::vector<float>(w.size())};
  size_t from = 0;
  for (int64_t o = 0; o < d[0]; ++o) {
    for (int64_t row = 0; row < d[1] * d[2]; ++row) {
      for (int64_t x = 0; x < d[3]; ++x) {
        m.elements[static_cast<size_t>(row * m.columns + o * d[3] + x)] =
            w[from++];
      }
    }
  }
  return m;
}

class GroupFinder {
 public:
  explicit GroupFinder(const Graph& graph) : graph_(graph) {}

  std::vector<LayerGroup> Find() {
    for (BlockId block : BlocksOutsideCalls(graph_)) {
      for (ValueId result : graph_.block(block).results) {
        Use(result, ir::kNoNode, /*usable=*/false);
      }
      for (NodeId id : graph_.block(block).nodes) {
        const Node& node = graph_.node(id);
        for (size_t i = 0; i < node.operands.size(); ++i) {
          Use(node.operands[i], id, IsLayer(node, i));
        }
      }
    }
    std::vector<LayerGroup> result;
    for (size_t i = 0; i < groups_.size(); ++i) {
      LayerGroup& group = groups_[i];
      if (!usable_[i] || !ReadInOneWay(group)) continue;
      group.form = FormOf(group.nodes[0], group.weight);
      group.transposed = Transposed(group.nodes[0]);
      result.push_back(std::move(group));
    }
    return result;
  }

 private:
  void Use(ValueId value, NodeId node, bool usable) {
    if (value == ir::kNoValue || !IsFloatConstant(graph_, value) ||
        graph_.value(value).weight == ir::kNoWeight) {
      return;
    }
    const auto [it, is_new] = index_.emplace(value, groups_.size());
    if (is_new) {
      groups_.push_back({.weight = value});
      usable_.push_back(true);
    }
    usable_[it->second] = usable_[it->second] && usable;
    if (node != ir::kNoNode) groups_[it->second].nodes.push_back(node);
  }

  // A weight that plays two parts can be split for neither.
  bool ReadInOneWay(const LayerGroup& group) const {
    const LayerForm form = FormOf(group.nodes[0], group.weight);
    const bool transposed = Transposed(group.nodes[0]);
    return std::all_of(group.nodes.begin(), group.nodes.end(),
                       [&](NodeId node) {
                         return FormOf(node, group.weight) == form &&
                                Transposed(node) == transposed;
                       }) &&
           (group.nodes.size() == 1 || form != LayerForm::kConvChannels);
  }

  bool Transposed(NodeId id) const {
    return ir::IntAttribute(graph_.node(id), "transB", 0) != 0;
  }

  // True if operand `index` may be a matrix of weights to be split.
  bool IsLayer(const Node& node, size_t index) const {
    const ValueId operand = node.operands[index];
    if (operand == ir::kNoValue || !IsFloatConstant(graph_, operand)) {
      return false;
    }
    const ir::WeightId weight = graph_.value(operand).weight;
    if (weight == ir::kNoWeight) return false;
    const size_t rank = graph_.weight(weight).dims.size();
    const bool twice =
        std::count(node.operands.begin(), node.operands.end(), operand) > 1;
    if (twice || node.results.size() != 1) return false;
    if (IsOp(node, "MatMul")) return rank == 2;
    if (IsOp(node, "Gemm")) return rank == 2 && index == 1;
    return IsOp(node, "Conv") && rank >= 3 && index == 1 &&
           ir::IntAttribute(node, "group", 1) == 1;
  }

  LayerForm FormOf(NodeId id, ValueId weight) const {
    const Node& node = graph_.node(id);
    if (IsOp(node, "Gemm")) return LayerForm::kGemm;
    if (IsOp(node, "Conv")) return LayerForm::kConvChannels;
    return node.operands[0] == weight ? LayerForm::kMatMulFirst
                                      : LayerForm::kMatMul;
  }

  const Graph& graph_;
  std::vector<LayerGroup> groups_;
  std::vector<bool> usable_;
  std::map<ValueId, size_t> index_;
};

}  // namespace

std::vector<LayerGroup> FindLayerGroups(const Graph& graph) {
  return GroupFinder(graph).Find();
}

bool CanSplitSpatially(const Node& node, const Dims& dims) {
  const std::string auto_pad = ir::StringAttribute(node, "auto_pad", "NOTSET");
  return dims.size() == 4 && dims[2] > 1 && dims[3] > 1 &&
         (auto_pad == "NOTSET" || auto_pad == "VALID");
}

Matrix FormMatrix(std::vector<float> elements, const Dims& dims, LayerForm form,
                  bool transposed) {
  if (form == LayerForm::kConvSpatial) return SpatialMatrix(elements, dims);
  int64_t columns = 1;
  for (size_t i = 1; i < dims.size(); ++i) columns *= dims[i];
  Matrix matrix{dims[0], columns, std::move(elements)};
  return transposed ? Transposed(matrix) : matrix;
}

// For all forms but the spatial one bytes and arithmetic are in proportion;
// there the first part runs at each column of its input, of which there are as
// many as the stride says.
int64_t LargestRank(const Matrix& matrix, const Dims& dims, LayerForm form,
                    const Node& node) {
  const int64_t all = matrix.rows * matrix.columns - 1;
  const int64_t rank = all / (matrix.rows + matrix.columns);
  if (form != LayerForm::kConvSpatial) return rank;
  const int64_t stride = ElementOr(ir::IntsAttribute(node, "strides"), 1, 1);
  return std::min(rank, all / (matrix.rows * stride + dims[0] * dims[3]));
}

}  // namespace onnx_memopt::rewrite
