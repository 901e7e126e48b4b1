// External data of a TensorProto: its key-value pairs as numbers, checked, and
// the safety of its location.
#ifndef ONNX_MEMOPT_IO_EXTERNAL_DATA_H_
#define ONNX_MEMOPT_IO_EXTERNAL_DATA_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "onnx/onnx_pb.h"

namespace onnx_memopt::io {

// True if the tensor's data is in another file: data_location says so, or there
// is external_data and no other.
bool IsExternal(const onnx::TensorProto& tensor);

struct ExternalEntry {
  std::string location;
  int64_t offset_bytes = 0;
  std::optional<int64_t> length_bytes;  // nullopt: not given
};

// Messages do not name the tensor.
absl::StatusOr<ExternalEntry> ParseExternalEntry(
    const onnx::TensorProto& tensor);

// Joins `location` to `directory`. Refuses what leaves the folder: absolute
// paths, "..", and symbolic links below it. Gives the size of the file, nullopt
// if there is none.
struct ExternalFile {
  std::string path;
  std::optional<int64_t> size_bytes;
};
absl::StatusOr<ExternalFile> LocateExternalFile(absl::string_view directory,
                                                absl::string_view location);

// Replaces the tensor's location, offset and length, other keys untouched.
void SetExternalEntry(absl::string_view location, int64_t offset_bytes,
                      int64_t length_bytes, onnx::TensorProto* tensor);
void SetExternalLocation(absl::string_view location, onnx::TensorProto* tensor);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_EXTERNAL_DATA_H_
