// Buffers as CSV: a header with the columns id, lower, upper and size in any
// order, then a line for each buffer, which lives in [lower, upper). Two
// columns may be added: `pool`, the name of the arena that the buffer belongs
// to, and `over`, the id of a buffer that it may be computed in place over, or
// nothing.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_OFFSETS_FILE_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_OFFSETS_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/plan/offsets_variants.h"

namespace onnx_memopt::cli {

struct OffsetsFile {
  std::vector<std::string> rows;  // "id,lower,upper,size" of each buffer
  // Times are replaced by their rank, which changes no plan. A lifetime that
  // is empty meets nothing: its buffer is left out, at offset 0.
  std::vector<plan::Buffer> buffers;
  std::vector<int> buffer_of_row;  // -1: left out
  // Names in the order in which they come; one without a name if there is no
  // such column.
  std::vector<std::string> pools;
  bool has_pools = false;  // there is such a column
  std::vector<int32_t> pool_of_buffer;
  std::vector<plan::InPlaceBuffers> in_place;  // each pair in one pool
};

// Errors name the file and the line.
absl::StatusOr<OffsetsFile> ReadOffsetsFile(const std::string& path);

// The rows with a column `offset`, and `pool` before it if the file has one.
absl::Status WriteOffsetsFile(const std::string& path, const OffsetsFile& file,
                              const plan::OffsetPlan& plan);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_OFFSETS_FILE_H_
