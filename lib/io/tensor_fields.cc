#include "io/tensor_fields.h"

#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "io/wire_walk.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

static_assert(std::endian::native == std::endian::little,
              "tensor data is read in place");

namespace onnx_memopt::io {
namespace {

using ir::ElementType;
using onnx::TensorProto;

// Entries of a cut payload. Varints are counted by their last bytes, strings by
// their tags.
absl::StatusOr<int64_t> CountEntries(const Payload& payload) {
  const absl::string_view bytes = payload.bytes;
  const int64_t size = static_cast<int64_t>(bytes.size());
  switch (payload.field_number) {
    case TensorProto::kRawDataFieldNumber:
      return size;
    case TensorProto::kFloatDataFieldNumber:
      return size / 4;
    case TensorProto::kDoubleDataFieldNumber:
      return size / 8;
    case TensorProto::kStringDataFieldNumber: {
      int64_t count = 0;
      size_t pos = 0;
      while (pos < bytes.size()) {
        ++pos;  // The tag; the scan has checked every field.
        uint64_t length = 0;
        for (int shift = 0; pos < bytes.size(); shift += 7) {
          const uint8_t byte = static_cast<uint8_t>(bytes[pos++]);
          length |= static_cast<uint64_t>(byte & 0x7f) << shift;
          if (byte < 0x80) break;
        }
        pos += static_cast<size_t>(length);
        ++count;
      }
      return count;
    }
    default: {
      constexpr int kMaxVarintBytes = 10;
      int64_t count = 0;
      int length = 0;
      for (const char c : bytes) {
        if (++length > kMaxVarintBytes) {
          return absl::InvalidArgumentError(
              absl::StrCat("has an invalid number in its ",
                           FieldName(payload.field_number)));
        }
        if ((static_cast<uint8_t>(c) & 0x80) == 0) {
          ++count;
          length = 0;
        }
      }
      if (length != 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("has its ", FieldName(payload.field_number),
                         " cut off inside a number"));
      }
      return count;
    }
  }
}

template <typename Repeated>
absl::string_view View(const Repeated& values) {
  return absl::string_view(
      reinterpret_cast<const char*>(values.data()),
      static_cast<size_t>(values.size()) * sizeof(*values.data()));
}

}  // namespace

absl::StatusOr<TensorField> FindTensorField(
    const TensorProto& tensor, absl::Span<const Payload> payloads) {
  TensorField field;
  bool several = false;
  const auto add = [&](int number, int64_t entries, const Payload* payload) {
    if (entries == 0) return;
    several = several || field.number != 0;
    field = {.number = number, .entries = entries, .payload = payload};
  };
  add(TensorProto::kRawDataFieldNumber,
      static_cast<int64_t>(tensor.raw_data().size()), nullptr);
  add(TensorProto::kFloatDataFieldNumber, tensor.float_data_size(), nullptr);
  add(TensorProto::kInt32DataFieldNumber, tensor.int32_data_size(), nullptr);
  add(TensorProto::kStringDataFieldNumber, tensor.string_data_size(), nullptr);
  add(TensorProto::kInt64DataFieldNumber, tensor.int64_data_size(), nullptr);
  add(TensorProto::kDoubleDataFieldNumber, tensor.double_data_size(), nullptr);
  add(TensorProto::kUint64DataFieldNumber, tensor.uint64_data_size(), nullptr);
  ASSIGN_OR_RETURN(const Payload* payload, FindPayload(tensor, payloads));
  if (payload != nullptr) {
    ASSIGN_OR_RETURN(const int64_t entries, CountEntries(*payload));
    add(payload->field_number, entries, payload);
  }
  if (several) {
    return absl::InvalidArgumentError("has its data in several fields");
  }
  return field;
}

absl::string_view FieldName(int number) {
  switch (number) {
    case TensorProto::kRawDataFieldNumber:
      return "raw_data";
    case TensorProto::kFloatDataFieldNumber:
      return "float_data";
    case TensorProto::kInt32DataFieldNumber:
      return "int32_data";
    case TensorProto::kStringDataFieldNumber:
      return "string_data";
    case TensorProto::kInt64DataFieldNumber:
      return "int64_data";
    case TensorProto::kDoubleDataFieldNumber:
      return "double_data";
    case TensorProto::kUint64DataFieldNumber:
      return "uint64_data";
    default:
      return "data";
  }
}

std::optional<int64_t> EntriesFor(ElementType type, int64_t elements,
                                  int number) {
  switch (number) {
    case TensorProto::kRawDataFieldNumber: {
      const std::optional<int> bits = ir::BitWidth(type);
      if (!bits.has_value() || type == ElementType::kString) {
        return std::nullopt;
      }
      const std::optional<int64_t> total = CheckedMul(elements, *bits);
      if (!total.has_value()) return std::nullopt;
      return CeilDiv(*total, 8);
    }
    case TensorProto::kFloatDataFieldNumber:
      if (type == ElementType::kFloat) return elements;
      if (type == ElementType::kComplex64) return CheckedMul(elements, 2);
      return std::nullopt;
    case TensorProto::kDoubleDataFieldNumber:
      if (type == ElementType::kDouble) return elements;
      if (type == ElementType::kComplex128) return CheckedMul(elements, 2);
      return std::nullopt;
    case TensorProto::kInt64DataFieldNumber:
      if (type == ElementType::kInt64) return elements;
      return std::nullopt;
    case TensorProto::kUint64DataFieldNumber:
      if (type == ElementType::kUint64 || type == ElementType::kUint32) {
        return elements;
      }
      return std::nullopt;
    case TensorProto::kStringDataFieldNumber:
      if (type == ElementType::kString) return elements;
      return std::nullopt;
    case TensorProto::kInt32DataFieldNumber:
      break;
    default:
      return std::nullopt;
  }
  switch (type) {
    case ElementType::kUint4:
    case ElementType::kInt4:
    case ElementType::kFloat4E2M1:
      return CeilDiv(elements, 2);
    case ElementType::kUint2:
    case ElementType::kInt2:
      return CeilDiv(elements, 4);
    case ElementType::kInt32:
    case ElementType::kInt16:
    case ElementType::kUint16:
    case ElementType::kInt8:
    case ElementType::kUint8:
    case ElementType::kBool:
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
    case ElementType::kFloat8E4M3FN:
    case ElementType::kFloat8E4M3FNUZ:
    case ElementType::kFloat8E5M2:
    case ElementType::kFloat8E5M2FNUZ:
    case ElementType::kFloat8E8M0:
    case ElementType::kFloat6E2M3:
    case ElementType::kFloat6E3M2:
      return elements;
    default:
      return std::nullopt;
  }
}

std::optional<absl::string_view> ElementBytes(const TensorProto& tensor,
                                              ElementType type,
                                              const TensorField& field) {
  switch (field.number) {
    case 0:
      return absl::string_view();
    case TensorProto::kRawDataFieldNumber:
      return field.payload != nullptr ? field.payload->bytes
                                      : absl::string_view(tensor.raw_data());
    case TensorProto::kFloatDataFieldNumber:
      return field.payload != nullptr ? field.payload->bytes
                                      : View(tensor.float_data());
    case TensorProto::kDoubleDataFieldNumber:
      return field.payload != nullptr ? field.payload->bytes
                                      : View(tensor.double_data());
    default:
      break;
  }
  if (field.payload != nullptr) return std::nullopt;
  if (type == ElementType::kInt64) return View(tensor.int64_data());
  if (type == ElementType::kUint64) return View(tensor.uint64_data());
  if (type == ElementType::kInt32) return View(tensor.int32_data());
  return std::nullopt;
}

std::string EncodeField(const TensorProto& tensor, int number) {
  std::string out;
  switch (number) {
    case TensorProto::kInt32DataFieldNumber:
      for (const int32_t value : tensor.int32_data()) {
        // Protobuf extends the sign to 64 bits.
        AppendVarint(static_cast<uint64_t>(int64_t{value}), &out);
      }
      break;
    case TensorProto::kInt64DataFieldNumber:
      for (const int64_t value : tensor.int64_data()) {
        AppendVarint(static_cast<uint64_t>(value), &out);
      }
      break;
    case TensorProto::kUint64DataFieldNumber:
      for (const uint64_t value : tensor.uint64_data()) {
        AppendVarint(value, &out);
      }
      break;
    case TensorProto::kStringDataFieldNumber:
      for (const std::string& value : tensor.string_data()) {
        AppendTag(TensorProto::kStringDataFieldNumber,
                  WireType::kLengthDelimited, &out);
        AppendVarint(value.size(), &out);
        out.append(value);
      }
      break;
    default:
      break;
  }
  return out;
}

}  // namespace onnx_memopt::io
