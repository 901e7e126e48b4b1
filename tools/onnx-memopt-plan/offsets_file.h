// Buffers as CSV: a header with the columns id, lower, upper and size in any
// order, then a line for each buffer, which lives in [lower, upper).
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_OFFSETS_FILE_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_OFFSETS_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/plan/offsets.h"

namespace onnx_memopt::cli {

struct OffsetsFile {
  std::vector<std::string> rows;  // "id,lower,upper,size" of each buffer
  // Times are replaced by their rank, which changes no plan. A lifetime that
  // is empty meets nothing: its buffer is left out, at offset 0.
  std::vector<plan::Buffer> buffers;
  std::vector<int> buffer_of_row;  // -1: left out
};

// Errors name the file and the line.
absl::StatusOr<OffsetsFile> ReadOffsetsFile(const std::string& path);

// The rows with a column `offset`.
absl::Status WriteOffsetsFile(const std::string& path, const OffsetsFile& file,
                              const plan::OffsetPlan& plan);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_OFFSETS_FILE_H_
