#include "rewrite/layer_parts.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Attribute;
using ir::BlockId;
using ir::ElementType;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

std::string Bytes(const Matrix& matrix) {
  std::string bytes(matrix.elements.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), matrix.elements.data(), bytes.size());
  return bytes;
}

// [r, o * kw] to [o, r, 1, kw].
Matrix ToHorizontal(const Matrix& right, int64_t outputs, int64_t width) {
  Matrix m{outputs, right.rows * width,
           std::vector<float>(right.elements.size())};
  for (int64_t r = 0; r < right.rows; ++r) {
    for (int64_t o = 0; o < outputs; ++o) {
      for (int64_t x = 0; x < width; ++x) {
        m.elements[static_cast<size_t>((o * right.rows + r) * width + x)] =
            right.elements[static_cast<size_t>(r * right.columns + o * width +
                                               x)];
      }
    }
  }
  return m;
}

// Of what is between the two parts.
ir::Type TypeBetween(const ir::Type& result, LayerForm form, int64_t rank) {
  ir::Type type = result;
  if (!type.shape || type.shape->empty()) return type;
  ir::Shape& shape = *type.shape;
  const size_t last = shape.size() - 1;
  size_t axis = 1;
  if (form == LayerForm::kMatMul) axis = last;
  if (form == LayerForm::kMatMulFirst) {
    // A vector on the right has no columns.
    axis = shape.size() == 1 ? 0 : last - 1;
  }
  if (axis < shape.size()) shape[axis] = ir::Dim(rank);
  // The columns are those of the input.
  if (form == LayerForm::kConvSpatial) shape[last] = std::nullopt;
  return type;
}

void SplitGemm(const Node& node, std::vector<Attribute>* first,
               std::vector<Attribute>* second) {
  for (const Attribute& attribute : node.attributes) {
    if (attribute.name == "transA") first->push_back(attribute);
    if (attribute.name == "alpha" || attribute.name == "beta") {
      second->push_back(attribute);
    }
  }
}

// Rows go to the first part and columns to the second.
void SplitConv(const Node& node, std::vector<Attribute>* first,
               std::vector<Attribute>* second) {
  for (const char* name : {"strides", "dilations"}) {
    const std::vector<int64_t>* list = ir::IntsAttribute(node, name);
    if (list == nullptr) continue;
    first->push_back({name, Dims{ElementOr(list, 0, 1), 1}});
    second->push_back({name, Dims{1, ElementOr(list, 1, 1)}});
  }
  const std::vector<int64_t>* pads = ir::IntsAttribute(node, "pads");
  if (pads == nullptr) return;
  first->push_back(
      {"pads", Dims{ElementOr(pads, 0, 0), 0, ElementOr(pads, 2, 0), 0}});
  second->push_back(
      {"pads", Dims{0, ElementOr(pads, 1, 0), 0, ElementOr(pads, 3, 0)}});
}

}  // namespace

ValueId LayerParts::Weight(const LayerGroup& group, absl::string_view suffix,
                           const Matrix& matrix, const Dims& dims) {
  return builder_.OwnedTensor(
      graph_.value(group.weight).block,
      absl::StrCat(graph_.value(group.weight).name, suffix),
      ElementType::kFloat, dims, bytes_.Own(Bytes(matrix)));
}

void LayerParts::Replace(const LayerGroup& group, LayerForm form,
                         const Dims& dims, const Factors& factors) {
  const Matrix& left = factors.left;
  const Matrix& right = factors.right;
  const int64_t r = left.columns;
  std::array<ValueId, 2> parts{};
  switch (form) {
    case LayerForm::kMatMul:
    case LayerForm::kGemm:
      parts = {Weight(group, "_left", left, {left.rows, r}),
               Weight(group, "_right", right, {r, right.columns})};
      break;
    case LayerForm::kMatMulFirst:
      parts = {Weight(group, "_right", right, {r, right.columns}),
               Weight(group, "_left", left, {left.rows, r})};
      break;
    case LayerForm::kConvChannels: {
      Dims first = dims;
      first[0] = r;
      Dims second(dims.size(), 1);
      second[0] = dims[0];
      second[1] = r;
      parts = {Weight(group, "_right", right, first),
               Weight(group, "_left", left, second)};
      break;
    }
    case LayerForm::kConvSpatial:
      parts = {
          Weight(group, "_vertical", Transposed(left),
                 {r, dims[1], dims[2], 1}),
          Weight(group, "_horizontal", ToHorizontal(right, dims[0], dims[3]),
                 {dims[0], r, 1, dims[3]})};
      break;
  }
  for (NodeId node : group.nodes) ReplaceNode(node, form, parts, r);
  replaced_.push_back(group.weight);
}

void LayerParts::ReplaceNode(NodeId id, LayerForm form,
                             const std::array<ValueId, 2>& parts,
                             int64_t rank) {
  const Node node = graph_.node(id);
  const ir::Type type = graph_.value(node.results[0]).type;
  const std::string name = graph_.DisplayName(id);
  std::vector<Attribute> first;
  std::vector<Attribute> second;
  std::vector<ValueId> first_operands{node.operands[0], parts[0]};
  std::vector<ValueId> second_operands{ir::kNoValue, parts[1]};
  if (form == LayerForm::kMatMulFirst) {
    first_operands = {parts[0], node.operands[1]};
    second_operands = {parts[1], ir::kNoValue};
  }
  if (form == LayerForm::kGemm) {
    SplitGemm(node, &first, &second);
  } else if (form == LayerForm::kConvChannels) {
    first = node.attributes;
  } else if (form == LayerForm::kConvSpatial) {
    SplitConv(node, &first, &second);
  }
  // A bias belongs to the second part.
  if (node.operands.size() > 2 && node.operands[2] != ir::kNoValue) {
    second_operands.push_back(node.operands[2]);
  }
  const ValueId between = builder_.Op(
      node.block, node.op_type, first_operands, TypeBetween(type, form, rank),
      absl::StrCat(graph_.value(node.results[0]).name, "_low_rank"), first);
  for (ValueId& operand : second_operands) {
    if (operand == ir::kNoValue) operand = between;
  }
  const NodeId last =
      builder_.Node(node.block, node.op_type, second_operands,
                    {node.results[0]}, absl::StrCat(name, "/second"), second);
  for (const NodeId made : {graph_.value(between).producer, last}) {
    graph_.mutable_node(made).opset = node.opset;
    new_nodes_[id].push_back(made);
  }
}

void LayerParts::Finish() {
  std::vector<std::vector<NodeId>> dead(graph_.num_blocks());
  for (size_t i = 0; i < graph_.num_blocks(); ++i) {
    const BlockId block{static_cast<uint32_t>(i)};
    std::vector<NodeId> schedule;
    for (NodeId id : graph_.block(block).nodes) {
      schedule.push_back(id);
      const auto it = new_nodes_.find(id);
      if (it == new_nodes_.end()) continue;
      schedule.insert(schedule.end(), it->second.begin(), it->second.end());
      dead[i].push_back(id);
    }
    graph_.mutable_block(block).nodes = std::move(schedule);
  }
  for (ValueId value : replaced_) {
    const ir::Value& v = graph_.value(value);
    if (v.kind == ir::ValueKind::kResult) {
      dead[Index(v.block)].push_back(v.producer);
    } else {
      std::erase(graph_.mutable_block(v.block).initializers, value);
    }
  }
  for (size_t i = 0; i < dead.size(); ++i) {
    graph_.EraseNodes(BlockId(static_cast<uint32_t>(i)), dead[i]);
  }
}

}  // namespace onnx_memopt::rewrite
