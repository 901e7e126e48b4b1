#include <algorithm>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::ir {
namespace {

// Walks from a node that waits to one that it waits for until one comes again:
// that one lies on a cycle.
absl::Status CycleError(const Graph& graph, absl::Span<const NodeId> nodes,
                        const std::vector<std::vector<uint32_t>>& uses,
                        const std::vector<uint32_t>& waiting) {
  std::vector<bool> seen(nodes.size());
  uint32_t at = 0;
  while (waiting[at] == 0) ++at;
  while (!seen[at]) {
    seen[at] = true;
    for (uint32_t before : uses[at]) {
      if (waiting[before] > 0) {
        at = before;
        break;
      }
    }
  }
  const Node& node = graph.node(nodes[at]);
  std::string tensor;
  for (ValueId result : node.results) {
    if (result != kNoValue) {
      tensor = graph.value(result).name;
      break;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "node \"", Printable(graph.DisplayName(nodes[at])), "\" (",
      Printable(node.op_type), "): its output \"", Printable(tensor),
      "\" depends on itself; the graph has a cycle"));
}

}  // namespace

absl::StatusOr<std::vector<NodeId>> TopologicalOrder(
    const Graph& graph, absl::Span<const NodeId> nodes) {
  llvm::DenseMap<ValueId, uint32_t> defined_at;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    for (ValueId result : graph.node(nodes[i]).results) {
      if (result != kNoValue) defined_at[result] = i;
    }
  }
  std::vector<std::vector<uint32_t>> uses(nodes.size());
  std::vector<std::vector<uint32_t>> users(nodes.size());
  std::vector<uint32_t> waiting(nodes.size());
  std::vector<ValueId> values;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    values.clear();
    CollectUses(graph, nodes[i], &values);
    for (ValueId value : values) {
      const auto it = defined_at.find(value);
      if (it == defined_at.end()) continue;
      uses[i].push_back(it->second);
      users[it->second].push_back(i);
      ++waiting[i];
    }
  }
  // The lowest position first: a sorted list comes back as it is.
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<NodeId> order;
  order.reserve(nodes.size());
  while (!ready.empty()) {
    const uint32_t i = ready.top();
    ready.pop();
    order.push_back(nodes[i]);
    for (uint32_t user : users[i]) {
      if (--waiting[user] == 0) ready.push(user);
    }
  }
  if (order.size() == nodes.size()) return order;
  return CycleError(graph, nodes, uses, waiting);
}

}  // namespace onnx_memopt::ir
