// onnx-memopt-plan: the planners on plain files. Each subcommand has a file of
// its own; this one only picks it.
#include <cstring>
#include <exception>
#include <iostream>

#include "onnx-memopt-plan/commands.h"

namespace onnx_memopt::cli {
namespace {

struct Command {
  const char* name;
  const char* what;
  int (*run)(int argc, char** argv);
};

constexpr Command kCommands[] = {
    {"offsets", "place buffers with known lifetimes in one arena",
     RunOffsetsCommand},
    {"recompute", "meet a memory budget by running some nodes again",
     RunRecomputeCommand},
};

void PrintUsage(std::ostream& out) {
  out << "usage: onnx-memopt-plan COMMAND [OPTION...]\n\n"
         "Solves planning problems given as plain files.\n\nCommands:\n";
  for (const Command& command : kCommands) {
    out << "  " << command.name << "\t" << command.what << "\n";
  }
  out << "\n`onnx-memopt-plan COMMAND --help` tells more.\n";
}

int Main(int argc, char** argv) {
  if (argc < 2) {
    PrintUsage(std::cerr);
    return kExitUsage;
  }
  if (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0) {
    PrintUsage(std::cout);
    return kExitOk;
  }
  for (const Command& command : kCommands) {
    if (std::strcmp(argv[1], command.name) == 0) {
      return command.run(argc - 1, argv + 1);
    }
  }
  std::cerr << "error: no command \"" << argv[1]
            << "\"; `onnx-memopt-plan --help` lists them\n";
  return kExitUsage;
}

}  // namespace
}  // namespace onnx_memopt::cli

int main(int argc, char** argv) {
  try {
    return onnx_memopt::cli::Main(argc, argv);
  } catch (const std::exception& error) {  // out of memory, most likely
    std::cerr << "error: " << error.what() << "\n";
    return onnx_memopt::cli::kExitInput;
  }
}
