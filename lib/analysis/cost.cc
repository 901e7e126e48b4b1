#include "onnx_memopt/analysis/cost.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/STLExtras.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/timeline.h"
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

// How often a loop's body runs, from the first dimension of a stacked result or
// a scanned operand; 1 where it cannot be told.
int64_t Trips(const ir::Graph& graph, const Node& node,
              const ir::Bindings& bindings) {
  ir::ValueId stacked = ir::kNoValue;
  if (node.op_type == "Scan" && !node.operands.empty()) {
    if (IntsAttribute(node, "scan_input_axes") == nullptr) {
      stacked = node.operands.back();
    }
  } else if (node.op_type == "Loop" && node.operands.size() >= 2 &&
             node.results.size() > node.operands.size() - 2) {
    stacked = node.results.back();
  }
  if (stacked == ir::kNoValue) return 1;
  const ir::Type& type = graph.value(stacked).type;
  if (!type.shape || type.shape->empty() || !type.shape->front()) return 1;
  return type.shape->front()->Evaluate(bindings).value_or(1);
}

}  // namespace

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
          out.flops = CheckedMul(*out.flops, Trips(graph, node, bindings));
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
