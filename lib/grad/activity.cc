#include "onnx_memopt/grad/activity.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/grad/rules.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::grad {
namespace {

using ir::Index;
using ir::NodeId;
using ir::ValueId;

// Sequences and optionals of floats carry gradients too, even if no rule does.
bool MayCarry(const ir::Type& type) {
  if (type.kind == ir::TypeKind::kTensor) return HasGradient(type);
  return type.kind != ir::TypeKind::kSparseTensor;
}

llvm::BitVector Reached(const ir::Graph& graph,
                        absl::Span<const ValueId> from) {
  llvm::BitVector reached(static_cast<unsigned>(graph.num_values()));
  for (ValueId value : from) reached.set(static_cast<unsigned>(Index(value)));
  std::vector<ValueId> uses;
  for (NodeId id : graph.block(ir::kMainBlock).nodes) {
    const ir::Node& node = graph.node(id);
    if (!node.info->differentiable) continue;
    uses.clear();
    CollectUses(graph, id, &uses);
    const bool any = std::any_of(uses.begin(), uses.end(), [&](ValueId v) {
      return reached[static_cast<unsigned>(Index(v))];
    });
    if (!any) continue;
    for (ValueId result : node.results) {
      if (result == ir::kNoValue || !MayCarry(graph.value(result).type)) {
        continue;
      }
      reached.set(static_cast<unsigned>(Index(result)));
    }
  }
  return reached;
}

llvm::BitVector Leading(const ir::Graph& graph, absl::Span<const ValueId> to) {
  llvm::BitVector leading(static_cast<unsigned>(graph.num_values()));
  for (ValueId value : to) {
    if (MayCarry(graph.value(value).type)) {
      leading.set(static_cast<unsigned>(Index(value)));
    }
  }
  std::vector<ValueId> uses;
  const std::vector<NodeId>& nodes = graph.block(ir::kMainBlock).nodes;
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    const ir::Node& node = graph.node(*it);
    if (!node.info->differentiable) continue;
    const bool any =
        std::any_of(node.results.begin(), node.results.end(), [&](ValueId v) {
          return v != ir::kNoValue && leading[static_cast<unsigned>(Index(v))];
        });
    if (!any) continue;
    uses.clear();
    CollectUses(graph, *it, &uses);
    for (ValueId use : uses) {
      if (MayCarry(graph.value(use).type)) {
        leading.set(static_cast<unsigned>(Index(use)));
      }
    }
  }
  return leading;
}

// Operand i of BatchNormalization is moved by the batches, not by a gradient.
bool IsRunningStatistic(const ir::Node& node, size_t operand) {
  return node.op_type == "BatchNormalization" && operand >= 3;
}

// Initializers that are multiplied into angles: a rotary embedding's or a
// Fourier feature's frequencies, which frameworks do not train. All that is
// computed from them without another weight or a floating-point input goes
// through Sin and Cos.
class FrequencyTables {
 public:
  explicit FrequencyTables(const ir::Graph& graph)
      : graph_(graph), users_(graph.num_values()), mixed_(graph.num_values()) {
    std::vector<ValueId> uses;
    for (NodeId id : graph.block(ir::kMainBlock).nodes) {
      uses.clear();
      CollectUses(graph, id, &uses);
      for (ValueId use : uses) users_[Index(use)].push_back(id);
      MarkMixed(id, uses);
    }
  }

  bool Contains(ValueId initializer) const {
    std::vector<ValueId> pending = {initializer};
    std::vector<bool> seen(graph_.num_values());
    bool any = false;
    while (!pending.empty()) {
      const ValueId value = pending.back();
      pending.pop_back();
      for (NodeId user : users_[Index(value)]) {
        const ir::Node& node = graph_.node(user);
        if (node.op_type == "Sin" || node.op_type == "Cos") {
          any = true;
          continue;
        }
        for (ValueId result : node.results) {
          if (result == ir::kNoValue) continue;
          if (!HasGradient(graph_.value(result).type)) continue;
          if (mixed_[Index(result)] || !node.blocks.empty()) return false;
          if (seen[Index(result)]) continue;
          seen[Index(result)] = true;
          pending.push_back(result);
        }
      }
    }
    return any;
  }

 private:
  // Depends on a floating-point input, or on two initializers that are.
  void MarkMixed(NodeId id, const std::vector<ValueId>& uses) {
    int weights = 0;
    bool mixed = false;
    for (ValueId use : uses) {
      const ir::Value& value = graph_.value(use);
      if (!HasGradient(value.type)) continue;
      mixed =
          mixed || mixed_[Index(use)] || value.kind == ir::ValueKind::kInput;
      const bool large = value.kind == ir::ValueKind::kInitializer &&
                         value.contents == nullptr;
      if (large) ++weights;
    }
    mixed = mixed || weights > 1;
    for (ValueId result : graph_.node(id).results) {
      if (result != ir::kNoValue) mixed_[Index(result)] = mixed;
    }
  }

  const ir::Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> mixed_;
};

}  // namespace

bool HasGradient(const ir::Type& type) {
  if (!type.is_tensor()) return false;
  switch (type.element) {
    case ir::ElementType::kFloat:
    case ir::ElementType::kDouble:
    case ir::ElementType::kFloat16:
    case ir::ElementType::kBfloat16:
      return true;
    default:
      return false;
  }
}

Activity Activity::Compute(const ir::Graph& graph,
                           absl::Span<const ValueId> wanted,
                           absl::Span<const ValueId> outputs) {
  Activity activity;
  activity.active_ = Reached(graph, wanted);
  activity.active_ &= Leading(graph, outputs);
  return activity;
}

SavedValues SavedForBackward(const ir::Graph& graph, NodeId id,
                             const Activity& activity) {
  const ir::Node& node = graph.node(id);
  SavedValues saved;
  const auto active = [&](ValueId v) { return activity.active(v); };
  if (std::none_of(node.results.begin(), node.results.end(), active) ||
      std::none_of(node.operands.begin(), node.operands.end(), active)) {
    return saved;
  }
  const auto add = [&](ValueId value) {
    if (value == ir::kNoValue) return;
    auto& values = saved.values;
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      values.push_back(value);
    }
  };
  const RuleRow* row = FindRule(node.domain, node.op_type);
  saved.known = row != nullptr && node.info->saved.known;
  if (!saved.known) {
    std::vector<ValueId> uses;
    CollectUses(graph, id, &uses);
    for (ValueId value : uses) add(value);
    for (ValueId value : node.results) add(value);
    return saved;
  }
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (!ir::Lists(node.info->saved.operands, i)) continue;
    bool read = row->reads == Reads::kAll;
    for (size_t j = 0; !read && j < node.operands.size(); ++j) {
      read = j != i && active(node.operands[j]);
    }
    if (read) add(node.operands[i]);
  }
  for (size_t i = 0; i < node.results.size(); ++i) {
    if (ir::Lists(node.info->saved.results, i)) add(node.results[i]);
  }
  return saved;
}

std::vector<ValueId> Trainable(const ir::Graph& graph,
                               absl::Span<const ValueId> outputs,
                               std::vector<std::string>* why_not) {
  const llvm::BitVector leading = Leading(graph, outputs);
  std::vector<bool> statistic(graph.num_values());
  for (NodeId id : graph.block(ir::kMainBlock).nodes) {
    const ir::Node& node = graph.node(id);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] != ir::kNoValue && IsRunningStatistic(node, i)) {
        statistic[Index(node.operands[i])] = true;
      }
    }
  }
  const FrequencyTables frequencies(graph);
  std::vector<ValueId> trainable;
  for (ValueId id : graph.block(ir::kMainBlock).initializers) {
    const ir::Value& value = graph.value(id);
    if (!HasGradient(value.type)) continue;
    if (!leading[static_cast<unsigned>(Index(id))] || statistic[Index(id)]) {
      continue;
    }
    absl::string_view reason;
    if (value.type.shape && value.type.shape->empty()) {
      reason = "a scalar, as exporters make of constants";
    } else if (frequencies.Contains(id)) {
      reason = "used only for angles, as a table of frequencies";
    }
    if (reason.empty()) {
      trainable.push_back(id);
    } else if (why_not != nullptr) {
      why_not->push_back(
          absl::StrCat("\"", Printable(value.name), "\": ", reason));
    }
  }
  return trainable;
}

}  // namespace onnx_memopt::grad
