#include "onnx_memopt/ir/weight_reader.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/half.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::ir {
namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 18;

// Little-endian, as the machines that this runs on.
void AppendHalves(absl::Span<const float> values, ElementType to, bool clamp,
                  std::string* out) {
  const bool is_bfloat16 = to == ElementType::kBfloat16;
  const float limit = is_bfloat16 ? kMaxBfloat16 : kMaxFloat16;
  const size_t begin = out->size();
  out->resize(begin + values.size() * sizeof(uint16_t));
  char* at = out->data() + begin;
  for (float value : values) {
    // NaN stays one: it is neither more nor less.
    if (clamp && value > limit) value = limit;
    if (clamp && value < -limit) value = -limit;
    const uint16_t bits = is_bfloat16 ? ToBfloat16(value) : ToFloat16(value);
    std::memcpy(at, &bits, sizeof(bits));
    at += sizeof(bits);
  }
}

}  // namespace

int64_t WeightReader::StoredBytes(const Weight& weight) {
  return weight.storage == WeightStorage::kExternal
             ? weight.external.length_bytes
             : static_cast<int64_t>(weight.bytes.size());
}

absl::StatusOr<const RandomAccessFile*> WeightReader::File(
    const std::string& path) {
  auto it = files_.find(path);
  if (it == files_.end()) {
    it = files_.emplace(path, RandomAccessFile::Open(path)).first;
  }
  if (!it->second.ok()) return it->second.status();
  return &*it->second;
}

absl::Status WeightReader::Read(const Weight& weight, int64_t offset_bytes,
                                absl::Span<char> buffer) {
  assert(offset_bytes >= 0 &&
         offset_bytes + static_cast<int64_t>(buffer.size()) <=
             StoredBytes(weight) &&
         "a range inside the weight");
  if (weight.storage != WeightStorage::kExternal) {
    std::memcpy(buffer.data(), weight.bytes.data() + offset_bytes,
                buffer.size());
    return absl::OkStatus();
  }
  const absl::StatusOr<const RandomAccessFile*> file =
      File(weight.external.path);
  if (!file.ok()) return file.status();
  return (*file)->Read(weight.external.offset_bytes + offset_bytes, buffer);
}

bool WeightReader::IsHole(const Weight& weight, int64_t offset_bytes,
                          int64_t length_bytes) {
  if (weight.storage != WeightStorage::kExternal) return false;
  const absl::StatusOr<const RandomAccessFile*> file =
      File(weight.external.path);
  return file.ok() &&
         (*file)->IsHole(weight.external.offset_bytes + offset_bytes,
                         length_bytes);
}

absl::Status WeightReader::Visit(
    const Weight& weight,
    absl::FunctionRef<absl::Status(absl::string_view)> visit) {
  if (weight.is_transformed()) {
    std::string chunk;
    return VisitFloats(weight, [&](absl::Span<const float> values) {
      chunk.clear();
      AppendHalves(values, weight.element, weight.transform.clamp, &chunk);
      return visit(chunk);
    });
  }
  if (weight.storage == WeightStorage::kRaw) return visit(weight.bytes);
  assert(weight.storage == WeightStorage::kExternal && "bytes as in raw_data");
  std::string chunk;
  for (int64_t at = 0; at < weight.size_bytes; at += kChunkBytes) {
    const int64_t length = std::min(kChunkBytes, weight.size_bytes - at);
    chunk.resize(static_cast<size_t>(length));
    RETURN_IF_ERROR(
        Read(weight, at, absl::MakeSpan(chunk.data(), chunk.size())));
    RETURN_IF_ERROR(visit(chunk));
  }
  return absl::OkStatus();
}

absl::Status WeightReader::VisitFloats(
    const Weight& weight,
    absl::FunctionRef<absl::Status(absl::Span<const float>)> visit) {
  assert((weight.is_transformed() ? weight.transform.from : weight.element) ==
             ElementType::kFloat &&
         "stored as float32");
  const int64_t size = StoredBytes(weight);
  std::vector<float> values;
  for (int64_t at = 0; at < size; at += kChunkBytes) {
    const int64_t length = std::min(kChunkBytes, size - at);
    values.resize(static_cast<size_t>(length) / sizeof(float));
    RETURN_IF_ERROR(Read(weight, at,
                         absl::MakeSpan(reinterpret_cast<char*>(values.data()),
                                        values.size() * sizeof(float))));
    RETURN_IF_ERROR(visit(values));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> WeightReader::Floats(const Weight& weight) {
  std::vector<float> all;
  all.reserve(static_cast<size_t>(StoredBytes(weight)) / sizeof(float));
  RETURN_IF_ERROR(VisitFloats(weight, [&](absl::Span<const float> values) {
    all.insert(all.end(), values.begin(), values.end());
    return absl::OkStatus();
  }));
  return all;
}

}  // namespace onnx_memopt::ir
