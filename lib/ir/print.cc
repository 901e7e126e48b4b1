#include <string>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::ir {
namespace {

std::string ValueName(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "_";
  return absl::StrCat("%", Printable(graph.value(id).name));
}

template <typename Ids>
std::string ValueNames(const Graph& graph, const Ids& ids) {
  std::string out;
  for (ValueId id : ids) {
    absl::StrAppend(&out, out.empty() ? "" : ", ", ValueName(graph, id));
  }
  return out;
}

void PrintBlock(const Graph& graph, BlockId id, int depth, std::string* out) {
  const Block& block = graph.block(id);
  const std::string indent(static_cast<size_t>(depth) * 2, ' ');
  for (ValueId value : block.params) {
    absl::StrAppend(out, indent, "param ", ValueName(graph, value), " : ",
                    ToString(graph.value(value).type), "\n");
  }
  for (ValueId value : block.initializers) {
    absl::StrAppend(out, indent, "weight ", ValueName(graph, value), " : ",
                    ToString(graph.value(value).type), "\n");
  }
  for (NodeId node_id : block.nodes) {
    const Node& node = graph.node(node_id);
    absl::StrAppend(out, indent);
    if (!node.results.empty()) {
      absl::StrAppend(out, ValueNames(graph, node.results), " = ");
    }
    if (!node.domain.empty()) {
      absl::StrAppend(out, Printable(node.domain), ".");
    }
    absl::StrAppend(out, Printable(node.op_type), "(",
                    ValueNames(graph, node.operands), ")");
    for (size_t i = 0; i < node.results.size(); ++i) {
      const ValueId result = node.results[i];
      absl::StrAppend(
          out, i == 0 ? " : " : ", ",
          result == kNoValue ? "_" : ToString(graph.value(result).type));
    }
    absl::StrAppend(out, "\n");
    for (BlockId nested : node.blocks) {
      const std::string& attribute = graph.block(nested).attribute_name;
      absl::StrAppend(out, indent, "  ",
                      attribute.empty() ? "call" : Printable(attribute), ":\n");
      PrintBlock(graph, nested, depth + 2, out);
    }
  }
  absl::StrAppend(out, indent, "return ", ValueNames(graph, block.results),
                  "\n");
}

}  // namespace

std::string ToString(const Graph& graph) {
  std::string out;
  PrintBlock(graph, kMainBlock, 0, &out);
  return out;
}

}  // namespace onnx_memopt::ir
