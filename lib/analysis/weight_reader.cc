#include "analysis/weight_reader.h"

#include <cassert>
#include <cstring>

namespace onnx_memopt::analysis {

int64_t WeightReader::StoredBytes(const ir::Weight& weight) {
  return weight.storage == ir::WeightStorage::kExternal
             ? weight.size_bytes
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

absl::Status WeightReader::Read(const ir::Weight& weight, int64_t offset_bytes,
                                absl::Span<char> buffer) {
  assert(offset_bytes >= 0 &&
         offset_bytes + static_cast<int64_t>(buffer.size()) <=
             StoredBytes(weight) &&
         "a range inside the weight");
  if (weight.storage != ir::WeightStorage::kExternal) {
    std::memcpy(buffer.data(), weight.bytes.data() + offset_bytes,
                buffer.size());
    return absl::OkStatus();
  }
  const absl::StatusOr<const RandomAccessFile*> file =
      File(weight.external.path);
  if (!file.ok()) return file.status();
  return (*file)->Read(weight.external.offset_bytes + offset_bytes, buffer);
}

bool WeightReader::IsHole(const ir::Weight& weight, int64_t offset_bytes,
                          int64_t length_bytes) {
  if (weight.storage != ir::WeightStorage::kExternal) return false;
  const absl::StatusOr<const RandomAccessFile*> file =
      File(weight.external.path);
  return file.ok() &&
         (*file)->IsHole(weight.external.offset_bytes + offset_bytes,
                         length_bytes);
}

}  // namespace onnx_memopt::analysis
