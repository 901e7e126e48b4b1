#include "grad/write_out.h"

#include <cstddef>
#include <utility>

#include "llvm/ADT/DenseMap.h"

namespace onnx_memopt::grad {

using ir::NodeId;
using ir::ValueId;

void WriteOut(rewrite::Builder& builder,
              absl::FunctionRef<std::vector<ValueId>(const ir::Node& node,
                                                     rewrite::Emitter* e)>
                  write) {
  ir::Graph& graph = builder.graph();
  llvm::DenseMap<ValueId, ValueId> replaced;
  std::vector<NodeId> schedule;
  std::vector<NodeId> dead;
  const std::vector<NodeId> nodes = graph.block(ir::kMainBlock).nodes;
  for (NodeId id : nodes) {
    schedule.push_back(id);
    rewrite::Emitter e(&builder, ir::kMainBlock);
    e.set_prefix(graph.DisplayName(id));
    const ir::Node& node = graph.node(id);
    const std::vector<ValueId> made = write(node, &e);
    if (made.empty()) continue;
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (node.results[i] == ir::kNoValue) continue;
      ir::Type type = graph.value(node.results[i]).type;
      graph.mutable_value(made[i]).type = std::move(type);
      replaced[node.results[i]] = made[i];
    }
    schedule.insert(schedule.end(), e.nodes().begin(), e.nodes().end());
    dead.push_back(id);
  }
  if (dead.empty()) return;
  graph.mutable_block(ir::kMainBlock).nodes = std::move(schedule);
  graph.ReplaceUses(replaced);
  graph.EraseNodes(ir::kMainBlock, dead);
}

}  // namespace onnx_memopt::grad
