#include "onnx_memopt/ir/graph.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseSet.h"

namespace onnx_memopt::ir {

BlockId Graph::AddBlock(Block block) {
  blocks_.push_back(std::move(block));
  return BlockId(static_cast<uint32_t>(blocks_.size() - 1));
}

NodeId Graph::AddNode(Node node) {
  if (node.info == nullptr) node.info = &FindOpInfo(node.domain, node.op_type);
  nodes_.push_back(std::move(node));
  erased_.push_back(false);
  return NodeId(static_cast<uint32_t>(nodes_.size() - 1));
}

ValueId Graph::AddValue(Value value) {
  values_.push_back(std::move(value));
  return ValueId(static_cast<uint32_t>(values_.size() - 1));
}

WeightId Graph::AddWeight(Weight weight) {
  weights_.push_back(std::move(weight));
  return WeightId(static_cast<uint32_t>(weights_.size() - 1));
}

absl::string_view Graph::OwnBytes(std::string bytes) {
  if (owned_bytes_ == nullptr) {
    owned_bytes_ = std::make_shared<std::deque<std::string>>();
  }
  return owned_bytes_->emplace_back(std::move(bytes));
}

void Graph::EraseNodes(BlockId block, absl::Span<const NodeId> dead) {
  // An explicit stack: blocks may be nested deeply.
  std::vector<NodeId> pending(dead.begin(), dead.end());
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    erased_[Index(id)] = true;
    for (BlockId nested : node(id).blocks) {
      pending.insert(pending.end(), this->block(nested).nodes.begin(),
                     this->block(nested).nodes.end());
    }
  }
  std::erase_if(mutable_block(block).nodes,
                [this](NodeId id) { return erased(id); });
}

void Graph::ReplaceUses(const llvm::DenseMap<ValueId, ValueId>& replacements) {
  const auto replace = [&](ValueId* use) {
    // Not a key that DenseMap may be asked for.
    if (*use == kNoValue) return;
    const auto it = replacements.find(*use);
    if (it != replacements.end()) *use = it->second;
  };
  for (Node& node : nodes_) {
    for (ValueId& operand : node.operands) replace(&operand);
  }
  for (Block& block : blocks_) {
    for (ValueId& result : block.results) replace(&result);
  }
}

std::string Graph::DisplayName(NodeId id) const {
  const Node& n = node(id);
  if (!n.name.empty()) return n.name;
  for (ValueId result : n.results) {
    if (result == kNoValue || value(result).name.empty()) continue;
    return absl::StrCat(n.op_type, ":", value(result).name);
  }
  return absl::StrCat(n.op_type, "#", Index(id));
}

bool Graph::IsInside(BlockId inner, BlockId outer) const {
  while (inner != outer) {
    const NodeId owner = block(inner).owner;
    if (owner == kNoNode) return false;
    inner = node(owner).block;
  }
  return true;
}

std::vector<BlockId> BlocksWithin(const Graph& graph, NodeId node) {
  std::vector<BlockId> within;
  llvm::SmallVector<BlockId, 4> pending(graph.node(node).blocks.begin(),
                                        graph.node(node).blocks.end());
  while (!pending.empty()) {
    within.push_back(pending.pop_back_val());
    for (NodeId id : graph.block(within.back()).nodes) {
      pending.append(graph.node(id).blocks.begin(),
                     graph.node(id).blocks.end());
    }
  }
  return within;
}

std::vector<BlockId> BlocksOutsideCalls(const Graph& graph) {
  std::vector<BlockId> found;
  llvm::SmallVector<BlockId, 4> pending = {kMainBlock};
  while (!pending.empty()) {
    found.push_back(pending.pop_back_val());
    for (NodeId id : graph.block(found.back()).nodes) {
      const Node& node = graph.node(id);
      if (!node.is_call) pending.append(node.blocks.begin(), node.blocks.end());
    }
  }
  return found;
}

void CollectUses(const Graph& graph, NodeId id, std::vector<ValueId>* uses) {
  const Node& node = graph.node(id);
  // Most nodes: for a few operands, a set costs more than comparing them.
  constexpr size_t kFew = 16;
  if (node.blocks.empty() && node.operands.size() <= kFew) {
    const auto first = static_cast<std::ptrdiff_t>(uses->size());
    for (ValueId value : node.operands) {
      if (value == kNoValue ||
          std::find(uses->begin() + first, uses->end(), value) != uses->end()) {
        continue;
      }
      uses->push_back(value);
    }
    return;
  }
  llvm::DenseSet<ValueId> seen;
  const auto use = [&](ValueId value) {
    if (value != kNoValue && seen.insert(value).second) uses->push_back(value);
  };
  for (ValueId value : node.operands) use(value);
  if (node.blocks.empty()) return;
  // A call's results are defined inside its body and may be read there. What a
  // subgraph reads of its own node's results, it can never have.
  for (ValueId value : node.results) {
    if (node.is_call && value != kNoValue) seen.insert(value);
  }
  const std::vector<BlockId> blocks = BlocksWithin(graph, id);
  const llvm::DenseSet<BlockId> inside(blocks.begin(), blocks.end());
  const auto capture = [&](ValueId value) {
    if (value == kNoValue || inside.contains(graph.value(value).block)) return;
    use(value);
  };
  for (BlockId b : blocks) {
    for (NodeId nested : graph.block(b).nodes) {
      for (ValueId value : graph.node(nested).operands) capture(value);
    }
    for (ValueId value : graph.block(b).results) capture(value);
  }
}

}  // namespace onnx_memopt::ir
