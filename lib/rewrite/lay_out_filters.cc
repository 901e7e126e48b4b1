#include "onnx_memopt/rewrite/lay_out_filters.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
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
constexpr size_t kBias = 2;

class Layout {
 public:
  Layout(Builder& builder, BlockId body)
      : builder_(builder), graph_(builder.graph()), body_(body) {}

  void Run() {
    const std::vector<NodeId> nodes = graph_.block(body_).nodes;
    std::vector<NodeId> convolutions;
    for (NodeId id : nodes) {
      if (IsConvolution(graph_.node(id)) && NeedsCopy(graph_.node(id))) {
        convolutions.push_back(id);
      }
    }
    if (convolutions.empty()) return;
    CountUses();
    for (NodeId id : convolutions) {
      if (!Take(id, kFilters)) continue;
      Take(id, kBias);
    }
    std::vector<NodeId>& schedule = graph_.mutable_block(body_).nodes;
    schedule.insert(schedule.begin(), added_.begin(), added_.end());
    for (NodeId id : left_) {
      graph_.EraseNodes(graph_.node(id).block, {id});
    }
  }

 private:
  bool IsOutside(const Node& node, size_t operand) const {
    return operand < node.operands.size() &&
           node.operands[operand] != kNoValue &&
           graph_.value(node.operands[operand]).block != body_;
  }
  bool NeedsCopy(const Node& node) const {
    return IsOutside(node, kFilters) || IsOutside(node, kBias);
  }

  void CountUses() {
    const auto use = [&](ValueId value, bool inside) {
      if (value == kNoValue) return;
      ++uses_[value];
      if (inside) ++inside_[value];
    };
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      if (graph_.erased(id)) continue;
      const Node& node = graph_.node(id);
      const bool inside = node.block == body_ && IsConvolution(node);
      for (ValueId operand : node.operands) use(operand, inside);
    }
    for (size_t i = 0; i < graph_.num_blocks(); ++i) {
      for (ValueId result :
           graph_.block(BlockId(static_cast<uint32_t>(i))).results) {
        use(result, false);
      }
    }
  }

  // True if the operand is of the body then.
  bool Take(NodeId id, size_t operand) {
    if (!IsOutside(graph_.node(id), operand)) return true;
    const ValueId outer = graph_.node(id).operands[operand];
    auto it = copies_.find(outer);
    if (it == copies_.end()) {
      const bool is_weight =
          graph_.value(outer).kind == ir::ValueKind::kInitializer;
      ValueId copy = kNoValue;
      if (is_weight && operand == kBias) copy = Fold(outer);
      if (!is_weight && IsMadeFor(outer)) copy = Move(outer);
      if (copy == kNoValue) return false;
      it = copies_.try_emplace(outer, copy).first;
    }
    graph_.mutable_node(id).operands[operand] = it->second;
    return true;
  }

  // By a node that reads nothing but weights, for convolutions in the body.
  bool IsMadeFor(ValueId value) {
    const NodeId producer = graph_.value(value).producer;
    if (producer == ir::kNoNode || uses_[value] != inside_[value] ||
        graph_.value(value).pinned) {
      return false;
    }
    const Node& node = graph_.node(producer);
    return node.results.size() == 1 && node.blocks.empty() && !node.is_call &&
           !node.info->random && !node.operands.empty() &&
           std::all_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId operand) {
                         return operand == kNoValue ||
                                graph_.value(operand).kind ==
                                    ir::ValueKind::kInitializer;
                       });
  }

  ValueId Move(ValueId value) {
    const NodeId producer = graph_.value(value).producer;
    Node node = graph_.node(producer);
    node.block = body_;
    const ValueId copy = builder_.Value(body_, graph_.value(value).type,
                                        graph_.value(value).name);
    node.results[0] = copy;
    added_.push_back(graph_.AddNode(std::move(node)));
    graph_.mutable_value(copy).producer = added_.back();
    left_.push_back(producer);
    return copy;
  }

  ValueId Fold(ValueId bias) {
    const ir::Value& value = graph_.value(bias);
    const ValueId shape = builder_.Int64s(body_, "bias/shape", {-1});
    const ValueId copy =
        builder_.Op(body_, "Reshape", {bias, shape}, value.type, value.name);
    added_.push_back(graph_.value(copy).producer);
    return copy;
  }

  Builder& builder_;
  Graph& graph_;
  BlockId body_;
  llvm::DenseMap<ValueId, int> uses_;
  llvm::DenseMap<ValueId, int> inside_;  // by convolutions of the body
  llvm::DenseMap<ValueId, ValueId> copies_;
  std::vector<NodeId> added_;
  std::vector<NodeId> left_;  // without a reader
};

}  // namespace

void LayOutFilters(Builder& builder, BlockId body) {
  Layout(builder, body).Run();
}

}  // namespace onnx_memopt::rewrite
