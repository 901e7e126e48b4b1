#include "grad/lower_sequences.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {
namespace {

using ir::NodeId;
using ir::ValueId;

// More parts than any real model has.
constexpr int64_t kMaxParts = 4096;

std::optional<std::vector<int64_t>> Integers(const ir::Graph& graph,
                                             ValueId value) {
  const auto& contents = graph.value(value).contents;
  if (contents == nullptr) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const ir::Element& element : contents->elements) {
    if (!element.integer || !element.integer->is_constant()) {
      return std::nullopt;
    }
    numbers.push_back(element.integer->constant());
  }
  return numbers;
}

// How long the parts are; nullopt where that is not known before the run.
std::optional<std::vector<int64_t>> PartSizes(const ir::Graph& graph,
                                              const ir::Node& node,
                                              int64_t axis) {
  const ir::Type& type = graph.value(node.operands[0]).type;
  const std::optional<ir::Dim>& dim = (*type.shape)[static_cast<size_t>(axis)];
  if (!dim || !dim->is_constant()) return std::nullopt;
  const int64_t extent = dim->constant();
  int64_t size = 1;
  if (node.operands.size() > 1 && node.operands[1] != ir::kNoValue) {
    auto split = Integers(graph, node.operands[1]);
    if (!split) return std::nullopt;
    const auto& shape = graph.value(node.operands[1]).type.shape;
    if (!shape) return std::nullopt;
    if (!shape->empty()) return split;
    if (split->size() != 1) return std::nullopt;
    size = split->front();
  }
  if (size < 1 || extent / size > kMaxParts) return std::nullopt;
  std::vector<int64_t> sizes(static_cast<size_t>(extent / size), size);
  if (extent % size != 0) sizes.push_back(extent % size);
  return sizes;
}

class Lowering {
 public:
  explicit Lowering(rewrite::Builder* builder)
      : builder_(*builder), graph_(builder->graph()) {}

  void Run() {
    llvm::DenseMap<ValueId, std::vector<NodeId>> users;
    std::vector<ValueId> uses;
    const std::vector<NodeId> nodes = graph_.block(ir::kMainBlock).nodes;
    for (NodeId id : nodes) {
      uses.clear();
      CollectUses(graph_, id, &uses);
      for (ValueId use : uses) users[use].push_back(id);
    }
    for (ValueId result : graph_.block(ir::kMainBlock).results) {
      users[result].push_back(ir::kNoNode);
    }
    for (NodeId id : nodes) {
      const ir::Node& node = graph_.node(id);
      if (node.op_type == "SplitToSequence" && node.domain.empty()) {
        Lower(id, users[node.results[0]]);
      }
    }
    if (dead_.empty()) return;
    graph_.ReplaceUses(replaced_);
    graph_.EraseNodes(ir::kMainBlock, dead_);
  }

 private:
  void Lower(NodeId id, const std::vector<NodeId>& readers) {
    const ir::Node node = graph_.node(id);
    const ir::Type& type = graph_.value(node.operands[0]).type;
    if (!type.is_tensor() || !type.shape || type.shape->empty()) return;
    const auto rank = static_cast<int64_t>(type.shape->size());
    int64_t axis = ir::IntAttribute(node, "axis", 0);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return;
    const auto sizes = PartSizes(graph_, node, axis);
    if (!sizes || sizes->empty()) return;
    std::vector<size_t> positions;
    for (NodeId reader : readers) {
      if (reader == ir::kNoNode) return;
      const ir::Node& at = graph_.node(reader);
      if (at.op_type != "SequenceAt") return;
      const std::optional<int64_t> position =
          ir::OnlyInteger(graph_.value(at.operands[1]).contents.get());
      if (!position) return;
      int64_t i = *position;
      if (i < 0) i += static_cast<int64_t>(sizes->size());
      if (i < 0 || i >= static_cast<int64_t>(sizes->size())) return;
      positions.push_back(static_cast<size_t>(i));
    }
    rewrite::Emitter e(&builder_, ir::kMainBlock);
    e.set_prefix(graph_.value(node.results[0]).name);
    std::vector<ValueId> parts =
        e.Ops("Split", {node.operands[0], e.Ints(*sizes)}, sizes->size(),
              {rewrite::Attr("axis", axis)});
    const bool has_sizes =
        node.operands.size() > 1 && node.operands[1] != ir::kNoValue;
    const bool squeeze =
        !has_sizes && ir::IntAttribute(node, "keepdims", 1) == 0;
    for (size_t i = 0; i < readers.size(); ++i) {
      const ValueId taken = graph_.node(readers[i]).results[0];
      ValueId part = parts[positions[i]];
      if (squeeze) part = e.Squeeze(part, {axis});
      replaced_[taken] = part;
      dead_.push_back(readers[i]);
    }
    dead_.push_back(id);
    std::vector<NodeId>& schedule = graph_.mutable_block(ir::kMainBlock).nodes;
    schedule.insert(std::find(schedule.begin(), schedule.end(), id),
                    e.nodes().begin(), e.nodes().end());
  }

  rewrite::Builder& builder_;
  ir::Graph& graph_;
  llvm::DenseMap<ValueId, ValueId> replaced_;
  std::vector<NodeId> dead_;
};

}  // namespace

void LowerSequences(rewrite::Builder& builder) { Lowering(&builder).Run(); }

}  // namespace onnx_memopt::grad
