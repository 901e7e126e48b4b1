// What a pass compares to decide whether its change pays.
//
//   ASSIGN_OR_RETURN(const RuntimePrediction now, PredictForRewrite(graph));
//   if (Pays(before.peak_first_bytes, now.peak_first_bytes)) ...
#ifndef ONNX_MEMOPT_REWRITE_PREDICTION_H_
#define ONNX_MEMOPT_REWRITE_PREDICTION_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

// kFailedPrecondition, with the reason, where a size is unknown, so that peaks
// cannot be compared.
absl::Status CheckSizesKnown(analysis::AnalysisManager& analyses);
// The same of a graph with more than `max_nodes`, too.
absl::Status CheckCanSearch(const ir::Graph& graph,
                            analysis::AnalysisManager& analyses,
                            size_t max_nodes);

// ONNX Runtime with default options and two threads, constants folded, without
// the pages of mapped weights, which lie the same before and after.
// Node by node, as the graph has them: what a search walks over.
analysis::RuntimeOptions RewriteOptions();

// The same with the convolutions that the runtime makes of it: what is
// compared.
analysis::RuntimeOptions PeakOptions();

absl::StatusOr<analysis::RuntimePrediction> PredictForRewrite(
    const ir::Graph& graph);

// Modelled seconds of a run.
absl::StatusOr<double> PredictSeconds(const ir::Graph& graph);

// False where the gain is within what predictions are off.
bool Pays(int64_t before_bytes, int64_t after_bytes);

// Of the same session: with default options, and with neither arena nor
// pattern.
struct RewritePeaks {
  int64_t bare_bytes = 0;
  int64_t first_bytes = 0;
  int64_t steady_bytes = 0;
};
absl::StatusOr<RewritePeaks> PeaksForRewrite(const ir::Graph& graph);

// True if one of the peaks pays and none grows by more than a few scalars do.
bool Pays(const RewritePeaks& before, const RewritePeaks& after);

// For remarks: "first run in ONNX Runtime 9.00 MiB -> 5.00 MiB (predicted)", of
// the default peaks, or of the bare one where they do not fall.
std::string DescribeGain(const RewritePeaks& before, const RewritePeaks& after);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_PREDICTION_H_
