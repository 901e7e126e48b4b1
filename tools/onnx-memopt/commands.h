// Commands beside rewriting a model: `onnx-memopt diff ...` and the like.
//
//   if (const std::optional<int> code = RunCommand(argc, argv)) return *code;
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_COMMANDS_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_COMMANDS_H_

#include <optional>

namespace onnx_memopt::cli {

// None: the first argument names no command that is built in, or a file of that
// name exists, which is the model then.
std::optional<int> RunCommand(int argc, char** argv);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_COMMANDS_H_
