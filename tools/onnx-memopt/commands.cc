#include "onnx-memopt/commands.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "onnx-memopt/diff_command.h"
#include "onnx-memopt/estimate_command.h"
#include "onnx-memopt/suggest_student_command.h"
#include "onnx-memopt/train_command.h"

namespace onnx_memopt::cli {
namespace {

struct Command {
  std::string_view name;
  // With the name as argv[0]; gives the program's exit code.
  int (*run)(int argc, char** argv);
};

constexpr Command kCommands[] = {
    {"diff", RunDiff},
    {"estimate", RunEstimate},
    {"suggest-student", RunSuggestStudent},
    {"train", RunTrain},
};

}  // namespace

std::optional<int> RunCommand(int argc, char** argv) {
  if (argc < 2) return std::nullopt;
  for (const Command& command : kCommands) {
    if (command.name != argv[1]) continue;
    std::error_code error;
    if (std::filesystem::is_regular_file(argv[1], error)) return std::nullopt;
    return command.run(argc - 1, argv + 1);
  }
  return std::nullopt;
}

}  // namespace onnx_memopt::cli
