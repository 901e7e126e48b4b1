#include "onnx_memopt/analysis/weights.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {
namespace {

using ir::BlockId;
using ir::ValueId;

// Weights that are read from blocks nested in the one that defines them, with
// how many such blocks.
std::vector<ValueId> FindShared(const ir::Graph& graph,
                                const Timeline& timeline) {
  std::vector<int> readers(graph.num_values());
  std::vector<BlockId> last(graph.num_values(), ir::kNoBlock);
  const auto read = [&](ValueId value, BlockId block) {
    if (value == ir::kNoValue) return;
    const ir::Value& v = graph.value(value);
    if (v.weight == ir::kNoWeight || v.block == block) return;
    if (last[ir::Index(value)] == block) return;
    last[ir::Index(value)] = block;
    ++readers[ir::Index(value)];
  };
  for (BlockId block : timeline.blocks()) {
    if (block == ir::kMainBlock) continue;
    for (ir::NodeId step : timeline.steps(block)) {
      for (ValueId operand : graph.node(step).operands) read(operand, block);
    }
    for (ValueId result : graph.block(block).results) read(result, block);
  }
  std::vector<ValueId> shared;
  for (size_t i = 0; i < readers.size(); ++i) {
    if (readers[i] > 1) shared.push_back(ValueId(static_cast<uint32_t>(i)));
  }
  return shared;
}

}  // namespace

absl::StatusOr<Weights> Weights::Compute(const ir::Graph& graph,
                                         AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  Weights result;
  std::vector<ir::WeightId> ids;
  const auto add = [&](ValueId value) {
    const ir::WeightId weight = graph.value(value).weight;
    if (weight == ir::kNoWeight) return;
    result.values_.push_back(value);
    result.bytes_ =
        SaturatingAdd(result.bytes_, graph.weight(weight).size_bytes);
    ids.push_back(weight);
  };
  for (BlockId block : timeline->blocks()) {
    for (ValueId value : graph.block(block).initializers) add(value);
    for (ir::NodeId step : timeline->steps(block)) {
      if (graph.node(step).op_type != "Constant") continue;
      for (ValueId value : graph.node(step).results) {
        if (value != ir::kNoValue) add(value);
      }
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  ASSIGN_OR_RETURN(result.equal_, FindEqualWeights(graph, ids, {}));
  for (const auto& group : result.equal_.groups) {
    const int64_t extra = static_cast<int64_t>(group.size()) - 1;
    result.duplicate_bytes_ =
        SaturatingAdd(result.duplicate_bytes_,
                      extra * graph.weight(group.front()).size_bytes);
  }
  result.shared_by_subgraphs_ = FindShared(graph, *timeline);
  return result;
}

void Weights::Print(const ir::Graph& graph, std::string* out) const {
  absl::StrAppend(out, count(), " weights, ", bytes(), " bytes, ",
                  duplicate_bytes(), " of them duplicate\n");
  for (const auto& group : equal_.groups) {
    absl::StrAppend(out, "  equal:");
    for (ir::WeightId id : group) {
      absl::StrAppend(out, " ", Printable(graph.weight(id).name));
    }
    absl::StrAppend(out, "\n");
  }
  for (const auto& [a, b] : equal_.transposed) {
    absl::StrAppend(out, "  transposed: ", Printable(graph.weight(a).name), " ",
                    Printable(graph.weight(b).name), "\n");
  }
  for (ValueId value : shared_by_subgraphs_) {
    absl::StrAppend(out, "  read by several subgraphs: ",
                    Printable(graph.value(value).name), "\n");
  }
}

}  // namespace onnx_memopt::analysis
