#include "onnx-memopt-plan/offsets_pools.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx-memopt-plan/offsets_file.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/plan/offsets_search.h"
#include "onnx_memopt/plan/offsets_variants.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::cli {
namespace {

struct Pool {
  std::vector<int32_t> members;  // in the file
  std::vector<plan::Buffer> buffers;
  std::vector<plan::InPlaceBuffers> in_place;
};

std::vector<Pool> Split(const OffsetsFile& file) {
  std::vector<Pool> pools(file.pools.size());
  std::vector<int32_t> place(file.buffers.size());
  for (size_t i = 0; i < file.buffers.size(); ++i) {
    Pool& pool = pools[file.pool_of_buffer[i]];
    place[i] = static_cast<int32_t>(pool.buffers.size());
    pool.members.push_back(static_cast<int32_t>(i));
    pool.buffers.push_back(file.buffers[i]);
  }
  for (const plan::InPlaceBuffers& pair : file.in_place) {
    pools[file.pool_of_buffer[pair.result]].in_place.push_back(
        {.operand = place[pair.operand], .result = place[pair.result]});
  }
  return pools;
}

// Where a result may lie over its operand, the step that they share counts the
// operand alone, which is not smaller.
absl::StatusOr<int64_t> InPlaceBound(const Pool& pool) {
  std::vector<plan::Buffer> shorter = pool.buffers;
  std::vector<bool> over(shorter.size(), false);
  for (const plan::InPlaceBuffers& pair : pool.in_place) {
    if (!over[pair.result]) ++shorter[pair.result].begin;
    over[pair.result] = true;
  }
  shorter.erase(
      std::remove_if(shorter.begin(), shorter.end(),
                     [](const plan::Buffer& b) { return b.begin >= b.end; }),
      shorter.end());
  return plan::LowerBound(shorter);
}

absl::StatusOr<plan::OffsetSolution> SolvePool(
    const Pool& pool, const plan::OffsetOptions& options) {
  if (pool.in_place.empty()) {
    ASSIGN_OR_RETURN(plan::OffsetSolution solution,
                     plan::SolveOffsets(pool.buffers, options));
    RETURN_IF_ERROR(plan::ValidateOffsets(pool.buffers, solution.plan));
    return solution;
  }
  plan::OffsetSolution last;
  int64_t states = 0;
  const auto packer = [&](absl::Span<const plan::Buffer> buffers)
      -> absl::StatusOr<plan::OffsetPlan> {
    ASSIGN_OR_RETURN(last, plan::SolveOffsets(buffers, options));
    states += last.states;
    return last.plan;
  };
  ASSIGN_OR_RETURN(plan::OffsetPlan plan,
                   plan::PackInPlace(pool.buffers, pool.in_place, packer));
  RETURN_IF_ERROR(plan::ValidateInPlace(pool.buffers, pool.in_place, plan));
  ASSIGN_OR_RETURN(const int64_t bound, InPlaceBound(pool));
  return plan::OffsetSolution{.plan = std::move(plan),
                              .lower_bound_bytes = bound,
                              .method = last.method,
                              .states = states};
}

}  // namespace

absl::StatusOr<PoolsSolution> SolvePools(const OffsetsFile& file,
                                         const plan::OffsetOptions& options) {
  PoolsSolution all;
  all.plan.offset_bytes.assign(file.buffers.size(), 0);
  all.method = "greedy";
  int64_t most = -1;
  for (const Pool& pool : Split(file)) {
    ASSIGN_OR_RETURN(const plan::OffsetSolution own, SolvePool(pool, options));
    const int64_t bytes = own.plan.arena_bytes;
    for (size_t k = 0; k < pool.members.size(); ++k) {
      all.plan.offset_bytes[pool.members[k]] = own.plan.offset_bytes[k];
    }
    const std::optional<int64_t> sum = CheckedAdd(all.plan.arena_bytes, bytes);
    if (!sum) {
      return absl::InvalidArgumentError(
          "the sum of all pools is beyond 2^63 bytes");
    }
    all.plan.arena_bytes = *sum;
    all.lower_bound_bytes += own.lower_bound_bytes;
    all.pool_bytes.push_back(bytes);
    all.states += own.states;
    if (bytes > most) all.method = own.method;
    most = std::max(most, bytes);
  }
  return all;
}

}  // namespace onnx_memopt::cli
