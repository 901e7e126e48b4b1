#include "onnx_memopt/rewrite/prediction.h"

#include "absl/strings/str_cat.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/time_model.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {
namespace {

constexpr double kWorth = 0.97;
constexpr int64_t kSlackBytes = 64 << 10;

}  // namespace

absl::Status CheckSizesKnown(analysis::AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const analysis::MemoryProfile* profile,
                   analyses.Get<analysis::MemoryProfile>());
  if (profile->complete()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "sizes of some tensors are unknown, so that a peak cannot be compared");
}

absl::Status CheckCanSearch(const ir::Graph& graph,
                            analysis::AnalysisManager& analyses,
                            size_t max_nodes) {
  if (graph.num_nodes() > max_nodes) {
    return absl::FailedPreconditionError(
        absl::StrCat("the search is for graphs of up to ", max_nodes,
                     " nodes, this one has ", graph.num_nodes()));
  }
  return CheckSizesKnown(analyses);
}

analysis::RuntimeOptions RewriteOptions() {
  return {.threads = 2,
          .folding = true,
          .mapped_weights = analysis::MappedWeights::kNone};
}

analysis::RuntimeOptions PeakOptions() {
  analysis::RuntimeOptions options = RewriteOptions();
  options.fusion = true;
  return options;
}

absl::StatusOr<analysis::RuntimePrediction> PredictForRewrite(
    const ir::Graph& graph) {
  analysis::AnalysisManager analyses(&graph);
  return PredictRuntime(graph, analyses, PeakOptions());
}

absl::StatusOr<double> PredictSeconds(const ir::Graph& graph) {
  analysis::AnalysisManager analyses(&graph);
  ASSIGN_OR_RETURN(const analysis::TimeModel* time,
                   analyses.Get<analysis::TimeModel>());
  return time->total_seconds();
}

bool Pays(int64_t before_bytes, int64_t after_bytes) {
  return static_cast<double>(after_bytes) <
         kWorth * static_cast<double>(before_bytes);
}

absl::StatusOr<RewritePeaks> PeaksForRewrite(const ir::Graph& graph) {
  analysis::AnalysisManager analyses(&graph);
  const analysis::RuntimeOptions options = PeakOptions();
  RewritePeaks peaks;
  ASSIGN_OR_RETURN(peaks.bare_bytes, PredictBarePeak(graph, analyses, options));
  ASSIGN_OR_RETURN(const analysis::RuntimePrediction stock,
                   PredictRuntime(graph, analyses, options));
  peaks.first_bytes = stock.peak_first_bytes;
  peaks.steady_bytes = stock.peak_steady_bytes;
  return peaks;
}

bool Pays(const RewritePeaks& before, const RewritePeaks& after) {
  const auto grows = [](int64_t a, int64_t b) {
    return b > SaturatingAdd(a, kSlackBytes);
  };
  return !grows(before.bare_bytes, after.bare_bytes) &&
         !grows(before.first_bytes, after.first_bytes) &&
         !grows(before.steady_bytes, after.steady_bytes) &&
         (Pays(before.bare_bytes, after.bare_bytes) ||
          Pays(before.first_bytes, after.first_bytes) ||
          Pays(before.steady_bytes, after.steady_bytes));
}

std::string DescribeGain(const RewritePeaks& before,
                         const RewritePeaks& after) {
  const auto change = [](absl::string_view what, int64_t a, int64_t b) {
    return absl::StrCat(what, FormatBytes(a), " -> ", FormatBytes(b),
                        " (predicted)");
  };
  if (Pays(before.first_bytes, after.first_bytes)) {
    return change("first run in ONNX Runtime ", before.first_bytes,
                  after.first_bytes);
  }
  if (Pays(before.steady_bytes, after.steady_bytes)) {
    return change("steady state in ONNX Runtime ", before.steady_bytes,
                  after.steady_bytes);
  }
  return change("in ONNX Runtime without its arena ", before.bare_bytes,
                after.bare_bytes);
}

}  // namespace onnx_memopt::rewrite
