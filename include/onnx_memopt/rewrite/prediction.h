// What a pass compares to decide whether its change pays.
//
//   ASSIGN_OR_RETURN(const RuntimePrediction now, PredictForRewrite(graph));
//   if (Pays(before.peak_first_bytes, now.peak_first_bytes)) ...
#ifndef ONNX_MEMOPT_REWRITE_PREDICTION_H_
#define ONNX_MEMOPT_REWRITE_PREDICTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

// ONNX Runtime with default options and two threads, without the pages of
// mapped weights, which lie the same before and after.
absl::StatusOr<analysis::RuntimePrediction> PredictForRewrite(
    const ir::Graph& graph);

// Modelled seconds of a run.
absl::StatusOr<double> PredictSeconds(const ir::Graph& graph);

// False where the gain is within what predictions are off.
bool Pays(int64_t before_bytes, int64_t after_bytes);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_PREDICTION_H_
