#include "onnx_memopt/analysis/equal_weights.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/BLAKE3.h"
#include "onnx_memopt/ir/weight_reader.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {
namespace {

using ir::Weight;
using ir::WeightId;
using ir::WeightReader;
using ir::WeightStorage;

constexpr int64_t kChunkBytes = int64_t{1} << 20;
constexpr int64_t kSampleBytes = 4096;
constexpr int64_t kDiagonalSamples = 32;
constexpr size_t kMaxPartners = 16;

using Digest = std::array<uint8_t, LLVM_BLAKE3_OUT_LEN>;

llvm::ArrayRef<uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Digest Hash(llvm::ArrayRef<uint8_t> bytes) {
  return llvm::BLAKE3::hash<LLVM_BLAKE3_OUT_LEN>(bytes);
}

class Finder {
 public:
  Finder(const ir::Graph& graph, const EqualWeightsOptions& options)
      : graph_(graph), options_(options), buffer_(kChunkBytes, '\0') {}

  absl::StatusOr<EqualWeights> Run(absl::Span<const WeightId> weights) {
    std::vector<WeightId> candidates;
    for (WeightId id : weights) {
      const Weight& weight = graph_.weight(id);
      if (weight.size_bytes >= options_.min_size_bytes &&
          weight.size_bytes > 0 && weight.storage != WeightStorage::kSparse) {
        candidates.push_back(id);
      }
    }
    // Each round splits the groups of the round before by a closer look.
    auto groups = Split(
        {candidates}, [&](WeightId id) { return ShapeKey(graph_.weight(id)); });
    groups = Split(groups, [&](WeightId id) { return SampleKey(id); });
    groups = Split(groups, [&](WeightId id) { return ContentKey(id); });
    for (std::vector<WeightId>& group : groups) {
      if (group.size() > 1) out_.groups.push_back(std::move(group));
    }
    std::sort(out_.groups.begin(), out_.groups.end());
    RETURN_IF_ERROR(FindTransposed(candidates));
    return std::move(out_);
  }

 private:
  // Groups of more than one, split by key; a weight without a key is alone.
  template <typename KeyOf>
  std::vector<std::vector<WeightId>> Split(
      const std::vector<std::vector<WeightId>>& groups, KeyOf key_of) {
    std::vector<std::vector<WeightId>> result;
    for (const std::vector<WeightId>& group : groups) {
      if (group.size() < 2) continue;
      std::map<std::string, std::vector<WeightId>> parts;
      for (WeightId id : group) {
        if (std::optional<std::string> key = key_of(id)) {
          parts[*std::move(key)].push_back(id);
        }
      }
      for (auto& [key, part] : parts) {
        if (part.size() > 1) result.push_back(std::move(part));
      }
    }
    return result;
  }

  static std::optional<std::string> ShapeKey(const Weight& weight) {
    std::string key =
        absl::StrCat(static_cast<int>(weight.element), " ",
                     weight.storage == WeightStorage::kTyped ? "t" : "r", " ",
                     WeightReader::StoredBytes(weight));
    if (weight.is_transformed()) {
      absl::StrAppend(&key, " from ", static_cast<int>(weight.transform.from),
                      weight.transform.clamp ? " clamped" : "");
    }
    for (int64_t dim : weight.dims) absl::StrAppend(&key, " ", dim);
    return key;
  }

  // The place of a range that is not to be read.
  std::string PlaceKey(const Weight& weight) const {
    return absl::StrCat(weight.external.path, "\x1f",
                        weight.external.offset_bytes);
  }

  bool Unreadable(const Weight& weight) const {
    return weight.storage == WeightStorage::kExternal &&
           !options_.read_external;
  }

  // Also notes a file that cannot be read.
  bool Read(const Weight& weight, int64_t offset, absl::Span<char> buffer) {
    if (weight.storage != WeightStorage::kExternal) DropResidentAtTimes();
    const absl::Status status = reader_.Read(weight, offset, buffer);
    if (status.ok()) return true;
    const std::string message(status.message());
    if (std::find(out_.unread.begin(), out_.unread.end(), message) ==
        out_.unread.end()) {
      out_.unread.push_back(message);
    }
    return false;
  }

  // A read of a few bytes may make a whole large page resident.
  void DropResidentAtTimes() {
    constexpr int kReads = 16;
    if (++mapped_reads_ % kReads == 0 && graph_.drop_resident) {
      graph_.drop_resident();
    }
  }

  // Of the first, the middle and the last bytes. Large models have so many
  // weights that the samples themselves would fill memory.
  std::optional<std::string> SampleKey(WeightId id) {
    const Weight& weight = graph_.weight(id);
    if (Unreadable(weight)) return PlaceKey(weight);
    const int64_t size = WeightReader::StoredBytes(weight);
    const int64_t length = std::min(size, kSampleBytes);
    const auto bytes = static_cast<size_t>(length);
    llvm::BLAKE3 hasher;
    for (int64_t offset : {int64_t{0}, (size - length) / 2, size - length}) {
      if (!Read(weight, offset, absl::MakeSpan(buffer_.data(), bytes))) {
        return std::nullopt;
      }
      hasher.update(Bytes(buffer_).take_front(bytes));
    }
    return ToKey(hasher.final<LLVM_BLAKE3_OUT_LEN>());
  }

  static std::string ToKey(const Digest& digest) {
    return std::string(digest.begin(), digest.end());
  }

  // A hash over the hashes of all chunks. Chunks that the file system does not
  // store are not read.
  std::optional<std::string> ContentKey(WeightId id) {
    const Weight& weight = graph_.weight(id);
    if (Unreadable(weight)) return PlaceKey(weight);
    const int64_t size = WeightReader::StoredBytes(weight);
    llvm::BLAKE3 hasher;
    for (int64_t offset = 0; offset < size; offset += kChunkBytes) {
      const int64_t length = std::min(kChunkBytes, size - offset);
      const auto bytes = static_cast<size_t>(length);
      if (reader_.IsHole(weight, offset, length)) {
        hasher.update(HashOfZeros(bytes));
        continue;
      }
      if (!Read(weight, offset, absl::MakeSpan(buffer_.data(), bytes))) {
        return std::nullopt;
      }
      hasher.update(Hash(Bytes(buffer_).take_front(bytes)));
    }
    return ToKey(hasher.final<LLVM_BLAKE3_OUT_LEN>());
  }

  const Digest& HashOfZeros(size_t length) {
    const auto [it, is_new] = hash_of_zeros_.try_emplace(length);
    if (is_new) it->second = Hash(Bytes(std::string(length, '\0')));
    return it->second;
  }

  static std::optional<int64_t> ElementBytes(const Weight& weight) {
    const std::optional<int> bits = BitWidth(weight.element);
    if (!bits || *bits % 8 != 0 || weight.storage == WeightStorage::kTyped ||
        weight.is_transformed() || weight.element == ir::ElementType::kString) {
      return std::nullopt;
    }
    return *bits / 8;
  }

  // Elements on the diagonal stay where they are when a matrix is transposed.
  std::optional<std::string> DiagonalKey(WeightId id) {
    const Weight& weight = graph_.weight(id);
    const std::optional<int64_t> element = ElementBytes(weight);
    if (!element || weight.dims.size() != 2 || Unreadable(weight)) {
      return std::nullopt;
    }
    const int64_t rows = weight.dims[0];
    const int64_t columns = weight.dims[1];
    const int64_t length = std::min(rows, columns);
    if (length < 2) return std::nullopt;
    std::string key = absl::StrCat(static_cast<int>(weight.element), " ",
                                   length, " ", std::max(rows, columns), " ");
    for (int64_t i = 0; i < std::min(length, kDiagonalSamples); ++i) {
      const int64_t at = length * i / std::min(length, kDiagonalSamples);
      std::string sample(static_cast<size_t>(*element), '\0');
      if (!Read(weight, (at * columns + at) * *element,
                absl::MakeSpan(sample.data(), sample.size()))) {
        return std::nullopt;
      }
      key += sample;
    }
    return key;
  }

  absl::Status FindTransposed(const std::vector<WeightId>& candidates) {
    // Of equal weights the first stands for all.
    std::map<WeightId, bool> repeats;
    for (const auto& group : out_.groups) {
      for (size_t i = 1; i < group.size(); ++i) repeats[group[i]] = true;
    }
    std::vector<WeightId> firsts;
    for (WeightId id : candidates) {
      if (!repeats.contains(id)) firsts.push_back(id);
    }
    for (const std::vector<WeightId>& group :
         Split({firsts}, [&](WeightId id) { return DiagonalKey(id); })) {
      for (size_t i = 0; i < group.size(); ++i) FindPartner(group, i);
    }
    return absl::OkStatus();
  }

  // A group agrees in 32 samples: in practice it has two members. Of many that
  // are alike, such as masks, only those close together are compared.
  void FindPartner(const std::vector<WeightId>& group, size_t i) {
    const size_t end = std::min(group.size(), i + 1 + kMaxPartners);
    for (size_t j = i + 1; j < end; ++j) {
      if (IsTransposed(graph_.weight(group[i]), graph_.weight(group[j]))) {
        // There is only one: weights equal to it have been left out.
        out_.transposed.emplace_back(group[i], group[j]);
        return;
      }
    }
  }

  // Compares tile by tile, so that both are read along their rows.
  bool IsTransposed(const Weight& a, const Weight& b) {
    constexpr int64_t kTile = 256;
    const int64_t rows = a.dims[0];
    const int64_t columns = a.dims[1];
    if (b.dims[0] != columns || b.dims[1] != rows) return false;
    const int64_t element = *ElementBytes(a);
    for (int64_t row = 0; row < rows; row += kTile) {
      for (int64_t column = 0; column < columns; column += kTile) {
        const int64_t height = std::min(kTile, rows - row);
        const int64_t width = std::min(kTile, columns - column);
        const std::optional<std::string> tile_a =
            Tile(a, row, column, height, width, element);
        const std::optional<std::string> tile_b =
            Tile(b, column, row, width, height, element);
        if (!tile_a || !tile_b) return false;
        for (int64_t i = 0; i < height; ++i) {
          for (int64_t j = 0; j < width; ++j) {
            if (tile_a->compare(static_cast<size_t>((i * width + j) * element),
                                static_cast<size_t>(element), *tile_b,
                                static_cast<size_t>((j * height + i) * element),
                                static_cast<size_t>(element)) != 0) {
              return false;
            }
          }
        }
      }
    }
    return true;
  }

  std::optional<std::string> Tile(const Weight& weight, int64_t row,
                                  int64_t column, int64_t height, int64_t width,
                                  int64_t element) {
    std::string tile(static_cast<size_t>(height * width * element), '\0');
    const auto bytes = static_cast<size_t>(width * element);
    for (int64_t i = 0; i < height; ++i) {
      if (!Read(weight, ((row + i) * weight.dims[1] + column) * element,
                absl::MakeSpan(tile.data() + static_cast<size_t>(i) * bytes,
                               bytes))) {
        return std::nullopt;
      }
    }
    return tile;
  }

  const ir::Graph& graph_;
  const EqualWeightsOptions& options_;
  WeightReader reader_;
  std::string buffer_;
  int64_t mapped_reads_ = 0;
  std::map<size_t, Digest> hash_of_zeros_;  // by length
  EqualWeights out_;
};

}  // namespace

absl::StatusOr<EqualWeights> FindEqualWeights(
    const ir::Graph& graph, absl::Span<const WeightId> weights,
    const EqualWeightsOptions& options) {
  return Finder(graph, options).Run(weights);
}

}  // namespace onnx_memopt::analysis
