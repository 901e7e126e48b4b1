// Arena plans with more to them: several pools, and results that may lie over
// their operands.
//
//   // Buffer 1 is computed in place over buffer 0.
//   OffsetPlan plan = *PackInPlace(buffers, {{.operand = 0, .result = 1}});
//
// The plans' offsets are checked by ValidateInPlace and ValidatePools, which
// share no code with the packers.
#ifndef ONNX_MEMOPT_PLAN_OFFSETS_VARIANTS_H_
#define ONNX_MEMOPT_PLAN_OFFSETS_VARIANTS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"

namespace onnx_memopt::plan {

// A packer: PackFirstFit, or SolveOffsets with options bound to it.
using OffsetPacker =
    std::function<absl::StatusOr<OffsetPlan>(absl::Span<const Buffer>)>;

// `result` may begin at the offset of `operand` in the last step of the
// operand's life, which is the first of its own but not of the operand's, and
// is not larger.
struct InPlaceBuffers {
  int32_t operand = 0;
  int32_t result = 0;
};

// Takes each pair, in order, whose buffers no pair before it has used in the
// same role, if the two have one size: then the pair never costs memory.
// Pairs of unequal sizes are tried all together, and kept if the arena gets
// smaller. Errors: those of the packer; a pair that breaks the rules above.
absl::StatusOr<OffsetPlan> PackInPlace(absl::Span<const Buffer> buffers,
                                       absl::Span<const InPlaceBuffers> pairs,
                                       const OffsetPacker& packer);

// As ValidateOffsets, but an operand and its result may share bytes if both
// begin at the same offset.
absl::Status ValidateInPlace(absl::Span<const Buffer> buffers,
                             absl::Span<const InPlaceBuffers> pairs,
                             const OffsetPlan& plan);

struct PoolPlan {
  std::vector<int64_t> offset_bytes;  // parallel to the buffers, in their pool
  std::vector<int64_t> pool_bytes;    // the size of each pool
};

// pool[i] is the pool of buffer i, 0 .. num_pools - 1.
absl::StatusOr<PoolPlan> PackPools(absl::Span<const Buffer> buffers,
                                   absl::Span<const int32_t> pool,
                                   int32_t num_pools,
                                   const OffsetPacker& packer);

absl::Status ValidatePools(absl::Span<const Buffer> buffers,
                           absl::Span<const int32_t> pool,
                           const PoolPlan& plan);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_OFFSETS_VARIANTS_H_
