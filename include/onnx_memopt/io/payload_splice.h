// Puts payloads back: the inverse of ScanPayloads.
//
// Takes a serialized skeleton, in which nodes and tensors may have been
// removed, reordered or duplicated since the scan, and gives the complete
// ModelProto as a list of views: ranges of the skeleton, recomputed lengths,
// and the payloads themselves. No payload is read or copied. A payload goes
// where protobuf itself would have written the field, so a file that protobuf
// wrote comes back byte for byte.
//
//   ASSIGN_OR_RETURN(SplicedModel model, SplicePayloads(skeleton, payloads));
//   for (absl::string_view segment : model.segments) Write(segment);
#ifndef ONNX_MEMOPT_IO_PAYLOAD_SPLICE_H_
#define ONNX_MEMOPT_IO_PAYLOAD_SPLICE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/io/payload_scan.h"

namespace onnx_memopt::io {

struct SplicedModel {
  // Views into the skeleton, the payloads and `owner`.
  std::vector<absl::string_view> segments;
  int64_t size_bytes = 0;
  std::shared_ptr<const void> owner;
};

absl::StatusOr<SplicedModel> SplicePayloads(absl::string_view skeleton,
                                            absl::Span<const Payload> payloads);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_PAYLOAD_SPLICE_H_
