#include "onnx_memopt/io/payload_splice.h"

#include <algorithm>
#include <deque>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/wire_walk.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

// Where protobuf writes field `number`: before the first field with a higher
// number.
size_t CanonicalPosition(const TensorSummary& tensor, uint32_t number) {
  size_t position = tensor.first_other;
  for (uint32_t later = number + 1; later < kSummaryFields; ++later) {
    const TensorSummary::Occurrences& field = tensor.fields[later];
    if (field.count > 0) position = std::min(position, field.begin);
  }
  return position;
}

struct Buffers {
  explicit Buffers(absl::string_view skeleton) : output(skeleton) {}
  WireOutput output;
  std::deque<std::string> headers;  // tags and lengths before payloads
};

}  // namespace

absl::StatusOr<SplicedModel> SplicePayloads(
    absl::string_view skeleton, absl::Span<const Payload> payloads) {
  auto buffers = std::make_shared<Buffers>(skeleton);
  const auto restore =
      [&](const TensorSummary& tensor) -> absl::StatusOr<TensorEdits> {
    // Begin, 0 for an insertion and 1 for a deletion, field number, and where
    // the marker was: pieces of one field stay in order.
    using Key = std::tuple<size_t, int, int, size_t>;
    std::vector<std::pair<Key, WireEdit>> edits;
    for (const TensorSummary::Marker& marker : tensor.markers) {
      if (marker.payload >= payloads.size()) {
        return absl::InternalError(absl::StrCat(
            "no payload ", marker.payload, " in a table of ", payloads.size()));
      }
      const Payload& payload = payloads[static_cast<size_t>(marker.payload)];
      const uint32_t number = static_cast<uint32_t>(payload.field_number);
      WireEdit insertion;
      insertion.begin = insertion.end = CanonicalPosition(tensor, number);
      if (number != onnx::TensorProto::kStringDataFieldNumber) {
        std::string& header = buffers->headers.emplace_back();
        AppendTag(number, WireType::kLengthDelimited, &header);
        AppendVarint(payload.bytes.size(), &header);
        insertion.replacement.push_back(header);
      }
      insertion.replacement.push_back(payload.bytes);
      edits.emplace_back(
          Key(insertion.begin, 0, payload.field_number, marker.begin),
          insertion);
      edits.emplace_back(
          Key(marker.begin, 1, 0, marker.begin),
          WireEdit{
              .begin = marker.begin, .end = marker.end, .replacement = {}});
    }
    std::sort(edits.begin(), edits.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    TensorEdits sorted;
    for (auto& [key, edit] : edits) sorted.push_back(std::move(edit));
    return sorted;
  };
  RETURN_IF_ERROR(WalkModel(skeleton, restore, &buffers->output));
  SplicedModel result;
  result.segments = buffers->output.Views();
  result.size_bytes = static_cast<int64_t>(buffers->output.total());
  result.owner = std::move(buffers);
  return result;
}

}  // namespace onnx_memopt::io
