#include "onnx_memopt/rewrite/prediction.h"

#include "onnx_memopt/analysis/analysis_manager.h"

namespace onnx_memopt::rewrite {
namespace {

constexpr double kWorth = 0.97;

}  // namespace

analysis::RuntimeOptions RewriteOptions() {
  return {.threads = 2, .mapped_weights = analysis::MappedWeights::kNone};
}

absl::StatusOr<analysis::RuntimePrediction> PredictForRewrite(
    const ir::Graph& graph) {
  analysis::AnalysisManager analyses(&graph);
  return PredictRuntime(graph, analyses, RewriteOptions());
}

bool Pays(int64_t before_bytes, int64_t after_bytes) {
  return static_cast<double>(after_bytes) <
         kWorth * static_cast<double>(before_bytes);
}

}  // namespace onnx_memopt::rewrite
