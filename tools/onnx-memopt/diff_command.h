// `onnx-memopt diff A.json B.json`: what changed between two reports.
//
//   if (const std::optional<int> code = RunDiff(argc, argv)) return *code;
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_DIFF_COMMAND_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_DIFF_COMMAND_H_

#include <optional>

namespace onnx_memopt::cli {

// None: the first argument is not "diff", or there is a file of that name,
// which is the model then.
std::optional<int> RunDiff(int argc, char** argv);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_DIFF_COMMAND_H_
