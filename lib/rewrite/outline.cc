#include "onnx_memopt/rewrite/outline.h"

#include <algorithm>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::BlockId;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

struct Uses {
  bool elsewhere = false;
  bool by_convolution = false;
};

bool Moves(const Graph& graph, ValueId id, const Uses& uses) {
  const ir::Value& value = graph.value(id);
  if (uses.elsewhere || value.overridable || value.pinned) return false;
  const ir::Weight& weight = graph.weight(value.weight);
  if (weight.storage == ir::WeightStorage::kSparse) return false;
  return uses.by_convolution || weight.size_bytes <= kSmallWeightBytes;
}

}  // namespace

bool IsConvolution(const Node& node) {
  return node.op_type == "Conv" || node.op_type == "ConvTranspose" ||
         node.op_type == "FusedConv";
}

void MoveIntoSubgraph(Graph& graph, absl::Span<const NodeId> nodes,
                      BlockId body) {
  if (nodes.empty()) return;
  const BlockId from = graph.node(nodes.front()).block;
  const llvm::DenseSet<NodeId> moving(nodes.begin(), nodes.end());
  std::erase_if(graph.mutable_block(from).nodes,
                [&](NodeId id) { return moving.contains(id); });
  for (NodeId id : nodes) {
    Node& node = graph.mutable_node(id);
    node.block = body;
    for (ValueId result : node.results) {
      if (result != ir::kNoValue) graph.mutable_value(result).block = body;
    }
    graph.mutable_block(body).nodes.push_back(id);
  }

  // Every use of a weight, in any block.
  llvm::DenseMap<ValueId, Uses> uses;
  const auto use = [&](ValueId value, const Node* node, BlockId where) {
    if (value == ir::kNoValue ||
        graph.value(value).kind != ir::ValueKind::kInitializer) {
      return;
    }
    Uses& u = uses[value];
    if (!graph.IsInside(where, body)) u.elsewhere = true;
    if (node != nullptr && IsConvolution(*node)) u.by_convolution = true;
  };
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const NodeId id{static_cast<uint32_t>(i)};
    if (graph.erased(id)) continue;
    const Node& node = graph.node(id);
    for (ValueId operand : node.operands) use(operand, &node, node.block);
  }
  for (size_t i = 0; i < graph.num_blocks(); ++i) {
    const BlockId id{static_cast<uint32_t>(i)};
    for (ValueId result : graph.block(id).results) {
      // A graph that returns a weight: it has to be where it is.
      if (result != ir::kNoValue &&
          graph.value(result).kind == ir::ValueKind::kInitializer) {
        uses[result].elsewhere = true;
      }
    }
  }
  // Out of the blocks around, one after the other.
  BlockId outer = from;
  while (true) {
    std::vector<ValueId>& initializers =
        graph.mutable_block(outer).initializers;
    std::vector<ValueId> moved;
    for (ValueId id : initializers) {
      const auto it = uses.find(id);
      if (it != uses.end() && Moves(graph, id, it->second)) {
        moved.push_back(id);
      }
    }
    std::erase_if(initializers, [&](ValueId id) {
      return std::find(moved.begin(), moved.end(), id) != moved.end();
    });
    for (ValueId id : moved) {
      graph.mutable_value(id).block = body;
      graph.mutable_block(body).initializers.push_back(id);
    }
    const NodeId owner = graph.block(outer).owner;
    if (owner == ir::kNoNode) break;
    outer = graph.node(owner).block;
  }
}

}  // namespace onnx_memopt::rewrite
