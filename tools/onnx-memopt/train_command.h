// onnx-memopt train: from a forward model to a training step.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_TRAIN_COMMAND_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_TRAIN_COMMAND_H_

namespace onnx_memopt::cli {

// argv[0] is "train". Gives the program's exit code.
int RunTrain(int argc, char** argv);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_TRAIN_COMMAND_H_
