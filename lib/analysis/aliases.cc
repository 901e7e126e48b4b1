#include "onnx_memopt/analysis/aliases.h"

#include "absl/strings/str_cat.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {

absl::StatusOr<Aliases> Aliases::Compute(const ir::Graph& graph,
                                         AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  Aliases aliases;
  aliases.root_.reserve(graph.num_values());
  for (size_t i = 0; i < graph.num_values(); ++i) {
    aliases.root_.push_back(ir::ValueId(static_cast<uint32_t>(i)));
  }
  // Outer blocks come first and steps are in order, so an operand's root is
  // final before a view of it is met.
  for (ir::BlockId block : timeline->blocks()) {
    for (ir::NodeId step : timeline->steps(block)) {
      const ir::Node& node = graph.node(step);
      const int operand = node.info->view_of;
      if (operand < 0 || static_cast<size_t>(operand) >= node.operands.size() ||
          node.results.empty()) {
        continue;
      }
      const ir::ValueId from = node.operands[static_cast<size_t>(operand)];
      const ir::ValueId to = node.results[0];
      if (from == ir::kNoValue || to == ir::kNoValue) continue;
      aliases.root_[ir::Index(to)] = aliases.root(from);
    }
  }
  return aliases;
}

void Aliases::Print(const ir::Graph& graph, std::string* out) const {
  for (size_t i = 0; i < root_.size(); ++i) {
    const ir::ValueId id{static_cast<uint32_t>(i)};
    if (root_[i] == id) continue;
    absl::StrAppend(out, Printable(graph.value(id).name), " is a view of ",
                    Printable(graph.value(root_[i]).name), "\n");
  }
}

}  // namespace onnx_memopt::analysis
