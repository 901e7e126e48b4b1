// Writes a report where the user wants it.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_WRITE_JSON_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_WRITE_JSON_H_

#include <string>

#include "absl/status/status.h"

namespace onnx_memopt::cli {

// `path` is a file, which appears complete or not at all, or "-": stdout.
absl::Status WriteJson(const std::string& path, const std::string& json);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_WRITE_JSON_H_
