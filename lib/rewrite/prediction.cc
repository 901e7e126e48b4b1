#include "onnx_memopt/rewrite/prediction.h"

#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/time_model.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {
namespace {

constexpr double kWorth = 0.97;

}  // namespace

absl::StatusOr<analysis::RuntimePrediction> PredictForRewrite(
    const ir::Graph& graph) {
  analysis::AnalysisManager analyses(&graph);
  const analysis::RuntimeOptions options{
      .threads = 2, .mapped_weights = analysis::MappedWeights::kNone};
  return PredictRuntime(graph, analyses, options);
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

}  // namespace onnx_memopt::rewrite
