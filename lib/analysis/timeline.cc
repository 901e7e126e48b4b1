#include "onnx_memopt/analysis/timeline.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace onnx_memopt::analysis {
namespace {

void AppendSteps(const ir::Graph& graph, ir::BlockId block,
                 std::vector<ir::NodeId>* steps) {
  for (ir::NodeId id : graph.block(block).nodes) {
    if (graph.node(id).is_call) {
      AppendSteps(graph, graph.node(id).blocks[0], steps);
    } else {
      steps->push_back(id);
    }
  }
}

}  // namespace

absl::StatusOr<Timeline> Timeline::Compute(const ir::Graph& graph,
                                           AnalysisManager& /*analyses*/) {
  Timeline timeline;
  timeline.steps_.resize(graph.num_blocks());
  timeline.blocks_.push_back(ir::kMainBlock);
  // blocks_ grows as subgraphs are found.
  for (size_t i = 0; i < timeline.blocks_.size(); ++i) {
    const ir::BlockId block = timeline.blocks_[i];
    std::vector<ir::NodeId>& steps = timeline.steps_[ir::Index(block)];
    AppendSteps(graph, block, &steps);
    for (ir::NodeId step : steps) {
      for (ir::BlockId nested : graph.node(step).blocks) {
        timeline.blocks_.push_back(nested);
      }
    }
  }
  return timeline;
}

std::string Timeline::StepName(const ir::Graph& graph, ir::NodeId node) const {
  std::string name = graph.DisplayName(node);
  for (ir::BlockId block = graph.node(node).block;
       graph.block(block).kind == ir::BlockKind::kCallBody;
       block = graph.node(graph.block(block).owner).block) {
    name = absl::StrCat(graph.DisplayName(graph.block(block).owner), "/", name);
  }
  return name;
}

void Timeline::Print(const ir::Graph& graph, std::string* out) const {
  for (ir::BlockId block : blocks_) {
    absl::StrAppend(out, "block ", ir::Index(block), "\n");
    for (size_t i = 0; i < steps(block).size(); ++i) {
      absl::StrAppend(out, "  ", i, ": ", StepName(graph, steps(block)[i]),
                      "\n");
    }
  }
}

}  // namespace onnx_memopt::analysis
