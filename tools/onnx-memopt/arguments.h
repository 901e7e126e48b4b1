// The command line of onnx-memopt, parsed.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_ARGUMENTS_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_ARGUMENTS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "onnx_memopt/options.h"
#include "onnx_memopt/report/gates.h"

namespace onnx_memopt::cli {

// Exit codes of the program.
enum ExitCode : int {
  kExitOk = 0,
  kExitModelError = 1,  // the model, or reading and writing files
  kExitUsage = 2,
  kExitGateFailed = 3,
};

struct Arguments {
  std::string model;
  Options options;
  // Each a path, "-", or empty: none. At most one of them and of the model goes
  // to stdout.
  std::string json;
  std::string html;
  std::string trace;
  std::string csv;
  std::string dot;
  bool quiet = false;
  bool verbose = false;
  size_t top = 10;
  Gates gates;
};

struct ParseResult {
  // Set if the program is to end here: after --help, or on a wrong usage.
  std::optional<int> exit_code;
  Arguments arguments;
};

// Prints help to stdout and usage errors, as one line, to stderr.
ParseResult ParseArguments(int argc, char** argv);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_ARGUMENTS_H_
