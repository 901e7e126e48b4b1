#include "onnx_memopt/rewrite/prediction.h"

#include "onnx_memopt/analysis/analysis_manager.h"

namespace onnx_memopt::rewrite {
namespace {

constexpr double kWorth = 0.97;

}  // namespace

absl::StatusOr<analysis::RuntimePrediction> PredictForRewrite(
    const ir::Graph& graph) {
  analysis::AnalysisManager analyses(&graph);
  const analysis::RuntimeOptions options{
      .threads = 2,
      .folding = true,
      .mapped_weights = analysis::MappedWeights::kNone};
  return PredictRuntime(graph, analyses, options);
}

bool Pays(int64_t before_bytes, int64_t after_bytes) {
  return static_cast<double>(after_bytes) <
         kWorth * static_cast<double>(before_bytes);
}

}  // namespace onnx_memopt::rewrite
