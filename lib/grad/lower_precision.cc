#include "grad/lower_precision.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/ir/op_info.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {
namespace {

using ir::ElementType;
using ir::NodeId;
using ir::ValueId;
using rewrite::Emitter;

// The largest numbers, rounded towards zero.
constexpr double kMaxFloat16 = 65504;
constexpr double kMaxBfloat16 = 3.38e38;

// What a value wants its readers to compute in.
enum class Wish : uint8_t {
  kNone,     // of weights and inputs alone: as the other operands
  kHalf,     // activations
  kFloat32,  // statistics and the like
};

class Lowering {
 public:
  Lowering(ElementType half, absl::Span<const ValueId> parameters,
           rewrite::Builder* builder)
      : half_(half),
        graph_(builder->graph()),
        trained_(parameters.begin(), parameters.end()),
        e_(builder, ir::kMainBlock) {
    e_.set_prefix("precision");
  }

  void Run(absl::Span<ValueId* const> outputs) {
    const std::vector<NodeId> nodes = graph_.block(ir::kMainBlock).nodes;
    for (NodeId id : nodes) {
      Visit(id);
      e_.mutable_nodes().push_back(id);
    }
    for (ValueId* output : outputs) *output = AsFloat(*output);
    graph_.mutable_block(ir::kMainBlock).nodes = e_.nodes();
  }

 private:
  // In float32 in the model.
  bool IsReal(ValueId value) const {
    return value != ir::kNoValue && graph_.value(value).type.is_tensor() &&
           (e_.element(value) == ElementType::kFloat ||
            lowered_.contains(value));
  }
  Wish WishOf(ValueId value) const {
    const auto it = wishes_.find(value);
    return it == wishes_.end() ? Wish::kNone : it->second;
  }

  void Visit(NodeId id) {
    const ir::Node& node = graph_.node(id);
    Wish joined = Wish::kNone;
    bool trained = false;
    for (ValueId operand : node.operands) {
      if (!IsReal(operand)) continue;
      const Wish wish = WishOf(operand);
      if (joined != Wish::kHalf && wish != Wish::kNone) joined = wish;
      trained = trained || trained_.contains(operand);
    }
    if (trained) {
      for (ValueId result : node.results) {
        if (result != ir::kNoValue) trained_.insert(result);
      }
    }
    // Types of a model with casts of its own are on purpose.
    if (node.op_type == "Cast" && node.domain.empty()) {
      return Wishes(node, Wish::kFloat32);
    }
    const ir::OpInfo& info = *node.info;
    const bool may = node.blocks.empty() && !node.is_call &&
                     ir::Takes(info, half_, node.opset);
    const bool is_product = info.recompute == ir::RecomputeCost::kExpensive;
    const ir::Float32Need need = NeedOf(node);
    if (may && need == ir::Float32Need::kNone &&
        (joined == Wish::kHalf || is_product)) {
      return Lower(id);
    }
    Keep(id);
    switch (need) {
      case ir::Float32Need::kNone:
        return Wishes(node, joined);
      case ir::Float32Need::kStatistics:
        return Wishes(node, Wish::kHalf);
      default:
        return Wishes(node, Wish::kFloat32);
    }
  }

  // With fixed statistics a BatchNormalization is a product and a sum.
  static ir::Float32Need NeedOf(const ir::Node& node) {
    const bool takes_statistics =
        node.op_type == "BatchNormalization" && node.domain.empty() &&
        ir::IntAttribute(node, "training_mode", 0) != 0;
    return takes_statistics ? ir::Float32Need::kStatistics
                            : node.info->needs_float32;
  }

  void Wishes(const ir::Node& node, Wish wish) {
    for (ValueId result : node.results) {
      if (IsReal(result)) wishes_[result] = wish;
    }
  }

  void Lower(NodeId id) {
    const ir::OpInfo& info = *graph_.node(id).info;
    for (size_t i = 0; i < graph_.node(id).operands.size(); ++i) {
      const ValueId operand = graph_.node(id).operands[i];
      if (!IsReal(operand)) continue;
      const ValueId cast = ir::Lists(info.float32_operands, i)
                               ? AsFloat(operand)
                               : AsHalf(operand);
      graph_.mutable_node(id).operands[i] = cast;
    }
    const ir::Node& node = graph_.node(id);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      if (!IsReal(result)) continue;
      if (ir::Lists(info.float32_results, i)) {
        wishes_[result] = Wish::kFloat32;
        continue;
      }
      wishes_[result] = Wish::kHalf;
      lowered_.insert(result);
      ir::Value& value = graph_.mutable_value(result);
      value.type.element = half_;
      value.contents = nullptr;
      // What the model's file says of the old name's type holds no more.
      value.name = e_.builder().UniqueName(absl::StrCat(value.name, "/16"));
      value.source_block = ir::kNoBlock;
    }
  }

  // All that the node reads is float32, in its blocks too.
  void Keep(NodeId id) {
    const size_t count = graph_.node(id).operands.size();
    for (size_t i = 0; i < count; ++i) {
      const ValueId operand = graph_.node(id).operands[i];
      if (IsReal(operand)) {
        graph_.mutable_node(id).operands[i] = AsFloat(operand);
      }
    }
    for (const ir::BlockId block : BlocksWithin(graph_, id)) {
      for (ValueId& result : graph_.mutable_block(block).results) {
        if (IsReal(result)) result = AsFloat(result);
      }
      for (NodeId inner : graph_.block(block).nodes) {
        ir::Node& node = graph_.mutable_node(inner);
        for (ValueId& operand : node.operands) {
          if (IsReal(operand)) operand = AsFloat(operand);
        }
      }
    }
  }

  ValueId AsFloat(ValueId value) {
    if (!lowered_.contains(value)) return value;
    const auto [it, added] = floats_.try_emplace(value, ir::kNoValue);
    if (added) it->second = e_.Cast(value, ElementType::kFloat);
    return it->second;
  }

  ValueId AsHalf(ValueId value) {
    if (lowered_.contains(value)) return value;
    const auto known = halves_.find(value);
    if (known != halves_.end()) return known->second;
    const ValueId cast = e_.Cast(InRange(value), half_);
    halves_[value] = cast;
    return cast;
  }

  // A mask of -3.4e38 must not become one of infinities: a row of them would
  // have no softmax.
  ValueId InRange(ValueId value) {
    const ir::Value& v = graph_.value(value);
    const bool is_data = v.kind == ir::ValueKind::kInput ||
                         trained_.contains(value) ||
                         WishOf(value) != Wish::kNone;
    if (is_data) return value;
    const double limit =
        half_ == ElementType::kFloat16 ? kMaxFloat16 : kMaxBfloat16;
    if (v.contents != nullptr &&
        std::all_of(v.contents->elements.begin(), v.contents->elements.end(),
                    [&](const ir::Element& element) {
                      return element.real && std::abs(*element.real) <= limit;
                    })) {
      return value;
    }
    return e_.Op("Clip", {value, e_.Real(-limit, ElementType::kFloat),
                          e_.Real(limit, ElementType::kFloat)});
  }

  const ElementType half_;
  ir::Graph& graph_;
  llvm::DenseSet<ValueId> trained_;  // parameters, and what depends on them
  Emitter e_;
  llvm::DenseSet<ValueId> lowered_;  // values that are in 16 bits now
  llvm::DenseMap<ValueId, Wish> wishes_;
  llvm::DenseMap<ValueId, ValueId> halves_;
  llvm::DenseMap<ValueId, ValueId> floats_;
};

}  // namespace

void LowerPrecision(ElementType half, absl::Span<const ValueId> parameters,
                    absl::Span<ValueId* const> outputs,
                    rewrite::Builder& builder) {
  Lowering(half, parameters, &builder).Run(outputs);
}

}  // namespace onnx_memopt::grad
