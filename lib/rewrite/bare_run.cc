#include "onnx_memopt/rewrite/bare_run.h"

#include <cstddef>

#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {

absl::StatusOr<BareRun> RunBare(const ir::Graph& graph) {
  analysis::AnalysisManager analyses(&graph);
  const analysis::RuntimeOptions options = PeakOptions();
  BareRun run;
  ASSIGN_OR_RETURN(run.block,
                   BuildRuntimeBlock(graph, analyses, ir::kMainBlock, options));
  run.order = RunOrder(run.block, options.execution_order);
  run.plan = PlanBuffers(run.block, run.order, options);
  const std::vector<int64_t> bytes =
      ProfileBare(run.block, run.order, run.plan).during_bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    run.sum_bytes = SaturatingAdd(run.sum_bytes, bytes[i]);
    if (bytes[i] <= run.peak_bytes) continue;
    run.peak_bytes = bytes[i];
    run.peak_at = static_cast<int32_t>(i);
  }
  return run;
}

}  // namespace onnx_memopt::rewrite
