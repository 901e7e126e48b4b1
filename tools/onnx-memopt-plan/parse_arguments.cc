#include "onnx-memopt-plan/parse_arguments.h"

#include <iostream>

#include "onnx-memopt-plan/commands.h"

namespace onnx_memopt::cli {

std::optional<int> ParseArguments(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    std::cerr << "error: " << error.what() << "\n";
    return kExitUsage;
  }
  return std::nullopt;
}

}  // namespace onnx_memopt::cli
