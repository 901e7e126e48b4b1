// The subcommands of onnx-memopt-plan. argv[0] is the subcommand's name; the
// result is the program's exit code.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_COMMANDS_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_COMMANDS_H_

namespace onnx_memopt::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitInput = 1,  // a malformed file, or reading and writing files
  kExitUsage = 2,
  kExitNotMet = 3,  // there is a plan, but it does not meet what was asked
};

int RunOffsetsCommand(int argc, char** argv);
int RunRecomputeCommand(int argc, char** argv);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_COMMANDS_H_
