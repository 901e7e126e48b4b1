// Takes the payloads out of a serialized ONNX model without reading them.
//
// A model file is a small protobuf around large payloads: raw_data and the
// packed number fields of TensorProtos. Parsing it as it is would copy them
// all. The scan gives a skeleton: the same bytes, where each payload above
// kMinPayloadBytes has become a marker (an unknown field that holds an index
// into the table of payloads). The skeleton is a valid ModelProto that is
// parsed and edited as any other; the marker moves with its TensorProto.
// SplicePayloads is the inverse.
//
//   file:      ..[initializer: name "w", raw_data <100 MB>]..
//   skeleton:  ..[initializer: name "w", #536870001: 0]..
//   payloads:  0: {raw_data, view of 100 MB in the mapped file}
//
//   ASSIGN_OR_RETURN(ScannedModel scanned, ScanPayloads(file.bytes()));
//   onnx::ModelProto model;
//   model.ParseFromString(scanned.skeleton);  // small, whatever the weights
//
// Left in the skeleton: payloads in several pieces, which protobuf would join.
// Refused: what is no protobuf, groups, wrong wire types, subgraphs nested more
// than 32 deep, singular graphs or tensors that occur twice, and a TensorProto
// that has the marker's field number already. Every message names the field and
// the byte offset.
#ifndef ONNX_MEMOPT_IO_PAYLOAD_SCAN_H_
#define ONNX_MEMOPT_IO_PAYLOAD_SCAN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx/onnx_pb.h"

namespace onnx_memopt::io {

// Payloads of this size and less stay in the skeleton.
inline constexpr int64_t kMinPayloadBytes = 1024;
// The largest message that protobuf reads or writes.
inline constexpr int64_t kMaxProtobufBytes = INT32_MAX;

struct Payload {
  int field_number = 0;  // of TensorProto
  // The field's value. For string_data all elements, each with its tag and
  // length.
  absl::string_view bytes;
};

struct ScannedModel {
  std::string skeleton;
  std::vector<Payload> payloads;  // views into the scanned file
};

// `drop_resident`, if there is one, is called now and then: pages of a mapped
// file that were read need not stay in memory. A few bytes before each payload
// can make large pages resident, and so most of the file.
absl::StatusOr<ScannedModel> ScanPayloads(
    absl::string_view file, const std::function<void()>& drop_resident = {});

// The payload that was cut out of `tensor`; nullptr: none was. An error if the
// tensor refers to a payload that is not in the table, or to several.
absl::StatusOr<const Payload*> FindPayload(const onnx::TensorProto& tensor,
                                           absl::Span<const Payload> payloads);
// True if a payload was cut out, whichever.
bool HasMarker(const onnx::TensorProto& tensor);
void ClearMarker(onnx::TensorProto* tensor);
void SetMarker(size_t payload_index, onnx::TensorProto* tensor);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_PAYLOAD_SCAN_H_
