// Both variants are turned into plain problems: buffers that share their bytes
// become one with the union of their lives, and each pool is a problem of its
// own.
#include "onnx_memopt/plan/offsets_variants.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::plan {
namespace {

absl::Status CheckPair(absl::Span<const Buffer> buffers,
                       const InPlaceBuffers& pair) {
  const auto n = static_cast<int64_t>(buffers.size());
  if (pair.operand < 0 || pair.operand >= n || pair.result < 0 ||
      pair.result >= n || pair.operand == pair.result) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pair (", pair.operand, ", ", pair.result,
                     ") does not name two of the ", n, " buffers"));
  }
  const Buffer& operand = buffers[pair.operand];
  const Buffer& result = buffers[pair.result];
  if (int64_t{operand.end} != int64_t{result.begin} + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", pair.result, " begins at ", result.begin,
                     ", not in the last step of its operand ", pair.operand,
                     ", which ends at ", operand.end));
  }
  if (operand.begin >= result.begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", pair.result, " and its operand ", pair.operand,
                     " begin in the same step, ", result.begin));
  }
  if (result.size_bytes > operand.size_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", pair.result, " (", result.size_bytes,
                     " bytes) is larger than its operand ", pair.operand, " (",
                     operand.size_bytes, " bytes)"));
  }
  return absl::OkStatus();
}

// group[i]: the first buffer of the chain that buffer i is in.
std::vector<int32_t> Chains(absl::Span<const Buffer> buffers,
                            absl::Span<const InPlaceBuffers> pairs,
                            bool equal_sizes_only) {
  std::vector<int32_t> next(buffers.size(), -1);
  std::vector<int32_t> previous(buffers.size(), -1);
  for (const InPlaceBuffers& pair : pairs) {
    if (next[pair.operand] >= 0 || previous[pair.result] >= 0) continue;
    if (equal_sizes_only &&
        buffers[pair.operand].size_bytes != buffers[pair.result].size_bytes) {
      continue;
    }
    next[pair.operand] = pair.result;
    previous[pair.result] = pair.operand;
  }
  // A result begins after its operand, so the chains end.
  std::vector<int32_t> group(buffers.size(), -1);
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (previous[i] >= 0) continue;
    for (auto k = static_cast<int32_t>(i); k >= 0; k = next[k]) {
      group[k] = static_cast<int32_t>(i);
    }
  }
  return group;
}

absl::StatusOr<OffsetPlan> PackGroups(absl::Span<const Buffer> buffers,
                                      absl::Span<const int32_t> group,
                                      const OffsetPacker& packer) {
  std::vector<Buffer> merged;
  std::vector<int32_t> position(buffers.size(), -1);
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (group[i] != static_cast<int32_t>(i)) continue;
    position[i] = static_cast<int32_t>(merged.size());
    merged.push_back(buffers[i]);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    Buffer& whole = merged[position[group[i]]];
    whole.begin = std::min(whole.begin, buffers[i].begin);
    whole.end = std::max(whole.end, buffers[i].end);
  }
  ASSIGN_OR_RETURN(const OffsetPlan packed, packer(merged));
  OffsetPlan plan{.arena_bytes = packed.arena_bytes};
  for (size_t i = 0; i < buffers.size(); ++i) {
    plan.offset_bytes.push_back(buffers[i].size_bytes == 0
                                    ? 0
                                    : packed.offset_bytes[position[group[i]]]);
  }
  return plan;
}

}  // namespace

absl::StatusOr<OffsetPlan> PackInPlace(absl::Span<const Buffer> buffers,
                                       absl::Span<const InPlaceBuffers> pairs,
                                       const OffsetPacker& packer) {
  for (const InPlaceBuffers& pair : pairs) {
    RETURN_IF_ERROR(CheckPair(buffers, pair));
  }
  const std::vector<int32_t> equal =
      Chains(buffers, pairs, /*equal_sizes_only=*/true);
  ASSIGN_OR_RETURN(OffsetPlan best, PackGroups(buffers, equal, packer));
  const std::vector<int32_t> all =
      Chains(buffers, pairs, /*equal_sizes_only=*/false);
  if (all == equal) return best;
  ASSIGN_OR_RETURN(OffsetPlan other, PackGroups(buffers, all, packer));
  return other.arena_bytes < best.arena_bytes ? std::move(other)
                                              : std::move(best);
}

absl::StatusOr<PoolPlan> PackPools(absl::Span<const Buffer> buffers,
                                   absl::Span<const int32_t> pool,
                                   int32_t num_pools,
                                   const OffsetPacker& packer) {
  if (pool.size() != buffers.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        pool.size(), " pools are given for ", buffers.size(), " buffers"));
  }
  std::vector<std::vector<int32_t>> members(std::max(num_pools, 0));
  for (size_t i = 0; i < pool.size(); ++i) {
    if (pool[i] < 0 || pool[i] >= num_pools) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer ", i, " is in pool ", pool[i],
                       ", but there are ", num_pools));
    }
    members[pool[i]].push_back(static_cast<int32_t>(i));
  }
  PoolPlan plan;
  plan.offset_bytes.assign(buffers.size(), 0);
  for (const std::vector<int32_t>& indices : members) {
    std::vector<Buffer> own;
    own.reserve(indices.size());
    for (int32_t i : indices) own.push_back(buffers[i]);
    ASSIGN_OR_RETURN(const OffsetPlan packed, packer(own));
    for (size_t k = 0; k < indices.size(); ++k) {
      plan.offset_bytes[indices[k]] = packed.offset_bytes[k];
    }
    plan.pool_bytes.push_back(packed.arena_bytes);
  }
  return plan;
}

}  // namespace onnx_memopt::plan
