#include "onnx_memopt/ir/dimension_flow.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/shape_rules.h"

namespace onnx_memopt::ir {
namespace {

ShapeContext ContextOf(const Graph& graph, const Node& node) {
  ShapeContext context{.node = node};
  for (const ValueId operand : node.operands) {
    const bool there = operand != kNoValue;
    const Value* value = there ? &graph.value(operand) : nullptr;
    context.operand_types.push_back(there ? &value->type : nullptr);
    context.operand_contents.push_back(there ? value->contents : nullptr);
  }
  for (const ValueId result : node.results) {
    context.result_types.push_back(
        result == kNoValue ? Type() : graph.value(result).type);
  }
  context.result_contents.resize(node.results.size());
  return context;
}

// An axis of extent 0 or 1 has nothing to split.
bool IsWorthwhile(const SplitWay& way) {
  return !way.extent.is_constant() || way.extent.constant() >= 2;
}

// Runtimes cannot cut a tensor in which several elements share a byte.
bool CanBeCut(const Type& type) {
  const std::optional<int> width = BitWidth(type.element);
  return type.element == ElementType::kUndefined || (width && *width >= 8);
}

bool CutsWholeBytes(const Graph& graph, const Node& node, const SplitWay& way) {
  for (size_t i = 0; i < way.operands.size(); ++i) {
    if (way.operands[i].axis >= 0 &&
        !CanBeCut(graph.value(node.operands[i]).type)) {
      return false;
    }
  }
  for (size_t i = 0; i < way.result_axes.size(); ++i) {
    if (way.result_axes[i] >= 0 &&
        !CanBeCut(graph.value(node.results[i]).type)) {
      return false;
    }
  }
  return true;
}

std::string Text(const Dim& dim) {
  return absl::StrReplaceAll(dim.ToString(), {{" ", ""}});
}

std::string Text(const OperandFlow& flow) {
  if (flow.axis < 0) return "whole";
  std::string text =
      absl::StrCat(flow.axis, ":", Text(flow.num), "/", Text(flow.den));
  if (flow.before != 0 || flow.after != 0) {
    absl::StrAppend(&text, ":", flow.before, ":", flow.after);
  }
  return text;
}

absl::string_view Name(Combine combine) {
  switch (combine) {
    case Combine::kSum:
      return "sum";
    case Combine::kMax:
      return "max";
    case Combine::kMin:
      return "min";
    case Combine::kProd:
      return "prod";
    case Combine::kMean:
      return "mean";
    case Combine::kNone:
      break;
  }
  return "none";
}

}  // namespace

std::vector<SplitWay> SplitWays(const Graph& graph, NodeId node_id) {
  const Node& node = graph.node(node_id);
  if (node.info->flow == nullptr || node.is_call || !node.blocks.empty() ||
      node.results.empty()) {
    return {};
  }
  std::vector<SplitWay> ways = node.info->flow(ContextOf(graph, node));
  ways.erase(std::remove_if(ways.begin(), ways.end(),
                            [&](const SplitWay& way) {
                              return !IsWorthwhile(way) ||
                                     !CutsWholeBytes(graph, node, way);
                            }),
             ways.end());
  return ways;
}

std::string ToString(const SplitWay& way) {
  const auto append_number = [](std::string* out, int axis) {
    axis < 0 ? absl::StrAppend(out, "-") : absl::StrAppend(out, axis);
  };
  std::string text = absl::StrCat(
      "results=", absl::StrJoin(way.result_axes, ",", append_number),
      " extent=", Text(way.extent), " operands=",
      absl::StrJoin(way.operands, ",", [](std::string* out, const auto& flow) {
        absl::StrAppend(out, Text(flow));
      }));
  if (way.grain != Dim(1)) absl::StrAppend(&text, " grain=", Text(way.grain));
  if (way.combine != Combine::kNone) {
    absl::StrAppend(&text, " combine=", Name(way.combine));
  }
  for (const ShapeEdit& edit : way.edits) {
    absl::StrAppend(&text, " edit=", edit.operand, "[", edit.element, "]");
  }
  for (const AttributeEdit& edit : way.attributes) {
    absl::StrAppend(&text, " attribute=", edit.name);
    if (edit.element >= 0) absl::StrAppend(&text, "[", edit.element, "]");
    absl::StrAppend(&text, ":", edit.num, "/", edit.den);
  }
  if (!way.pads.empty()) {
    absl::StrAppend(&text, " pads=", absl::StrJoin(way.pads, ","));
  }
  if (way.windowed) absl::StrAppend(&text, " windowed");
  return text;
}

std::string FlowToString(const Graph& graph) {
  std::string text;
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const NodeId node{static_cast<uint32_t>(i)};
    if (graph.erased(node)) continue;
    const std::vector<SplitWay> ways = SplitWays(graph, node);
    if (ways.empty()) {
      absl::StrAppend(&text, graph.DisplayName(node), ": opaque\n");
    }
    for (size_t k = 0; k < ways.size(); ++k) {
      absl::StrAppend(&text, graph.DisplayName(node), ": way ", k, " ",
                      ToString(ways[k]), "\n");
    }
  }
  return text;
}

}  // namespace onnx_memopt::ir
