#include "rewrite/moments.h"

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "Eigen/Cholesky"
#include "Eigen/Core"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/mapped_file.h"
#include "onnx_memopt/support/status_macros.h"
#include "rewrite/matrix_view.h"

namespace onnx_memopt::rewrite {
namespace {

using Json = nlohmann::json;

// What directions count for that the samples hardly have, of the mean of all:
// so that a few samples do not give them up.
constexpr double kRidge = 1e-3;
constexpr size_t kLengthBytes = 8;

std::optional<int64_t> ToCount(const Json& json) {
  if (!json.is_number_unsigned()) return std::nullopt;
  const auto value = json.get<uint64_t>();
  if (value > INT64_MAX) return std::nullopt;
  return static_cast<int64_t>(value);
}

// Where the square float32 matrix of an entry is, after the header; nullopt if
// it is none or not within `size_bytes`.
std::optional<ir::Weight> ReadEntry(const Json& json, int64_t size_bytes) {
  if (!json.is_object() || json.value("dtype", Json()) != "F32") {
    return std::nullopt;
  }
  const Json shape = json.value("shape", Json());
  const Json offsets = json.value("data_offsets", Json());
  if (!shape.is_array() || shape.size() != 2 || !offsets.is_array() ||
      offsets.size() != 2) {
    return std::nullopt;
  }
  const std::optional<int64_t> side = ToCount(shape[0]);
  const std::optional<int64_t> begin = ToCount(offsets[0]);
  const std::optional<int64_t> end = ToCount(offsets[1]);
  if (!side || !begin || !end || shape[1] != shape[0] || *begin > *end ||
      *end > size_bytes) {
    return std::nullopt;
  }
  const int64_t bytes = *end - *begin;
  // Compared without a product that could overflow.
  if (*side < 1 || bytes % *side != 0 || bytes / *side % 4 != 0 ||
      bytes / *side / 4 != *side) {
    return std::nullopt;
  }
  ir::Weight weight;
  weight.element = ir::ElementType::kFloat;
  weight.dims = {*side, *side};
  weight.size_bytes = bytes;
  weight.storage = ir::WeightStorage::kExternal;
  weight.external.offset_bytes = *begin;
  weight.external.length_bytes = bytes;
  return weight;
}

}  // namespace

absl::StatusOr<Moments> Moments::Open(const std::string& path) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("moments \"", Printable(path), "\": ", why));
  };
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return wrong(file.status().message());
  const absl::string_view bytes = file->bytes();
  uint64_t length = 0;
  if (bytes.size() >= kLengthBytes) {
    std::memcpy(&length, bytes.data(), sizeof(length));
  }
  if (bytes.size() < kLengthBytes || length > bytes.size() - kLengthBytes) {
    return wrong("no safetensors file: its header is longer than the file");
  }
  const absl::string_view header = bytes.substr(kLengthBytes, length);
  const Json json = Json::parse(header.begin(), header.end(), nullptr,
                                /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return wrong("no safetensors file: its header is no JSON object");
  }
  Moments result;
  result.path_ = path;
  const size_t data = kLengthBytes + length;
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") continue;
    std::optional<ir::Weight> weight =
        ReadEntry(entry, static_cast<int64_t>(bytes.size() - data));
    if (!weight) {
      return wrong(absl::StrCat("\"", Printable(name),
                                "\" is no square float32 matrix within the "
                                "file"));
    }
    weight->name = name;
    weight->external.path = path;
    weight->external.offset_bytes += static_cast<int64_t>(data);
    result.entries_.emplace(name, *std::move(weight));
  }
  return result;
}

absl::StatusOr<std::optional<Matrix>> Moments::RootFor(
    const std::string& weight, int64_t side) {
  const auto it = entries_.find(weight);
  if (it == entries_.end()) return std::nullopt;
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("moments \"", Printable(path_), "\": those of \"",
                     Printable(weight), "\" ", why));
  };
  if (it->second.dims[0] != side) {
    return wrong(absl::StrCat("are of ", it->second.dims[0],
                              " inputs; expected ", side));
  }
  absl::StatusOr<std::vector<float>> read = reader_.Floats(it->second);
  if (!read.ok()) return wrong(read.status().message());
  Matrix root{side, side, *std::move(read)};
  Eigen::Map<FloatMatrix> view(root.elements.data(), side, side);
  const double mean = view.diagonal().cast<double>().mean();
  if (mean == 0) return std::nullopt;
  view.diagonal().array() += static_cast<float>(kRidge * mean);
  // In place, of the lower triangle.
  Eigen::LLT<Eigen::Ref<FloatMatrix>> llt(view);
  if (llt.info() != Eigen::Success || !view.diagonal().allFinite()) {
    return wrong("are no moments: not a positive matrix");
  }
  view.triangularView<Eigen::StrictlyUpper>().setZero();
  return root;
}

Matrix WithRoot(const Matrix& matrix, const Matrix& root, Side side) {
  const auto lower = View(root).triangularView<Eigen::Lower>();
  if (side == Side::kRows) {
    return ToMatrix(lower.transpose() * View(matrix));
  }
  return ToMatrix(View(matrix) * lower);
}

Factors WithoutRoot(const Matrix& matrix, Factors of_seen, Side side) {
  // The vectors of a factor are orthogonal, of the lengths that make both
  // factors alike.
  if (side == Side::kRows) {
    const Eigen::Map<const FloatMatrix> right = View(of_seen.right);
    const Eigen::VectorXf inverse =
        right.rowwise().squaredNorm().cwiseMax(1e-30F).cwiseInverse();
    of_seen.left =
        ToMatrix(View(matrix) * right.transpose() * inverse.asDiagonal());
    return of_seen;
  }
  const Eigen::Map<const FloatMatrix> left = View(of_seen.left);
  const Eigen::VectorXf inverse =
      left.colwise().squaredNorm().cwiseMax(1e-30F).cwiseInverse();
  of_seen.right =
      ToMatrix(inverse.asDiagonal() * (left.transpose() * View(matrix)));
  return of_seen;
}

}  // namespace onnx_memopt::rewrite
