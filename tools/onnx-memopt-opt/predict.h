// --predict: what the runtime model says for given session options, as JSON.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_OPT_PREDICT_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_OPT_PREDICT_H_

#include <string>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt {

// `options`: "default", or a list such as "arena=off,pattern=off,threads=2";
// "bare" is short for the first two. One line of JSON.
absl::StatusOr<std::string> Predict(const ir::Graph& graph,
                                    analysis::AnalysisManager& analyses,
                                    const std::string& options);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_OPT_PREDICT_H_
