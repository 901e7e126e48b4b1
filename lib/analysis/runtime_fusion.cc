#include "analysis/runtime_fusion.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "analysis/ort_facts.h"
#include "onnx_memopt/analysis/blocked_layout.h"

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

bool IsActivation(const Node& node) {
  return IsOp(node, "Relu") || IsOp(node, "Sigmoid") || IsOp(node, "Tanh") ||
         IsOp(node, "HardSigmoid") || IsOp(node, "HardSwish");
}

bool IsWholeBlocks(int64_t channels) {
  return channels % ort::kChannelBlock == 0;
}

// The runtime looks for constants in the graph of the convolution alone.
bool IsOwnConstant(const RuntimeContext& context, const Node& node,
                   ValueId operand) {
  return operand == kNoValue ||
         (context.IsConstant(operand) &&
          context.graph.value(operand).block == node.block);
}

// Filters and bias.
bool TakesConstants(const RuntimeContext& context, const Node& convolution) {
  return convolution.operands.size() > 1 &&
         std::all_of(convolution.operands.begin() + 1,
                     convolution.operands.end(), [&](ValueId operand) {
                       return IsOwnConstant(context, convolution, operand);
                     });
}

}  // namespace

bool TakesBlocks(const RuntimeContext& context, const Node& node) {
  if (!TakesConstants(context, node)) return false;
  const std::optional<ConcreteShape> filters = context.OperandShape(node, 1);
  if (!filters || filters->size() != 4) return false;
  const int64_t group = std::max<int64_t>(IntAttribute(node, "group", 1), 1);
  const int64_t channels = (*filters)[1];
  if (group == 1) {
    // Of images with few channels it reads the plain layout.
    return channels < ort::kChannelBlock || channels % ort::kChannelAlign == 0;
  }
  if (!IsWholeBlocks((*filters)[0])) return false;
  if (channels == 1 && (*filters)[0] == group) return true;
  return IsWholeBlocks(channels) && IsWholeBlocks((*filters)[0] / group);
}

bool IsInBlocks(const RuntimeContext& context, ValueId value) {
  return IsInBlocks(context.graph, value, [&](const Node& convolution) {
    return TakesBlocks(context, convolution);
  });
}

ConvolutionFusion::ConvolutionFusion(const RuntimeContext& context,
                                     absl::Span<const NodeId> nodes,
                                     absl::Span<const ValueId> results)
    : context_(context) {
  const ir::Graph& graph = context.graph;
  std::vector<ValueId> captured;
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    const auto use = [&](ValueId value) {
      if (value != kNoValue) ++uses_[value];
    };
    for (ValueId operand : node.operands) use(operand);
    if (node.blocks.empty()) continue;
    captured.clear();
    CollectUses(graph, id, &captured);
    for (ValueId value : captured) use(value);
  }
  // Has to be there in the end.
  for (ValueId result : results) {
    if (result != kNoValue) uses_[result] += 2;
  }
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    if (IsOp(node, "Conv") && TakesConstants(context, node)) {
      open_[node.results[0]] = id;
      continue;
    }
    if (IsOp(node, "Mul")) TakeSigmoid(node);
    // Of a sum of two convolutions the first runs with it.
    for (ValueId operand : node.operands) {
      if (operand == kNoValue) continue;
      const auto it = open_.find(operand);
      if (it != open_.end() && uses_[operand] == 1 &&
          Take(it->second, operand, id)) {
        break;
      }
    }
  }
}

const ConvolutionFusion::Step* ConvolutionFusion::With(
    NodeId convolution) const {
  const auto it = steps_.find(convolution);
  return it == steps_.end() ? nullptr : &it->second;
}

// Sigmoid(x) runs with x * Sigmoid(x).
void ConvolutionFusion::TakeSigmoid(const Node& product) {
  for (ValueId factor : product.operands) {
    if (factor == kNoValue) continue;
    const NodeId producer = context_.graph.value(factor).producer;
    if (producer == kNoNode || uses_.lookup(factor) != 1) continue;
    const Node& sigmoid = context_.graph.node(producer);
    if (!IsOp(sigmoid, "Sigmoid") || sigmoid.block != product.block ||
        sigmoid.operands[0] != OtherOperand(product, factor)) {
      continue;
    }
    taken_.insert(producer);
    gone_.insert(factor);
    return;
  }
}

// Lets a convolution that makes `image` run with what reads it, if it can.
bool ConvolutionFusion::Take(NodeId convolution, ValueId image, NodeId reader) {
  const Node& next = context_.graph.node(reader);
  Step step = steps_.lookup(convolution);  // empty where there is none
  const bool is_activation = IsActivation(next);
  if (step.sum != kNoValue || !IsFoldedInto(image, next)) {
    const Node& node = context_.graph.node(convolution);
    if (!IsInBlocks(context_, node.results[0])) return false;
    if (!is_activation) {
      if (step.sum != kNoValue) return false;
      step.sum = AddedTo(image, next);
      if (step.sum == kNoValue) return false;
    }
  }
  step.last = reader;
  steps_[convolution] = step;
  taken_.insert(reader);
  open_.erase(image);
  if (!is_activation) open_[next.results[0]] = convolution;
  return true;
}

// The other image of a sum; kNoValue if the runtime does not add it while the
// convolution runs.
ValueId ConvolutionFusion::AddedTo(ValueId image, const Node& node) const {
  if (!IsOp(node, "Add") && !IsOp(node, "Sum")) return kNoValue;
  const ValueId other = OtherOperand(node, image);
  return other != kNoValue && IsInBlocks(context_, other) &&
                 context_.ShapeOf(other) == context_.ShapeOf(image)
             ? other
             : kNoValue;
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
