#include "onnx_memopt/rewrite/lay_out_filters.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/rewrite/outline.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::BlockId;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

constexpr size_t kFilters = 1;

class Layout {
 public:
  Layout(Builder& builder, BlockId body)
      : builder_(builder), graph_(builder.graph()), body_(body) {}

  void Run() {
    // What makes them may be made in turn.
    while (MoveMakers()) {
    }
    const std::vector<NodeId> nodes = graph_.block(body_).nodes;
    for (NodeId id : nodes) FoldNamed(id);
    std::vector<NodeId>& schedule = graph_.mutable_block(body_).nodes;
    schedule.insert(schedule.begin(), added_.begin(), added_.end());
  }

 private:
  bool IsOutside(ValueId value) const {
    return value != kNoValue && graph_.value(value).block != body_;
  }

  bool MoveMakers() {
    llvm::DenseSet<ValueId> wanted;
    for (NodeId id : graph_.block(body_).nodes) {
      const Node& node = graph_.node(id);
      for (ValueId operand : node.operands) {
        if (IsOutside(operand) && IsMade(operand) &&
            (IsConvolution(node) || IsSmall(operand))) {
          wanted.insert(operand);
        }
      }
    }
    if (wanted.empty()) return false;
    DropReadElsewhere(&wanted);
    std::vector<NodeId> makers;
    BlockId block = ir::kNoBlock;
    for (NodeId id : graph_.block(body_).nodes) {
      for (ValueId operand : graph_.node(id).operands) {
        if (operand == kNoValue || !wanted.erase(operand)) continue;
        const NodeId maker = graph_.value(operand).producer;
        if (block == ir::kNoBlock) block = graph_.node(maker).block;
        if (graph_.node(maker).block == block) makers.push_back(maker);
      }
    }
    if (makers.empty()) return false;
    MoveIntoSubgraph(graph_, makers, body_);
    std::vector<NodeId>& nodes = graph_.mutable_block(body_).nodes;
    std::rotate(nodes.begin(),
                nodes.end() - static_cast<std::ptrdiff_t>(makers.size()),
                nodes.end());
    return true;
  }

  // By a node that reads nothing but weights, or what is made of them.
  bool IsMade(ValueId value) const {
    const NodeId producer = graph_.value(value).producer;
    if (producer == ir::kNoNode || graph_.value(value).pinned) return false;
    const Node& node = graph_.node(producer);
    return node.results.size() == 1 && node.blocks.empty() && !node.is_call &&
           !node.info->random && !node.operands.empty() &&
           std::all_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId operand) {
                         return operand == kNoValue ||
                                graph_.value(operand).kind ==
                                    ir::ValueKind::kInitializer ||
                                IsMade(operand);
                       });
  }

  bool IsSmall(ValueId value) const {
    const std::optional<ir::Dim> bytes = SizeBytes(graph_.value(value).type);
    return bytes && bytes->is_constant() &&
           bytes->constant() <= kSmallWeightBytes;
  }

  void DropReadElsewhere(llvm::DenseSet<ValueId>* wanted) const {
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      if (graph_.erased(id) || graph_.node(id).block == body_) continue;
      for (ValueId operand : graph_.node(id).operands) {
        if (operand != kNoValue) wanted->erase(operand);
      }
    }
    for (size_t i = 0; i < graph_.num_blocks(); ++i) {
      for (ValueId result :
           graph_.block(BlockId(static_cast<uint32_t>(i))).results) {
        if (result != kNoValue) wanted->erase(result);
      }
    }
  }

  // Small weights that stay outside since the model names them.
  void FoldNamed(NodeId id) {
    const bool is_convolution = IsConvolution(graph_.node(id));
    if (is_convolution ? IsOutside(graph_.node(id).operands[kFilters])
                       : graph_.node(id).op_type != "BatchNormalization") {
      return;
    }
    const size_t count = graph_.node(id).operands.size();
    for (size_t i = kFilters; i < count; ++i) {
      const ValueId operand = graph_.node(id).operands[i];
      if (!IsOutside(operand) || !IsSmall(operand) ||
          graph_.value(operand).kind != ir::ValueKind::kInitializer) {
        continue;
      }
      auto it = folded_.find(operand);
      if (it == folded_.end()) {
        it = folded_.try_emplace(operand, Fold(operand)).first;
      }
      graph_.mutable_node(id).operands[i] = it->second;
    }
  }

  // One dimension, as all that is folded has.
  ValueId Fold(ValueId weight) {
    const ir::Value& value = graph_.value(weight);
    const ValueId shape = builder_.Int64s(body_, "split/all", {-1});
    const ValueId copy =
        builder_.Op(body_, "Reshape", {weight, shape}, value.type, value.name);
    added_.push_back(graph_.value(copy).producer);
    return copy;
  }

  Builder& builder_;
  Graph& graph_;
  BlockId body_;
  llvm::DenseMap<ValueId, ValueId> folded_;
  std::vector<NodeId> added_;
};

}  // namespace

void LayOutFilters(Builder& builder, BlockId body) {
  Layout(builder, body).Run();
}

}  // namespace onnx_memopt::rewrite
