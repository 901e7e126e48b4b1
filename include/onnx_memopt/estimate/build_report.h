// From a graph and a configuration to the report.
//
//   ASSIGN_OR_RETURN(EstimateReport report,
//                    BuildEstimate(graph, configuration, {.gpu = "all"}));
#ifndef ONNX_MEMOPT_ESTIMATE_BUILD_REPORT_H_
#define ONNX_MEMOPT_ESTIMATE_BUILD_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/estimate/configuration.h"
#include "onnx_memopt/estimate_report.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {

struct ReportRequest {
  std::string batch_symbol;  // empty: found by the inputs
  // Not given: the model's own, 1 where that is symbolic.
  std::optional<int64_t> batch;
  std::string gpu;  // a name of the table, "all", or empty
  std::optional<int64_t> memory_bytes;
  bool max_batch = false;
  // CheckpointKind::kBudget, with the memory of the GPU or `memory_bytes`.
  bool checkpoint_to_fit = false;
  // A symbolic dimension, for buckets of lengths, and the graph with that
  // dimension unbound; null: none.
  std::string length_symbol;
  ir::Graph* length_graph = nullptr;
  int64_t length = 0;  // the longest
};

// Errors (kOutOfRange): options that do not fit the model.
absl::StatusOr<EstimateReport> BuildEstimate(const ir::Graph& graph,
                                             Configuration configuration,
                                             const ReportRequest& request);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_ESTIMATE_BUILD_REPORT_H_
