#include "onnx_memopt/rewrite/raise_opset.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "onnx_memopt/ir/op_info.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {
namespace {

constexpr int kOldestOpset = 9;

// Of opset 9 or 10, read otherwise in opset 11, or gone: what was an attribute
// is an operand (Clip, Pad, Slice, TopK), and others.
constexpr absl::string_view kChanged[] = {"Clip",  "Dropout", "MaxUnpool",
                                          "Pad",   "Resize",  "Scatter",
                                          "Slice", "TopK",    "Upsample"};

// By ValueId: read by a node or returned by a block.
std::vector<bool> Used(const ir::Graph& graph) {
  std::vector<bool> used(graph.num_values());
  const auto use = [&](const auto& values) {
    for (const ir::ValueId value : values) {
      if (value != ir::kNoValue) used[ir::Index(value)] = true;
    }
  };
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const ir::NodeId id{static_cast<uint32_t>(i)};
    if (!graph.erased(id)) use(graph.node(id).operands);
  }
  for (size_t i = 0; i < graph.num_blocks(); ++i) {
    use(graph.block(ir::BlockId(static_cast<uint32_t>(i))).results);
  }
  return used;
}

bool HasMask(const ir::Node& node) {
  return node.op_type == "Dropout" && node.results.size() > 1 &&
         node.results[1] != ir::kNoValue;
}

// But for a mask.
bool MeansTheSame(const ir::Node& node) {
  return HasMask(node) || std::find(std::begin(kChanged), std::end(kChanged),
                                    node.op_type) == std::end(kChanged);
}

}  // namespace

std::optional<ir::Graph> RaiseOpset(const ir::Graph& graph) {
  std::vector<ir::NodeId> nodes;
  std::vector<ir::ValueId> masks;
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const ir::NodeId id{static_cast<uint32_t>(i)};
    if (graph.erased(id)) continue;
    const ir::Node& node = graph.node(id);
    // Functions import opsets of their own.
    if (node.is_call) return std::nullopt;
    if (!node.domain.empty()) continue;
    if (node.opset < kOldestOpset || node.opset >= kBuildOpset ||
        !node.blocks.empty() || !IsKnown(*node.info) || !MeansTheSame(node)) {
      return std::nullopt;
    }
    nodes.push_back(id);
    if (HasMask(node)) masks.push_back(node.results[1]);
  }
  if (nodes.empty()) return std::nullopt;
  if (!masks.empty()) {
    // They are of another type.
    const std::vector<bool> used = Used(graph);
    if (std::any_of(masks.begin(), masks.end(),
                    [&](ir::ValueId mask) { return used[ir::Index(mask)]; })) {
      return std::nullopt;
    }
  }
  ir::Graph raised = graph.Clone();
  for (const ir::NodeId id : nodes) {
    ir::Node& node = raised.mutable_node(id);
    node.opset = kBuildOpset;
    if (!HasMask(node)) continue;
    raised.mutable_value(node.results[1]).producer = ir::kNoNode;
    node.results.resize(1);
  }
  return raised;
}

absl::StatusOr<bool> RewriteRaised(
    ir::Graph& graph,
    absl::FunctionRef<absl::StatusOr<bool>(ir::Graph& graph)> rewrite) {
  std::optional<ir::Graph> raised = RaiseOpset(graph);
  if (!raised.has_value()) return rewrite(graph);
  ASSIGN_OR_RETURN(const bool changed, rewrite(*raised));
  if (changed) graph = *std::move(raised);
  return changed;
}

}  // namespace onnx_memopt::rewrite
