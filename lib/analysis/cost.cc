#include "onnx_memopt/analysis/cost.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/STLExtras.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/ir/contents.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {
namespace {

using ir::Node;
using ir::NodeId;

std::optional<int64_t> Traffic(const ir::Graph& graph, NodeId id,
                               const Sizes& sizes) {
  const Node& node = graph.node(id);
  if (node.info->view_of >= 0 || node.op_type == "Constant") return 0;
  int64_t total = 0;
  std::vector<ir::ValueId> values;
  CollectUses(graph, id, &values);
  values.insert(values.end(), node.results.begin(), node.results.end());
  for (ir::ValueId value : values) {
    if (value == ir::kNoValue) continue;
    const std::optional<int64_t> bytes = sizes.bytes(value);
    if (!bytes) return std::nullopt;
    total = SaturatingAdd(total, *bytes);
  }
  return total;
}

}  // namespace

int64_t TripCount(const ir::Graph& graph, const Node& node,
                  const ir::Bindings& bindings) {
  ir::ValueId stacked = ir::kNoValue;
  int64_t axis = 0;
  if (node.op_type == "Loop" && !node.operands.empty() &&
      node.operands[0] != ir::kNoValue) {
    const ir::Contents* count = graph.value(node.operands[0]).contents.get();
    if (count != nullptr && count->elements.size() == 1 &&
        count->elements[0].integer) {
      return count->elements[0].integer->Evaluate(bindings).value_or(1);
    }
  }
  if (node.op_type == "Scan" && !node.operands.empty()) {
    stacked = node.operands.back();
    const auto* axes = IntsAttribute(node, "scan_input_axes");
    if (axes != nullptr && !axes->empty()) axis = axes->back();
  } else if (node.op_type == "Loop" && node.operands.size() >= 2 &&
             node.results.size() > node.operands.size() - 2) {
    stacked = node.results.back();
  }
  if (stacked == ir::kNoValue) return 1;
  const ir::Type& type = graph.value(stacked).type;
  if (!type.shape) return 1;
  const auto rank = static_cast<int64_t>(type.shape->size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return 1;
  const std::optional<ir::Dim>& trips =
      (*type.shape)[static_cast<size_t>(axis)];
  return trips ? trips->Evaluate(bindings).value_or(1) : 1;
}

absl::StatusOr<Cost> Cost::Compute(const ir::Graph& graph,
                                   AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  const ir::Bindings bindings = AssumedBindings(graph);
  Cost cost;
  cost.nodes_.resize(graph.num_nodes());
  std::vector<std::optional<int64_t>> block_flops(graph.num_blocks());
  const auto& blocks = timeline->blocks();
  for (const ir::BlockId block : llvm::reverse(blocks)) {
    std::optional<int64_t> total = 0;
    int64_t known = 0;
    for (NodeId id : timeline->steps(block)) {
      const Node& node = graph.node(id);
      NodeCost& out = cost.nodes_[ir::Index(id)];
      out.traffic_bytes = Traffic(graph, id, *sizes);
      if (!node.blocks.empty()) {
        out.flops = 0;
        for (ir::BlockId nested : node.blocks) {
          const std::optional<int64_t> flops = block_flops[ir::Index(nested)];
          out.flops = flops && out.flops
                          ? std::optional(std::max(*out.flops, *flops))
                          : std::nullopt;
        }
        if (out.flops) {
          out.flops = CheckedMul(*out.flops, TripCount(graph, node, bindings));
        }
      } else if (node.info->flops != nullptr) {
        const std::optional<ir::Dim> flops = node.info->flops(graph, node);
        if (flops) out.flops = flops->Evaluate(bindings);
      }
      if (out.flops) {
        known = SaturatingAdd(known, *out.flops);
      } else {
        total = std::nullopt;
        if (block == ir::kMainBlock) ++cost.unknown_nodes_;
      }
    }
    if (total) total = known;
    block_flops[ir::Index(block)] = total;
    if (block == ir::kMainBlock) cost.total_flops_ = known;
  }
  return cost;
}

void Cost::Print(const ir::Graph& graph, std::string* out) const {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodeId id{static_cast<uint32_t>(i)};
    if (graph.erased(id)) continue;
    const auto number = [](const std::optional<int64_t>& n) {
      return n ? absl::StrCat(*n) : std::string("?");
    };
    absl::StrAppend(out, graph.DisplayName(id), ": ", number(nodes_[i].flops),
                    " flops, ", number(nodes_[i].traffic_bytes), " bytes\n");
  }
}

}  // namespace onnx_memopt::analysis
