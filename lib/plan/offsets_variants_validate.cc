// The judges of the variants, the quadratic way: every two buffers are
// compared.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/plan/offsets_variants.h"

namespace onnx_memopt::plan {
namespace {

bool Meet(const Buffer& a, const Buffer& b) {
  return a.size_bytes > 0 && b.size_bytes > 0 && a.begin < b.end &&
         b.begin < a.end;
}

// Of buffers that were checked to lie inside their arena: nothing overflows.
bool Overlap(const Buffer& a, int64_t offset_a, const Buffer& b,
             int64_t offset_b) {
  return offset_a < offset_b + b.size_bytes &&
         offset_b < offset_a + a.size_bytes;
}

absl::Status CheckInside(size_t i, const Buffer& buffer, int64_t offset,
                         int64_t arena_bytes) {
  if (buffer.end <= buffer.begin || buffer.size_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "buffer ", i, " has an empty lifetime or a negative size"));
  }
  if (offset < 0 || offset > arena_bytes ||
      buffer.size_bytes > arena_bytes - offset) {
    return absl::InternalError(
        absl::StrCat("buffer ", i, " (", buffer.size_bytes, " bytes at ",
                     offset, ") is not inside the ", arena_bytes, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status Clash(size_t a, size_t b) {
  return absl::InternalError(
      absl::StrCat("buffers ", a, " and ", b, " overlap and live together"));
}

}  // namespace

absl::Status ValidateInPlace(absl::Span<const Buffer> buffers,
                             absl::Span<const InPlaceBuffers> pairs,
                             const OffsetPlan& plan) {
  if (plan.offset_bytes.size() != buffers.size()) {
    return absl::InvalidArgumentError("not one offset for each buffer");
  }
  absl::flat_hash_set<std::pair<size_t, size_t>> may_share;
  for (const InPlaceBuffers& pair : pairs) {
    const auto a = static_cast<size_t>(pair.operand);
    const auto b = static_cast<size_t>(pair.result);
    may_share.emplace(std::min(a, b), std::max(a, b));
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    const int64_t offset = plan.offset_bytes[i];
    absl::Status status = CheckInside(i, buffers[i], offset, plan.arena_bytes);
    if (!status.ok()) return status;
    for (size_t j = 0; j < i; ++j) {
      const int64_t other = plan.offset_bytes[j];
      if (!Meet(buffers[i], buffers[j]) ||
          !Overlap(buffers[i], offset, buffers[j], other)) {
        continue;
      }
      if (offset == other && may_share.count({j, i}) > 0) continue;
      return Clash(j, i);
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePools(absl::Span<const Buffer> buffers,
                           absl::Span<const int32_t> pool,
                           const PoolPlan& plan) {
  if (plan.offset_bytes.size() != buffers.size() ||
      pool.size() != buffers.size()) {
    return absl::InvalidArgumentError(
        "not one offset and one pool for each buffer");
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (pool[i] < 0 || static_cast<size_t>(pool[i]) >= plan.pool_bytes.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer ", i, " is in no pool of the plan"));
    }
    absl::Status status = CheckInside(i, buffers[i], plan.offset_bytes[i],
                                      plan.pool_bytes[pool[i]]);
    if (!status.ok()) return status;
    for (size_t j = 0; j < i; ++j) {
      if (pool[i] == pool[j] && Meet(buffers[i], buffers[j]) &&
          Overlap(buffers[i], plan.offset_bytes[i], buffers[j],
                  plan.offset_bytes[j])) {
        return Clash(j, i);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace onnx_memopt::plan
