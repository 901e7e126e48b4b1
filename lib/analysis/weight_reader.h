// Bytes of a weight by position, wherever they are.
#ifndef ONNX_MEMOPT_LIB_ANALYSIS_WEIGHT_READER_H_
#define ONNX_MEMOPT_LIB_ANALYSIS_WEIGHT_READER_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/weight.h"
#include "onnx_memopt/support/random_access_file.h"

namespace onnx_memopt::analysis {

class WeightReader {
 public:
  // Bytes that Read can give: of the file's encoding, which for kTyped weights
  // differs from Weight::size_bytes.
  static int64_t StoredBytes(const ir::Weight& weight);

  absl::Status Read(const ir::Weight& weight, int64_t offset_bytes,
                    absl::Span<char> buffer);
  bool IsHole(const ir::Weight& weight, int64_t offset_bytes,
              int64_t length_bytes);

 private:
  absl::StatusOr<const RandomAccessFile*> File(const std::string& path);

  std::map<std::string, absl::StatusOr<RandomAccessFile>> files_;
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_LIB_ANALYSIS_WEIGHT_READER_H_
