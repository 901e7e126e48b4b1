#include "onnx_memopt/rewrite/lift_rank.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/ir/flow_rules.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/outline.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::Shape;
using ir::Type;
using ir::ValueId;

// Since this version Softmax takes one axis, and Squeeze its axes as operand.
constexpr int kMinOpset = 13;

const Shape* ShapeOf(const Graph& graph, ValueId value) {
  const Type& type = graph.value(value).type;
  return type.is_tensor() && type.shape ? &*type.shape : nullptr;
}

bool IsMatMul(const Node& node) {
  return node.info->flow == ir::flow_rules::MatMul;
}
bool IsSoftmax(const Node& node) {
  return node.info->flow == ir::flow_rules::Softmax;
}

// True if all operands can get dimensions of 1 in front of any axis of them (of
// matrix products: any but the last two), and the result then has them too.
bool CanLift(const Graph& graph, NodeId id, size_t rank) {
  const Node& node = graph.node(id);
  if (!node.domain.empty() || node.opset < kMinOpset || node.is_call ||
      !node.blocks.empty() || node.info->random || node.results.size() != 1 ||
      node.results[0] == kNoValue) {
    return false;
  }
  const bool elementwise = node.info->flow == ir::flow_rules::Elementwise;
  if (!elementwise && !IsMatMul(node) && !IsSoftmax(node)) return false;
  const ir::Value& result = graph.value(node.results[0]);
  const Shape* shape = ShapeOf(graph, node.results[0]);
  if (shape == nullptr || shape->size() != rank || result.pinned ||
      result.weight != ir::kNoWeight) {
    return false;
  }
  if (IsSoftmax(node)) {
    // Counted from the front it would name another axis afterwards.
    if (IntAttribute(node, "axis", -1) != -1) return false;
  }
  bool any = false;
  for (ValueId operand : node.operands) {
    if (operand == kNoValue) continue;
    const Shape* from = ShapeOf(graph, operand);
    if (from == nullptr || (IsMatMul(node) && from->size() < 2)) return false;
    any |= from->size() == rank;
    // The runtime would fold a copy of it.
    const ir::WeightId weight = graph.value(operand).weight;
    if (weight != ir::kNoWeight && from->size() >= rank &&
        graph.weight(weight).size_bytes > kSmallWeightBytes) {
      return false;
    }
  }
  return any;
}

class Lifter {
 public:
  Lifter(Graph& graph, absl::Span<const NodeId> region, const Lift& lift)
      : graph_(graph), builder_(&graph), lift_(lift) {
    inside_.insert(region.begin(), region.end());
    block_ = graph.node(region.front()).block;
    for (NodeId id : region) results_.insert(graph.node(id).results[0]);
  }

  void Run(absl::Span<const NodeId> region) {
    FindReadOutside();
    for (NodeId id : region) LiftOperands(id);
    for (NodeId id : region) LiftResult(id);
    // Inside the region the lifted ones are read, and what is read outside
    // is restored from them.
    for (NodeId id : region) {
      for (ValueId& operand : graph_.mutable_node(id).operands) {
        const auto it = new_results_.find(operand);
        if (it != new_results_.end()) operand = it->second;
      }
    }
    std::vector<NodeId> schedule;
    for (NodeId id : graph_.block(block_).nodes) {
      const auto before = before_.find(id);
      if (before != before_.end()) {
        schedule.insert(schedule.end(), before->second.begin(),
                        before->second.end());
      }
      schedule.push_back(id);
      const auto after = after_.find(id);
      if (after != after_.end()) schedule.push_back(after->second);
    }
    graph_.mutable_block(block_).nodes = std::move(schedule);
  }

 private:
  // Where the new dimensions are in a lifted tensor that had `rank` axes.
  std::vector<int64_t> NewAxes(size_t rank) const {
    std::vector<int64_t> axes;
    int64_t at = 0;
    for (size_t behind = rank;; --behind) {
      const int count = behind < lift_.size() ? lift_[behind] : 0;
      for (int i = 0; i < count; ++i) axes.push_back(at++);
      ++at;
      if (behind == 0) break;
    }
    return axes;
  }

  void LiftOperands(NodeId id) {
    const size_t count = graph_.node(id).operands.size();
    for (size_t i = 0; i < count; ++i) {
      const ValueId operand = graph_.node(id).operands[i];
      if (operand == kNoValue || results_.contains(operand)) continue;
      const Type type = graph_.value(operand).type;
      const std::vector<int64_t> axes = NewAxes(type.shape->size());
      const size_t rank = type.shape->size();
      // New dimensions in front of the first axis come by broadcasting, but
      // for the operands that have all axes of the result.
      const bool is_full = rank + 1 >= lift_.size();
      const bool has_inner =
          std::accumulate(lift_.begin(),
                          lift_.begin() + static_cast<std::ptrdiff_t>(
                                              std::min(rank, lift_.size())),
                          0) > 0;
      if (axes.empty() || (!is_full && !has_inner)) continue;
      const auto [it, is_new] = lifted_.try_emplace(operand, kNoValue);
      if (is_new) {
        const ValueId list = builder_.Int64s(block_, "break_reuse/axes", axes);
        Type new_type = type;
        new_type.shape = Lifted(*type.shape, lift_);
        it->second = builder_.Op(
            block_, "Unsqueeze", {operand, list}, new_type,
            absl::StrCat("break_reuse/", graph_.value(operand).name));
        before_[id].push_back(graph_.value(it->second).producer);
      }
      graph_.mutable_node(id).operands[i] = it->second;
    }
  }

  // The old value keeps its name, and is a view of the new one.
  void LiftResult(NodeId id) {
    const ValueId old = graph_.node(id).results[0];
    Type type = graph_.value(old).type;
    const std::vector<int64_t> axes = NewAxes(type.shape->size());
    type.shape = Lifted(*type.shape, lift_);
    const std::string base =
        absl::StrCat("break_reuse/", graph_.value(old).name);
    const ValueId lifted = builder_.Value(block_, std::move(type), base);
    graph_.mutable_node(id).results[0] = lifted;
    graph_.mutable_value(lifted).producer = id;
    new_results_[old] = lifted;
    if (!read_outside_.contains(old)) {
      graph_.mutable_value(old).producer = ir::kNoNode;
      return;
    }
    const ValueId list = builder_.Int64s(block_, "break_reuse/axes", axes);
    after_[id] = builder_.Node(block_, "Squeeze", {lifted, list}, {old},
                               absl::StrCat(base, "/Squeeze"));
  }

  void FindReadOutside() {
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      if (graph_.erased(id) || inside_.contains(id)) continue;
      for (ValueId operand : graph_.node(id).operands) Note(operand);
    }
    for (size_t i = 0; i < graph_.num_blocks(); ++i) {
      const ir::BlockId id{static_cast<uint32_t>(i)};
      for (ValueId result : graph_.block(id).results) Note(result);
    }
  }
  void Note(ValueId value) {
    if (results_.contains(value)) read_outside_.insert(value);
  }

  Graph& graph_;
  Builder builder_;
  const Lift& lift_;
  ir::BlockId block_;
  llvm::DenseSet<NodeId> inside_;
  llvm::DenseSet<ValueId> results_;
  llvm::DenseSet<ValueId> read_outside_;  // of the results
  llvm::DenseMap<ValueId, ValueId> new_results_;
  llvm::DenseMap<ValueId, ValueId> lifted_;  // operands
  llvm::DenseMap<NodeId, std::vector<NodeId>> before_;
  llvm::DenseMap<NodeId, NodeId> after_;
};

}  // namespace

std::vector<NodeId> LiftableRegion(const Graph& graph, ValueId value) {
  const ir::Value& seed = graph.value(value);
  const Shape* shape = ShapeOf(graph, value);
  const std::optional<ir::Dim> bytes = SizeBytes(seed.type);
  if (seed.producer == ir::kNoNode || shape == nullptr || !bytes ||
      shape->empty()) {
    return {};
  }
  const size_t rank = shape->size();
  const ir::BlockId block = graph.node(seed.producer).block;
  if (graph.block(block).kind == ir::BlockKind::kCallBody) return {};
  const llvm::DenseSet<ValueId> outputs(graph.block(block).results.begin(),
                                        graph.block(block).results.end());
  const auto can_lift = [&](NodeId id) {
    return graph.node(id).block == block && CanLift(graph, id, rank) &&
           !outputs.contains(graph.node(id).results[0]);
  };
  if (!can_lift(seed.producer)) return {};
  llvm::DenseMap<ValueId, std::vector<NodeId>> readers;
  for (NodeId id : graph.block(block).nodes) {
    for (ValueId operand : graph.node(id).operands) {
      if (operand != kNoValue) readers[operand].push_back(id);
    }
  }
  const auto is_of_size = [&](ValueId id) {
    if (id == kNoValue) return false;
    const std::optional<ir::Dim> other = SizeBytes(graph.value(id).type);
    return other && *other == *bytes;
  };
  llvm::DenseSet<NodeId> region;
  std::vector<NodeId> pending = {seed.producer};
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    if (region.contains(id) || !can_lift(id)) continue;
    region.insert(id);
    const Node& node = graph.node(id);
    for (ValueId operand : node.operands) {
      if (!is_of_size(operand)) continue;
      const NodeId producer = graph.value(operand).producer;
      if (producer != ir::kNoNode) pending.push_back(producer);
    }
    if (!is_of_size(node.results[0])) continue;
    const auto it = readers.find(node.results[0]);
    if (it == readers.end()) continue;
    pending.insert(pending.end(), it->second.begin(), it->second.end());
  }
  std::vector<NodeId> ordered;
  for (NodeId id : graph.block(block).nodes) {
    if (region.contains(id)) ordered.push_back(id);
  }
  return ordered;
}

int FewestAxesBehind(const Graph& graph, absl::Span<const NodeId> region) {
  int fewest = 0;
  for (NodeId id : region) {
    const Node& node = graph.node(id);
    fewest = std::max(fewest, IsMatMul(node) ? 2 : IsSoftmax(node) ? 1 : 0);
  }
  return fewest;
}

Shape Lifted(const Shape& shape, const Lift& lift) {
  Shape out;
  for (size_t behind = shape.size();; --behind) {
    const int count = behind < lift.size() ? lift[behind] : 0;
    for (int i = 0; i < count; ++i) out.emplace_back(ir::Dim(1));
    if (behind == 0) break;
    out.push_back(shape[shape.size() - behind]);
  }
  return out;
}

void LiftRegion(Graph& graph, absl::Span<const NodeId> region,
                const Lift& lift) {
  Lifter(graph, region, lift).Run(region);
}

}  // namespace onnx_memopt::rewrite
