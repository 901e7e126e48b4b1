#include "onnx_memopt/io/tensor_values.h"

#include <cstring>

#include "onnx_memopt/ir/contents.h"
#include "onnx_memopt/ir/type.h"
#include "onnx_memopt/ir/weight_reader.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/half.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

using ir::ElementType;
using ir::Weight;
using ir::WeightStorage;

// Takes one varint off `bytes`, which ResolveTensor has checked.
uint64_t TakeVarint(absl::string_view* bytes) {
  uint64_t value = 0;
  for (int shift = 0; !bytes->empty() && shift < 70; shift += 7) {
    const uint8_t byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

std::optional<int64_t> CountElements(const Weight& weight) {
  int64_t count = 1;
  for (const int64_t dim : weight.dims) {
    const std::optional<int64_t> product = CheckedMul(count, dim);
    if (!product.has_value()) return std::nullopt;
    count = *product;
  }
  return count;
}

// Elements of a small tensor as raw_data; nullopt where they are not followed.
std::optional<std::string> SmallRawBytes(const Weight& weight) {
  const std::optional<int64_t> count = CountElements(weight);
  if (!HasRawForm(weight) || !count.has_value() ||
      *count > ir::kMaxContentsElements) {
    return std::nullopt;
  }
  std::string raw;
  const absl::Status status =
      VisitRawBytes(weight, [&raw](absl::string_view bytes) {
        raw.append(bytes.data(), bytes.size());
        return absl::OkStatus();
      });
  if (!status.ok() || static_cast<int64_t>(raw.size()) != weight.size_bytes) {
    return std::nullopt;
  }
  return raw;
}

template <typename T>
std::vector<T> Elements(absl::string_view raw) {
  std::vector<T> values(raw.size() / sizeof(T));
  if (!values.empty()) {
    std::memcpy(values.data(), raw.data(), values.size() * sizeof(T));
  }
  return values;
}

template <typename T>
std::vector<int64_t> Widen(absl::string_view raw) {
  const std::vector<T> values = Elements<T>(raw);
  return std::vector<int64_t>(values.begin(), values.end());
}

// Elements of 2 or 4 bits, the first in the lowest bits of each byte.
std::vector<int64_t> Unpack(absl::string_view raw, int bits, bool is_signed,
                            int64_t count) {
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(count));
  const int per_byte = 8 / bits;
  const int mask = (1 << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int byte =
        static_cast<uint8_t>(raw[static_cast<size_t>(i / per_byte)]);
    int value = (byte >> (bits * static_cast<int>(i % per_byte))) & mask;
    if (is_signed && value > mask / 2) value -= mask + 1;
    values.push_back(value);
  }
  return values;
}

}  // namespace

bool HasRawForm(const Weight& weight) {
  return weight.element != ElementType::kString &&
         (weight.storage == WeightStorage::kRaw ||
          weight.storage == WeightStorage::kTyped);
}

absl::Status VisitRawBytes(
    const Weight& weight,
    absl::FunctionRef<absl::Status(absl::string_view)> visit) {
  if (!HasRawForm(weight)) {
    return absl::FailedPreconditionError("has no raw bytes");
  }
  if (weight.storage == WeightStorage::kRaw) {
    return ir::WeightReader().Visit(weight, visit);
  }
  constexpr size_t kChunk = size_t{1} << 16;
  // An entry is an element, or a byte of several small ones; six bits are a
  // stream of bits.
  const int bits = *ir::BitWidth(weight.element);
  const int entry_bits = bits < 6 ? 8 : bits;
  const uint64_t mask =
      entry_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << entry_bits) - 1;
  std::string chunk;
  chunk.reserve(kChunk + 8);
  unsigned __int128 pending = 0;
  int pending_bits = 0;
  absl::string_view rest = weight.bytes;
  while (!rest.empty()) {
    pending |= static_cast<unsigned __int128>(TakeVarint(&rest) & mask)
               << pending_bits;
    pending_bits += entry_bits;
    while (pending_bits >= 8) {
      chunk.push_back(static_cast<char>(pending & 0xff));
      pending >>= 8;
      pending_bits -= 8;
    }
    if (chunk.size() >= kChunk) {
      RETURN_IF_ERROR(visit(chunk));
      chunk.clear();
    }
  }
  if (pending_bits > 0) chunk.push_back(static_cast<char>(pending & 0xff));
  return chunk.empty() ? absl::OkStatus() : visit(chunk);
}

std::optional<std::vector<int64_t>> IntegerValues(const Weight& weight) {
  const std::optional<std::string> raw = SmallRawBytes(weight);
  if (!raw.has_value()) return std::nullopt;
  switch (weight.element) {
    case ElementType::kBool:
    case ElementType::kUint8:
      return Widen<uint8_t>(*raw);
    case ElementType::kInt8:
      return Widen<int8_t>(*raw);
    case ElementType::kUint16:
      return Widen<uint16_t>(*raw);
    case ElementType::kInt16:
      return Widen<int16_t>(*raw);
    case ElementType::kUint32:
      return Widen<uint32_t>(*raw);
    case ElementType::kInt32:
      return Widen<int32_t>(*raw);
    case ElementType::kInt64:
      return Widen<int64_t>(*raw);
    case ElementType::kUint64: {
      std::vector<int64_t> values = Widen<uint64_t>(*raw);
      for (const int64_t value : values) {
        if (value < 0) return std::nullopt;
      }
      return values;
    }
    case ElementType::kUint4:
    case ElementType::kInt4:
      return Unpack(*raw, 4, weight.element == ElementType::kInt4,
                    *CountElements(weight));
    case ElementType::kUint2:
    case ElementType::kInt2:
      return Unpack(*raw, 2, weight.element == ElementType::kInt2,
                    *CountElements(weight));
    default:
      return std::nullopt;
  }
}

std::optional<std::vector<double>> RealValues(const Weight& weight) {
  const std::optional<std::string> raw = SmallRawBytes(weight);
  if (!raw.has_value()) return std::nullopt;
  std::vector<double> values;
  switch (weight.element) {
    case ElementType::kFloat:
      for (const float value : Elements<float>(*raw)) values.push_back(value);
      return values;
    case ElementType::kDouble:
      return Elements<double>(*raw);
    case ElementType::kFloat16:
      for (const uint16_t value : Elements<uint16_t>(*raw)) {
        values.push_back(FromFloat16(value));
      }
      return values;
    case ElementType::kBfloat16:
      for (const uint16_t value : Elements<uint16_t>(*raw)) {
        values.push_back(FromBfloat16(value));
      }
      return values;
    default:
      return std::nullopt;
  }
}

}  // namespace onnx_memopt::io
