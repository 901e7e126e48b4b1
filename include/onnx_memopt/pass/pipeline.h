// Pipelines as text, and how they run.
//
//   ASSIGN_OR_RETURN(Pipeline pipeline,
//                    ParsePipeline("drop-dead,reorder{beam=128}"));
//   ASSIGN_OR_RETURN(std::vector<PassRun> runs,
//                    RunPipeline(pipeline, graph, {}));
#ifndef ONNX_MEMOPT_PASS_PIPELINE_H_
#define ONNX_MEMOPT_PASS_PIPELINE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"

namespace onnx_memopt::pass {

// One line of passes/passes.def.
struct PassInfo {
  absl::string_view name;
  absl::string_view summary;
  absl::StatusOr<std::unique_ptr<Pass>> (*make)(PassOptions& options);
};

using Pipeline = std::vector<std::unique_ptr<Pass>>;

// A comma-separated list of NAME or NAME{key=value,key=value}. The error names
// what is unknown and lists what is known.
absl::StatusOr<Pipeline> ParsePipeline(absl::string_view text,
                                       absl::Span<const PassInfo> known);

// Options of a pass with their defaults, for help texts.
std::vector<PassOptions::Declaration> DescribeOptions(const PassInfo& info);

struct PassRun {
  std::string name;
  bool changed = false;
  double seconds = 0;
  std::vector<std::string> remarks;
};

struct PipelineOptions {
  Goals goals;
  // Called before the first pass (with an empty name) and after each pass.
  std::function<void(absl::string_view pass, const ir::Graph& graph)> observer;
};

// Runs the passes in order and verifies the graph after each. A graph that a
// pass broke is an internal error that names the pass.
absl::StatusOr<std::vector<PassRun>> RunPipeline(
    const Pipeline& pipeline, ir::Graph& graph, const PipelineOptions& options);

// What the passes would do, each to the graph as it is: remarks alone.
absl::StatusOr<std::vector<PassRun>> PreviewPipeline(const Pipeline& pipeline,
                                                     const ir::Graph& graph);

}  // namespace onnx_memopt::pass

#endif  // ONNX_MEMOPT_PASS_PIPELINE_H_
