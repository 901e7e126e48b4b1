// The page of a training step: the report of the step as a model, with what its
// backward pass makes again and the plans that were found.
//
//   ASSIGN_OR_RETURN(const std::string html, TrainToHtml(result, "step.onnx"));
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_TRAIN_HTML_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_TRAIN_HTML_H_

#include <string>

#include "absl/status/statusor.h"
#include "onnx_memopt/train.h"

namespace onnx_memopt::cli {

// `step` is the file that was written.
absl::StatusOr<std::string> TrainToHtml(const TrainResult& result,
                                        const std::string& step);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_TRAIN_HTML_H_
