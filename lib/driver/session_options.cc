// What the runtime model says of other session options, and of a budget.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/driver/build_report.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

using analysis::AnalysisManager;
using analysis::ExecutionOrder;
using analysis::RuntimeOptions;
using analysis::RuntimePrediction;
using ir::ValueId;

// Larger graphs get the two predictions that a report has anyway.
constexpr size_t kMaxNodes = 20'000;
// Options that gain less are not worth a word: predictions are off by as much.
constexpr double kWorth = 0.97;
constexpr int64_t kMinGainBytes = 256 << 10;
// Slices of less are not worth their memory.
constexpr int64_t kMinSlicedBytes = 1 << 20;
constexpr size_t kShownHolders = 3;

// From few changes to many. Without the arena a run asks the system for each
// tensor, which takes time; so it comes after what costs none.
std::vector<RuntimeOptions> Candidates(bool all) {
  const auto with = [](bool arena, bool pattern, bool reuse,
                       ExecutionOrder order) {
    return RuntimeOptions{
        .execution_order = order,
        .arena = arena,
        .pattern = pattern,
        .reuse = reuse,
        // Part of the weights, which the report has beside it.
        .folding = true,
        .fusion = true,
        .mapped_weights = analysis::MappedWeights::kNone};
  };
  constexpr ExecutionOrder kDefault = ExecutionOrder::kDefault;
  constexpr ExecutionOrder kByPriority = ExecutionOrder::kPriorityBased;
  if (!all) {
    return {with(true, true, true, kDefault),
            with(false, false, true, kDefault)};
  }
  return {with(true, true, true, kDefault),
          with(true, false, true, kDefault),
          with(true, false, true, kByPriority),
          with(true, false, false, kDefault),
          with(true, false, false, kByPriority),
          with(false, false, true, kDefault),
          with(false, false, true, kByPriority),
          with(false, false, false, kDefault),
          with(false, false, false, kByPriority)};
}

// The runtime makes one Split of several Slices of a tensor, so that all of
// them are there at once.
bool HasManySlices(const ir::Graph& graph, const analysis::Sizes& sizes) {
  std::vector<int> slices(graph.num_values());
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const ir::NodeId id{static_cast<uint32_t>(i)};
    const ir::Node& node = graph.node(id);
    if (graph.erased(id) || node.op_type != "Slice" || node.operands.empty() ||
        node.operands[0] == ir::kNoValue ||
        sizes.bytes(node.operands[0]).value_or(0) < kMinSlicedBytes) {
      continue;
    }
    if (++slices[ir::Index(node.operands[0])] > 1) return true;
  }
  return false;
}

}  // namespace

absl::Status BuildSessionOptions(const ir::Graph& graph,
                                 AnalysisManager& analyses, Report* report) {
  report->session_options.clear();
  report->recommended_session = 0;
  ASSIGN_OR_RETURN(const analysis::Sizes* sizes,
                   analyses.Get<analysis::Sizes>());
  const bool slices = HasManySlices(graph, *sizes);
  for (const RuntimeOptions& options :
       Candidates(graph.num_nodes() <= kMaxNodes)) {
    ASSIGN_OR_RETURN(const RuntimePrediction prediction,
                     PredictRuntime(graph, analyses, options));
    ReportSessionOptions out{
        .enable_cpu_mem_arena = options.arena,
        .enable_mem_pattern = options.pattern,
        .enable_mem_reuse = options.reuse,
        .execution_order = options.execution_order == ExecutionOrder::kDefault
                               ? "DEFAULT"
                               : "PRIORITY_BASED",
        .peaks = {.first_peak_bytes = prediction.peak_first_bytes,
                  .steady_peak_bytes = prediction.peak_steady_bytes}};
    if (slices) {
      out.disabled_optimizers.emplace_back("GatherSliceToSplitFusion");
    }
    report->session_options.push_back(std::move(out));
    const auto& all = report->session_options;
    const int64_t best =
        all[report->recommended_session].peaks.steady_peak_bytes;
    const int64_t now = all.back().peaks.steady_peak_bytes;
    if (static_cast<double>(now) < kWorth * static_cast<double>(best) &&
        best - now >= kMinGainBytes) {
      report->recommended_session = all.size() - 1;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ReportBudget> BuildBudget(const ir::Graph& graph,
                                         AnalysisManager& analyses,
                                         int64_t budget_bytes) {
  RuntimeOptions options;
  options.mapped_weights = analysis::MappedWeights::kNone;
  options.folding = true;
  options.fusion = true;
  ASSIGN_OR_RETURN(const RuntimePrediction prediction,
                   PredictRuntime(graph, analyses, options));
  ReportBudget budget{.bytes = budget_bytes,
                      .reached_bytes = prediction.peak_steady_bytes};
  budget.met = prediction.complete && budget.reached_bytes <= budget_bytes;
  if (budget.met) return budget;
  if (!prediction.complete) {
    budget.reason = absl::StrCat("the size of ", prediction.unknown.size(),
                                 " tensors is unknown, so the peak is not");
    return budget;
  }
  budget.reason = absl::StrCat("the smallest steady peak reached is ",
                               FormatBytes(budget.reached_bytes));
  if (prediction.peak_node == ir::kNoNode) return budget;
  absl::StrAppend(&budget.reason, "; at ",
                  Printable(graph.DisplayName(prediction.peak_node)),
                  " there are");
  const char* separator = " ";
  for (size_t i = 0; i < std::min(kShownHolders, prediction.at_peak.size());
       ++i) {
    const analysis::LiveBuffer& buffer = prediction.at_peak[i];
    const ValueId value = buffer.value;
    const auto& results = graph.block(ir::kMainBlock).results;
    const bool is_output =
        std::find(results.begin(), results.end(), value) != results.end();
    absl::StrAppend(&budget.reason, separator,
                    is_output ? "the output \"" : "\"",
                    Printable(graph.value(value).name), "\" (",
                    FormatBytes(buffer.size_bytes), ")");
    separator = ", ";
  }
  if (prediction.at_peak.size() > kShownHolders) {
    absl::StrAppend(&budget.reason, " and ",
                    prediction.at_peak.size() - kShownHolders, " more");
  }
  if (!graph.node(prediction.peak_node).blocks.empty()) {
    absl::StrAppend(&budget.reason, prediction.at_peak.empty() ? " " : ", and ",
                    "what its body holds");
  }
  return budget;
}

}  // namespace onnx_memopt
