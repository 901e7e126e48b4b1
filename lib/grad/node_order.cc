#include "onnx_memopt/grad/node_order.h"

#include <algorithm>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace onnx_memopt::grad {
namespace {

using ir::Index;
using ir::NodeId;
using ir::ValueId;

std::vector<bool> ReadByNodes(const ir::Graph& graph, ir::BlockId block) {
  std::vector<bool> read(graph.num_values());
  std::vector<ValueId> uses;
  for (NodeId id : graph.block(block).nodes) {
    uses.clear();
    CollectUses(graph, id, &uses);
    for (ValueId use : uses) read[Index(use)] = true;
  }
  return read;
}

}  // namespace

void OrderForDepthFirst(ir::Graph& graph, ir::BlockId block, ValueId loss) {
  const std::vector<bool> read = ReadByNodes(graph, block);
  std::vector<NodeId> inner;
  std::vector<NodeId> leaves;
  std::vector<NodeId> last;
  for (NodeId id : graph.block(block).nodes) {
    const ir::Node& node = graph.node(id);
    const bool is_leaf = std::none_of(
        node.results.begin(), node.results.end(),
        [&](ValueId v) { return v != ir::kNoValue && read[Index(v)]; });
    if (!is_leaf) {
      inner.push_back(id);
    } else if (graph.value(loss).producer == id) {
      last.push_back(id);
    } else {
      leaves.push_back(id);
    }
  }
  inner.insert(inner.end(), leaves.rbegin(), leaves.rend());
  inner.insert(inner.end(), last.begin(), last.end());
  graph.mutable_block(block).nodes = std::move(inner);
}

void OrderTeacherForDepthFirst(ir::Graph& graph, ir::BlockId block,
                               const std::vector<NodeId>& teacher) {
  if (teacher.empty()) return;
  const llvm::DenseSet<NodeId> waiting(teacher.begin(), teacher.end());
  const std::vector<NodeId> nodes = graph.block(block).nodes;
  std::vector<NodeId> ordered;
  ordered.reserve(nodes.size());
  llvm::DenseSet<NodeId> placed;
  std::vector<ValueId> uses;
  std::vector<NodeId> pending;
  // From back to front: a reader, then what it needs, each as soon as no reader
  // is left before it.
  llvm::DenseMap<NodeId, size_t> readers;
  for (NodeId id : nodes) {
    uses.clear();
    CollectUses(graph, id, &uses);
    for (ValueId use : uses) {
      const NodeId producer = graph.value(use).producer;
      if (producer != ir::kNoNode) ++readers[producer];
    }
  }
  const auto place = [&](NodeId id) {
    ordered.push_back(id);
    uses.clear();
    CollectUses(graph, id, &uses);
    for (ValueId use : uses) {
      const NodeId producer = graph.value(use).producer;
      if (producer == ir::kNoNode || --readers[producer] > 0) continue;
      if (waiting.contains(producer)) pending.push_back(producer);
    }
  };
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    if (waiting.contains(*it)) continue;
    place(*it);
    while (!pending.empty()) {
      const NodeId next = pending.back();
      pending.pop_back();
      if (placed.insert(next).second) place(next);
    }
  }
  // What nothing reads.
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    if (waiting.contains(*it) && placed.insert(*it).second) {
      ordered.push_back(*it);
    }
  }
  graph.mutable_block(block).nodes.assign(ordered.rbegin(), ordered.rend());
}

}  // namespace onnx_memopt::grad
