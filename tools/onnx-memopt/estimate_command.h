// `onnx-memopt estimate MODEL ...`: what training or serving takes.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_ESTIMATE_COMMAND_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_ESTIMATE_COMMAND_H_

namespace onnx_memopt::cli {

// argv[0] is the command's own name. Returns the exit code.
int RunEstimate(int argc, char** argv);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_ESTIMATE_COMMAND_H_
