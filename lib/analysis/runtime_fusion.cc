#include "analysis/runtime_fusion.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace onnx_memopt::analysis {
namespace {

using ir::kNoNode;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

// A plain node with one result.
bool IsOp(const Node& node, absl::string_view name) {
  return node.domain.empty() && node.op_type == name && !node.results.empty() &&
         node.results[0] != kNoValue &&
         std::all_of(node.results.begin() + 1, node.results.end(),
                     [](ValueId result) { return result == kNoValue; });
}

// Of two operands; kNoValue if there are more or fewer.
ValueId OtherOperand(const Node& node, ValueId operand) {
  if (node.operands.size() != 2) return kNoValue;
  return node.operands[node.operands[0] == operand ? 1 : 0];
}

}  // namespace

ConvolutionFusion::ConvolutionFusion(const RuntimeContext& context,
                                     absl::Span<const NodeId> nodes,
                                     absl::Span<const ValueId> results)
    : context_(context) {
  const ir::Graph& graph = context.graph;
  std::vector<ValueId> captured;
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    const auto read = [&](ValueId value) {
      if (value == kNoValue) return;
      ++uses_[value];
      reader_[value] = id;
    };
    for (ValueId operand : node.operands) read(operand);
    if (node.blocks.empty()) continue;
    captured.clear();
    CollectUses(graph, id, &captured);
    for (ValueId value : captured) read(value);
  }
  // Has to be there in the end.
  for (ValueId result : results) {
    if (result != kNoValue) uses_[result] += 2;
  }
  std::vector<NodeId> inside;
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    if (!IsOp(node, "Conv") || node.operands.size() < 2 ||
        !context.IsConstant(node.operands[1])) {
      continue;
    }
    inside.clear();
    const Step step = Follow(id, &inside);
    if (inside.empty()) continue;
    inside_.insert(inside.begin(), inside.end());
    by_last_[step.last] = step;
  }
}

const ConvolutionFusion::Step* ConvolutionFusion::EndingIn(NodeId node) const {
  const auto it = by_last_.find(node);
  return it == by_last_.end() ? nullptr : &it->second;
}

ConvolutionFusion::Step ConvolutionFusion::Follow(
    NodeId convolution, std::vector<NodeId>* inside) const {
  const ir::Graph& graph = context_.graph;
  Step step{.convolution = convolution, .last = convolution};
  while (step.sum == kNoValue) {
    const ValueId image = graph.node(step.last).results[0];
    const auto uses = uses_.find(image);
    if (uses == uses_.end() || uses->second != 1) break;
    const NodeId reader = reader_.find(image)->second;
    const Node& next = graph.node(reader);
    if (by_last_.contains(reader)) break;
    if (!IsFoldedInto(image, next)) {
      // A sum of two images.
      if (!IsOp(next, "Add") && !IsOp(next, "Sum")) break;
      const ValueId other = OtherOperand(next, image);
      if (other == kNoValue || context_.IsConstant(other) ||
          context_.ShapeOf(other) != context_.ShapeOf(image)) {
        break;
      }
      step.sum = other;
    }
    inside->push_back(step.last);
    step.last = reader;
  }
  return step;
}

// True if the node does the same to all of a channel, by constants.
bool ConvolutionFusion::IsFoldedInto(ValueId image, const Node& node) const {
  if (IsOp(node, "BatchNormalization")) {
    return node.operands[0] == image &&
           std::all_of(
               node.operands.begin() + 1, node.operands.end(),
               [&](ValueId operand) { return context_.IsConstant(operand); });
  }
  if (!IsOp(node, "Mul") && !IsOp(node, "Add")) return false;
  const ValueId other = OtherOperand(node, image);
  if (other == kNoValue || !context_.IsConstant(other)) return false;
  const std::optional<ConcreteShape> factors = context_.ShapeOf(other);
  const std::optional<ConcreteShape> shape = context_.ShapeOf(image);
  if (!factors || !shape || shape->size() < 2 ||
      factors->size() > shape->size()) {
    return false;
  }
  // All dimensions are 1 but that of the channels.
  const size_t channels = factors->size() + 1 - shape->size();
  for (size_t i = 0; i < factors->size(); ++i) {
    const bool is_channels =
        factors->size() + 1 >= shape->size() && i == channels;
    if ((*factors)[i] != 1 && !is_channels) return false;
  }
  return true;
}

}  // namespace onnx_memopt::analysis
