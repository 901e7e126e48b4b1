// onnx-memopt suggest-student: a smaller network of the same structure.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_SUGGEST_STUDENT_COMMAND_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_SUGGEST_STUDENT_COMMAND_H_

namespace onnx_memopt::cli {

// `argv` begins with the command's own name. Gives the exit code.
int RunSuggestStudent(int argc, char** argv);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_SUGGEST_STUDENT_COMMAND_H_
