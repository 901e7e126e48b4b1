#include "onnx_memopt/io/payload_scan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/unknown_field_set.h"
#include "io/wire_walk.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

using onnx::TensorProto;

constexpr std::array<uint32_t, 7> kPayloadFields = {
    TensorProto::kFloatDataFieldNumber,  TensorProto::kInt32DataFieldNumber,
    TensorProto::kStringDataFieldNumber, TensorProto::kInt64DataFieldNumber,
    TensorProto::kRawDataFieldNumber,    TensorProto::kDoubleDataFieldNumber,
    TensorProto::kUint64DataFieldNumber};

// The whole value in one piece, and long enough to be worth it.
bool ShouldCut(uint32_t number, const TensorSummary::Occurrences& field) {
  if (field.count == 0 || !field.length_delimited) return false;
  if (number == TensorProto::kStringDataFieldNumber) {
    return field.contiguous &&
           field.end - field.begin > static_cast<size_t>(kMinPayloadBytes);
  }
  return field.count == 1 &&
         field.end - field.value_begin > static_cast<size_t>(kMinPayloadBytes);
}

const google::protobuf::UnknownFieldSet& UnknownFields(
    const TensorProto& tensor) {
  return tensor.GetReflection()->GetUnknownFields(tensor);
}

}  // namespace

absl::StatusOr<ScannedModel> ScanPayloads(
    absl::string_view file, const std::function<void()>& drop_resident) {
  ScannedModel result;
  size_t reads = 0;
  const auto drop_at_times = [&] {
    constexpr size_t kReads = 16;
    if (++reads % kReads == 0 && drop_resident) drop_resident();
  };
  std::deque<std::string> markers;  // the output has views of them
  WireOutput output(file);
  const auto cut =
      [&](const TensorSummary& tensor) -> absl::StatusOr<TensorEdits> {
    if (!tensor.markers.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a tensor at byte ", tensor.markers.front().begin, " has field #",
          kMarkerField, ", a number that this program reserves"));
    }
    drop_at_times();
    TensorEdits edits;
    for (const uint32_t number : kPayloadFields) {
      const TensorSummary::Occurrences& field = tensor.fields[number];
      if (!ShouldCut(number, field)) continue;
      const bool strings = number == TensorProto::kStringDataFieldNumber;
      const size_t begin = strings ? field.begin : field.value_begin;
      std::string& marker = markers.emplace_back();
      AppendTag(kMarkerField, WireType::kVarint, &marker);
      AppendVarint(result.payloads.size(), &marker);
      result.payloads.push_back(
          {.field_number = static_cast<int>(number),
           .bytes = file.substr(begin, field.end - begin)});
      edits.push_back({.begin = field.begin,
                       .end = field.end,
                       .replacement = {absl::string_view(marker)}});
    }
    std::sort(
        edits.begin(), edits.end(),
        [](const WireEdit& a, const WireEdit& b) { return a.begin < b.begin; });
    return edits;
  };
  RETURN_IF_ERROR(WalkModel(file, cut, &output));
  result.skeleton.reserve(output.total());
  for (absl::string_view view : output.Views()) {
    result.skeleton.append(view.data(), view.size());
    drop_at_times();
  }
  return result;
}

absl::StatusOr<const Payload*> FindPayload(const TensorProto& tensor,
                                           absl::Span<const Payload> payloads) {
  const Payload* found = nullptr;
  const google::protobuf::UnknownFieldSet& unknown = UnknownFields(tensor);
  for (int i = 0; i < unknown.field_count(); ++i) {
    const google::protobuf::UnknownField& field = unknown.field(i);
    if (field.number() != static_cast<int>(kMarkerField)) continue;
    if (found != nullptr) {
      return absl::InvalidArgumentError("has its data in several fields");
    }
    if (field.type() != google::protobuf::UnknownField::TYPE_VARINT ||
        field.varint() >= payloads.size()) {
      return absl::InvalidArgumentError(
          "refers to data that the source model does not have");
    }
    found = &payloads[field.varint()];
  }
  return found;
}

bool HasMarker(const TensorProto& tensor) {
  const google::protobuf::UnknownFieldSet& unknown = UnknownFields(tensor);
  for (int i = 0; i < unknown.field_count(); ++i) {
    if (unknown.field(i).number() == static_cast<int>(kMarkerField)) {
      return true;
    }
  }
  return false;
}

void ClearMarker(TensorProto* tensor) {
  tensor->GetReflection()->MutableUnknownFields(tensor)->DeleteByNumber(
      static_cast<int>(kMarkerField));
}

void SetMarker(size_t payload_index, TensorProto* tensor) {
  tensor->GetReflection()->MutableUnknownFields(tensor)->AddVarint(
      static_cast<int>(kMarkerField), payload_index);
}

}  // namespace onnx_memopt::io
