#include "onnx_memopt/grad/node_order.h"

#include <algorithm>
#include <vector>

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

}  // namespace onnx_memopt::grad
