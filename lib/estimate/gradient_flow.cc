#include "estimate/gradient_flow.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {
namespace {

using ir::NodeId;
using ir::ValueId;

// Operands that hold weights, as a bit mask; sorted by name.
struct WeightOperands {
  absl::string_view op;
  uint32_t operands = 0;
};
constexpr uint32_t kAll = UINT32_MAX;
constexpr std::array<WeightOperands, 20> kWeightOperands = {{
    {"Attention", kAll},
    {"BatchNormalization", 0b110},
    {"Conv", kAll},
    {"ConvTranspose", kAll},
    {"Einsum", kAll},
    {"FusedMatMul", kAll},
    {"GRU", 0b1110},
    {"Gather", 0b1},
    {"Gemm", kAll},
    {"GroupNormalization", 0b110},
    {"InstanceNormalization", 0b110},
    {"LSTM", 0b1110},
    {"LayerNormalization", 0b110},
    {"MatMul", kAll},
    {"PRelu", 0b10},
    {"RMSNormalization", 0b10},
    {"RNN", 0b1110},
    {"SimplifiedLayerNormalization", 0b10},
    {"SkipLayerNormalization", 0b11100},
    {"SkipSimplifiedLayerNormalization", 0b1100},
}};

uint32_t WeightMask(const ir::Node& node) {
  const auto* row = std::lower_bound(
      kWeightOperands.begin(), kWeightOperands.end(), node.op_type,
      [](const WeightOperands& r, absl::string_view op) { return r.op < op; });
  return row != kWeightOperands.end() && row->op == node.op_type ? row->operands
                                                                 : 0;
}

// Weights beside something that has a gradient.
bool JoinsWeights(absl::string_view op) {
  return op == "Add" || op == "Sub" || op == "Mul" || op == "Div" ||
         op == "Concat" || op == "Sum";
}

// The result is the operand's bytes, or a copy of them, for a weight.
bool KeepsWeights(absl::string_view op) {
  static constexpr std::array<absl::string_view, 11> kOps = {
      "Cast",  "Concat", "Expand",  "Flatten",   "Identity", "Reshape",
      "Slice", "Split",  "Squeeze", "Transpose", "Unsqueeze"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

class Builder {
 public:
  Builder(const ir::Graph& graph, const std::vector<bool>& ignored)
      : graph_(graph), ignored_(ignored) {
    flow_.depends_on_input.resize(graph.num_values());
    flow_.has_gradient.resize(graph.num_values());
    flow_.trained.resize(graph.num_values());
    flow_.weights_behind.resize(graph.num_values());
    only_softmax_.resize(graph.num_values());
    for (size_t i = 0; i < graph.num_values(); ++i) {
      const ValueId id{static_cast<uint32_t>(i)};
      const ir::Value& value = graph.value(id);
      if (value.weight != ir::kNoWeight) {
        flow_.weights_behind[i].push_back(id);
      } else if (value.kind == ir::ValueKind::kInput) {
        flow_.depends_on_input[i] = true;
      }
    }
  }

  GradientFlow Build(absl::Span<const NodeId> steps) {
    FindSoftmaxOperands(steps);
    for (NodeId id : steps) Visit(id);
    return std::move(flow_);
  }

 private:
  void FindSoftmaxOperands(absl::Span<const NodeId> steps) {
    std::vector<int> uses(graph_.num_values());
    for (NodeId id : steps) {
      const ir::Node& node = graph_.node(id);
      for (ValueId operand : node.operands) {
        if (operand != ir::kNoValue) ++uses[ir::Index(operand)];
      }
      if (node.op_type == "Softmax" && !node.operands.empty() &&
          node.operands[0] != ir::kNoValue) {
        only_softmax_[ir::Index(node.operands[0])] = true;
      }
    }
    for (size_t i = 0; i < uses.size(); ++i) {
      if (uses[i] != 1) only_softmax_[i] = false;
    }
  }

  void MarkTrained(ValueId operand) {
    for (ValueId weight : flow_.weights_behind[ir::Index(operand)]) {
      const ir::Value& value = graph_.value(weight);
      const ir::Weight& data = graph_.weight(value.weight);
      int64_t elements = 1;
      for (int64_t dim : data.dims) elements = dim > 1 ? 2 : elements;
      if (!IsFloatingPoint(value) || elements < 2 ||
          ignored_[ir::Index(weight)] || value.kind == ir::ValueKind::kResult) {
        // A Constant node is not a parameter of the model.
        continue;
      }
      flow_.trained[ir::Index(weight)] = true;
      flow_.has_gradient[ir::Index(weight)] = true;
      flow_.has_gradient[ir::Index(operand)] = true;
    }
  }

  void Visit(NodeId id) {
    const ir::Node& node = graph_.node(id);
    std::vector<ValueId> uses;
    ir::CollectUses(graph_, id, &uses);
    const bool facts_only = node.op_type == "Shape" || node.op_type == "Size";
    bool depends = false;
    bool joined = false;
    for (ValueId use : uses) {
      depends |= flow_.depends_on_input[ir::Index(use)];
      joined |= flow_.has_gradient[ir::Index(use)];
    }
    MarkWeights(node, joined);
    bool has_gradient = false;
    bool all_weights = !node.operands.empty();
    for (ValueId use : uses) has_gradient |= flow_.has_gradient[ir::Index(use)];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i];
      if (operand == ir::kNoValue) continue;
      if (i > 0 && node.op_type != "Concat") break;
      all_weights &= !flow_.weights_behind[ir::Index(operand)].empty();
    }
    for (ValueId result : node.results) {
      if (result == ir::kNoValue) continue;
      const size_t index = ir::Index(result);
      flow_.depends_on_input[index] = depends && !facts_only;
      flow_.has_gradient[index] = has_gradient && node.info->differentiable &&
                                  IsFloatingPoint(graph_.value(result));
      if (!all_weights || !KeepsWeights(node.op_type)) continue;
      for (ValueId operand : node.operands) {
        if (operand == ir::kNoValue) continue;
        for (ValueId weight : flow_.weights_behind[ir::Index(operand)]) {
          if (IsFloatingPoint(graph_.value(weight))) {
            flow_.weights_behind[index].push_back(weight);
          }
        }
        if (node.op_type != "Concat") break;
      }
    }
  }

  void MarkWeights(const ir::Node& node, bool joined) {
    const uint32_t mask = WeightMask(node);
    const bool microsoft = node.domain == "com.microsoft";
    const bool joins = joined && JoinsWeights(node.op_type);
    // A mask that is added to scores.
    const bool scores = !node.results.empty() &&
                        node.results[0] != ir::kNoValue &&
                        only_softmax_[ir::Index(node.results[0])];
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i];
      if (operand == ir::kNoValue ||
          flow_.weights_behind[ir::Index(operand)].empty()) {
        continue;
      }
      if (ir::Lists(mask, i) || microsoft || (joins && !scores)) {
        MarkTrained(operand);
      }
    }
  }

  const ir::Graph& graph_;
  const std::vector<bool>& ignored_;
  std::vector<bool> only_softmax_;  // a Softmax is all that reads the value
  GradientFlow flow_;
};

}  // namespace

bool IsFloatingPoint(const ir::Value& value) {
  const ir::Type* type = &value.type;
  // A sequence of tensors has gradients as they have.
  while (!type->is_tensor() && type->nested) type = type->nested.get();
  const ir::ElementType element = type->element;
  return element == ir::ElementType::kFloat ||
         element == ir::ElementType::kFloat16 ||
         element == ir::ElementType::kBfloat16 ||
         element == ir::ElementType::kDouble;
}

GradientFlow FindGradientFlow(const ir::Graph& graph,
                              absl::Span<const NodeId> steps,
                              const std::vector<bool>& ignored) {
  return Builder(graph, ignored).Build(steps);
}

}  // namespace onnx_memopt::estimate
