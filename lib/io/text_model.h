// ONNX's text syntax, made safe: errors are statuses of one line, and text that
// would exhaust the parser's stack is refused.
#ifndef ONNX_MEMOPT_IO_TEXT_MODEL_H_
#define ONNX_MEMOPT_IO_TEXT_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "onnx/onnx_pb.h"

namespace onnx_memopt::io {

// "line 3, column 14: ..." where it is not valid.
absl::StatusOr<onnx::ModelProto> ParseModelText(absl::string_view text);

// An error if what is printed would not parse again.
absl::StatusOr<std::string> PrintModelText(const onnx::ModelProto& model);

// True for paths that end in ".onnxtxt".
bool IsTextPath(absl::string_view path);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_TEXT_MODEL_H_
