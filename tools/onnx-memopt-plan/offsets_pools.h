// Plans a file of buffers: each pool an arena of its own, with results in place
// over their operands.
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_OFFSETS_POOLS_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_OFFSETS_POOLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx-memopt-plan/offsets_file.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/plan/offsets_search.h"

namespace onnx_memopt::cli {

struct PoolsSolution {
  // Offsets in the buffer's pool; arena_bytes is the sum of all pools.
  plan::OffsetPlan plan;
  int64_t lower_bound_bytes = 0;
  std::vector<int64_t> pool_bytes;
  std::string method;  // of the largest pool
  int64_t states = 0;
};

// `options` hold for each search: one for a pool, two for a pool that has pairs
// of unequal size. The plan has been checked.
absl::StatusOr<PoolsSolution> SolvePools(const OffsetsFile& file,
                                         const plan::OffsetOptions& options);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_OFFSETS_POOLS_H_
