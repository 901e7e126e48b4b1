// The value fields of a TensorProto: which one holds the data, how many
// entries, and their wire encoding where that is needed.
#ifndef ONNX_MEMOPT_IO_TENSOR_FIELDS_H_
#define ONNX_MEMOPT_IO_TENSOR_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/io/payload_scan.h"
#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::io {

struct TensorField {
  int number = 0;       // of TensorProto; 0: the tensor has no data
  int64_t entries = 0;  // of the field; bytes for raw_data
  const Payload* payload = nullptr;  // where it was cut out of the skeleton
};

// The one field that holds data; several are an error.
absl::StatusOr<TensorField> FindTensorField(const onnx::TensorProto& tensor,
                                            absl::Span<const Payload> payloads);

// For example "int32_data".
absl::string_view FieldName(int number);

// How many entries of field `number` hold `elements` elements of `type`;
// nullopt if that field cannot hold them, or on overflow.
std::optional<int64_t> EntriesFor(ir::ElementType type, int64_t elements,
                                  int number);

// The field's bytes if they are the elements themselves, little-endian.
// nullopt where they are not: entries are wider than elements, or varints.
std::optional<absl::string_view> ElementBytes(const onnx::TensorProto& tensor,
                                              ir::ElementType type,
                                              const TensorField& field);

// The field's wire encoding, of a tensor that was not cut.
std::string EncodeField(const onnx::TensorProto& tensor, int number);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_TENSOR_FIELDS_H_
