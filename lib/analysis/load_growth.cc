#include "onnx_memopt/analysis/load_growth.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/ir/op_info.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {
namespace {

using ir::Node;
using ir::ValueId;

}  // namespace

bool MayFold(const Node& node) {
  return IsKnown(*node.info) && !node.info->random && !node.info->side_effect &&
         node.blocks.empty() && !node.operands.empty() &&
         !(node.domain.empty() && node.op_type == "DequantizeLinear");
}

absl::StatusOr<LoadGrowth> LoadGrowth::Compute(const ir::Graph& graph,
                                               AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  LoadGrowth growth;
  std::vector<bool> constant(graph.num_values());  // once loaded
  growth.folded_.resize(graph.num_values());
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const ir::Value& value = graph.value(ValueId(static_cast<uint32_t>(i)));
    constant[i] = value.weight != ir::kNoWeight && !value.overridable;
  }
  // Read by what is not folded, or by a folded node.
  std::vector<bool> kept(graph.num_values());
  std::vector<bool> consumed(graph.num_values());
  // Outer blocks come first: what they fold is constant inside.
  for (ir::BlockId block : timeline->blocks()) {
    for (ir::NodeId step : timeline->steps(block)) {
      const Node& node = graph.node(step);
      const bool folds =
          MayFold(node) &&
          std::all_of(
              node.operands.begin(), node.operands.end(), [&](ValueId operand) {
                return operand == ir::kNoValue || constant[Index(operand)];
              });
      growth.folded_nodes_ += folds ? 1 : 0;
      // What is captured counts where it is read.
      for (ValueId use : node.operands) {
        if (use != ir::kNoValue) (folds ? consumed : kept)[Index(use)] = true;
      }
      for (ValueId result : node.results) {
        if (!folds || result == ir::kNoValue) continue;
        constant[Index(result)] = growth.folded_[Index(result)] = true;
      }
    }
    for (ValueId result : graph.block(block).results) {
      if (result != ir::kNoValue) kept[Index(result)] = true;
    }
  }
  for (size_t i = 0; i < graph.num_values(); ++i) {
    if (!constant[i]) continue;
    const int64_t bytes =
        sizes->bytes(ValueId(static_cast<uint32_t>(i))).value_or(0);
    if (growth.folded_[i] && kept[i]) {
      growth.growth_bytes_ = SaturatingAdd(growth.growth_bytes_, bytes);
    } else if (!growth.folded_[i] && consumed[i] && !kept[i]) {
      growth.growth_bytes_ -= bytes;
    }
  }
  return growth;
}

void LoadGrowth::Print(const ir::Graph& /*graph*/, std::string* out) const {
  absl::StrAppend(out, folded_nodes(), " nodes of constants, growth ",
                  growth_bytes(), " bytes\n");
}

}  // namespace onnx_memopt::analysis
