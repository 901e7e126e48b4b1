// Bytes of a weight, wherever they are, in pieces: the memory used does not
// depend on the weight's size.
//
//   WeightReader reader;
//   RETURN_IF_ERROR(reader.Visit(weight, [&](absl::string_view bytes) {
//     return out->Append(bytes);
//   }));
#ifndef ONNX_MEMOPT_IR_WEIGHT_READER_H_
#define ONNX_MEMOPT_IR_WEIGHT_READER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/weight.h"
#include "onnx_memopt/support/random_access_file.h"

namespace onnx_memopt::ir {

class WeightReader {
 public:
  // Bytes that Read can give: of the file's encoding, which for kTyped weights
  // and those with a transform differs from Weight::size_bytes.
  static int64_t StoredBytes(const Weight& weight);

  // Stored bytes, before the weight's transform.
  absl::Status Read(const Weight& weight, int64_t offset_bytes,
                    absl::Span<char> buffer);
  bool IsHole(const Weight& weight, int64_t offset_bytes, int64_t length_bytes);

  // The elements as raw_data is to hold them, after the transform, piece by
  // piece. For kRaw and kExternal.
  absl::Status Visit(const Weight& weight,
                     absl::FunctionRef<absl::Status(absl::string_view)> visit);
  // The stored float32 elements of a kRaw or kExternal weight, piece by piece.
  absl::Status VisitFloats(
      const Weight& weight,
      absl::FunctionRef<absl::Status(absl::Span<const float>)> visit);
  // All of them.
  absl::StatusOr<std::vector<float>> Floats(const Weight& weight);

 private:
  absl::StatusOr<const RandomAccessFile*> File(const std::string& path);

  std::map<std::string, absl::StatusOr<RandomAccessFile>> files_;
};

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_WEIGHT_READER_H_
