// `onnx-memopt diff A.json B.json`: what changed between two reports.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_DIFF_COMMAND_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_DIFF_COMMAND_H_

namespace onnx_memopt::cli {

// argv[0] is "diff". Gives the program's exit code.
int RunDiff(int argc, char** argv);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_DIFF_COMMAND_H_
