#include "onnx-memopt/train_html.h"

#include <cstdint>

#include "onnx_memopt/optimize.h"
#include "onnx_memopt/report.h"
#include "onnx_memopt/report/html.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::cli {

absl::StatusOr<std::string> TrainToHtml(const TrainResult& result,
                                        const std::string& step) {
  ASSIGN_OR_RETURN(Report report, Optimize(step, {.rewrite = false}));
  for (const grad::RecomputedSegment& segment : result.segments) {
    report.checkpoints.push_back({.first = segment.first,
                                  .last = segment.last,
                                  .nodes = static_cast<int64_t>(segment.nodes),
                                  .bytes = segment.bytes});
  }
  for (const BudgetPoint& point : result.curve) {
    report.pareto.push_back(
        {.peak_bytes = point.peak_bytes, .added_time = point.added_time});
  }
  report.outputs = result.outputs;
  return ReportToHtml(report, ONNX_MEMOPT_VERSION);
}

}  // namespace onnx_memopt::cli
