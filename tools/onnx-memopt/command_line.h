// What the commands of the program do alike with their arguments.
//
//   CLI::App app("", "onnx-memopt diff");
//   app.add_option(...);
//   if (const auto code = ParseCommand(app, kHelp, argc, argv)) return *code;
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_COMMAND_LINE_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_COMMAND_LINE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace onnx_memopt::cli {

// Has CLI11 fill in what the options of `app` point to; `help` is what --help
// prints, whatever options the library knows. Set: the program is to end with
// that code, after --help or on a wrong usage.
std::optional<int> ParseCommand(CLI::App& app, const char* help, int argc,
                                char** argv);

// Says what is wrong, in one line, and where `command`, such as "onnx-memopt
// diff", is explained; gives kExitUsage.
int UsageError(absl::string_view command, absl::string_view message);

// Says what is wrong; gives kExitUsage for options that do not fit
// (kOutOfRange), else kExitModelError.
int ReportError(const absl::Status& status);

// "NAME=N", a size of a named dimension, the last of which counts. A name may
// itself have an equals sign.
absl::Status AddNamedSize(const std::string& text,
                          std::map<std::string, int64_t>* dims);

// A positive count that an option was given; an error names `option`.
absl::StatusOr<int64_t> ParseCount(absl::string_view option,
                                   const std::string& text);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_COMMAND_LINE_H_
