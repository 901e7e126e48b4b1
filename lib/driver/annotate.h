// What --annotate writes of each node: lifetime and bytes of its results, and
// what the passes did with it.
//
//   ASSIGN_OR_RETURN(io::NodeMetadata metadata,
//                    DescribeNodes(graph, analyses));
//   ASSIGN_OR_RETURN(onnx::ModelProto out, io::Export(*model, graph,
//   metadata));
#ifndef ONNX_MEMOPT_LIB_DRIVER_ANNOTATE_H_
#define ONNX_MEMOPT_LIB_DRIVER_ANNOTATE_H_

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/io/export.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt {

// The graph after the passes; docs/report.md has the keys.
absl::StatusOr<io::NodeMetadata> DescribeNodes(
    const ir::Graph& graph, analysis::AnalysisManager& analyses);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_LIB_DRIVER_ANNOTATE_H_
