// Fills a Report from the IR and its analyses. Each function reads the graph as
// it is now: for "before" and "after" it is called before and after the passes,
// with an AnalysisManager of its own.
//
//   Report report;
//   AnalysisManager analyses(&graph);
//   ASSIGN_OR_RETURN(report.before,
//                    BuildPeak(graph, analyses, /*formulas=*/true));
//   RETURN_IF_ERROR(BuildTables(graph, analyses, &report));
#ifndef ONNX_MEMOPT_DRIVER_BUILD_REPORT_H_
#define ONNX_MEMOPT_DRIVER_BUILD_REPORT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/report.h"

namespace onnx_memopt {

// Peaks and where they are. `formulas`: also as formulas in the unbound dims.
absl::StatusOr<ReportPeak> BuildPeak(const ir::Graph& graph,
                                     analysis::AnalysisManager& analyses,
                                     bool formulas);

absl::StatusOr<ReportWeights> BuildWeights(const ir::Graph& graph,
                                           analysis::AnalysisManager& analyses);

// Live memory over the steps, and where each buffer lies.
absl::StatusOr<ReportProfile> BuildProfile(const ir::Graph& graph,
                                           analysis::AnalysisManager& analyses);

// Session options that may suit the graph, with their peaks.
absl::Status BuildSessionOptions(const ir::Graph& graph,
                                 analysis::AnalysisManager& analyses,
                                 Report* report);

// How a budget was met, or what holds the peak.
absl::StatusOr<ReportBudget> BuildBudget(const ir::Graph& graph,
                                         analysis::AnalysisManager& analyses,
                                         int64_t budget_bytes);

// Tensors, nodes, who is live at the peak, what is unknown.
absl::Status BuildTables(const ir::Graph& graph,
                         analysis::AnalysisManager& analyses, Report* report);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_DRIVER_BUILD_REPORT_H_
