// How both subcommands take their arguments.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_PARSE_ARGUMENTS_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_PARSE_ARGUMENTS_H_

#include <optional>

#include "CLI/CLI.hpp"

namespace onnx_memopt::cli {

// The exit code where the program is to end: the help was asked for and is
// printed, or the arguments are wrong and an error is.
std::optional<int> ParseArguments(CLI::App& app, int argc, char** argv);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_PARSE_ARGUMENTS_H_
