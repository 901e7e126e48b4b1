// Text to a file, whole or not at all, or to stdout.
//
//   RETURN_IF_ERROR(WriteText("report.json", json));
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_WRITE_TEXT_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_WRITE_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace onnx_memopt::cli {

// `path` may be "-" for stdout. Messages begin with the path.
absl::Status WriteText(const std::string& path, absl::string_view text);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_WRITE_TEXT_H_
