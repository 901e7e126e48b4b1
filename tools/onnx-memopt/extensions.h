// Commands that are programs of their own, found the way git finds its: the
// first argument WORD runs `onnx-memopt-WORD` with the remaining arguments, and
// gives its exit code.
//
//   const std::optional<int> code = RunExtension(argc, argv);
//   if (code) return *code;
//
// It is looked for in the folders of PATH, then beside this program, then in
// python/bin of the source tree whose build/PRESET/bin this program is in.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_EXTENSIONS_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_EXTENSIONS_H_

#include <optional>

namespace onnx_memopt::cli {

// Does not return if the program is run. None: the first argument is no such
// word, but an option, a path, or the name of a file that exists, which is the
// model then. Otherwise it has said why it cannot be run.
std::optional<int> RunExtension(int argc, char** argv);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_EXTENSIONS_H_
