// Where to put buffers with known lifetimes in one arena.
//
//   std::vector<Buffer> buffers = {{.begin = 0, .end = 2, .size_bytes = 64},
//                                  {.begin = 1, .end = 3, .size_bytes = 32}};
//   OffsetPlan plan = *PackFirstFit(buffers);     // plan.arena_bytes == 96
//   CHECK_OK(ValidateOffsets(buffers, plan));
#ifndef ONNX_MEMOPT_PLAN_OFFSETS_H_
#define ONNX_MEMOPT_PLAN_OFFSETS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace onnx_memopt::plan {

// A lifetime [begin, end) in steps, end > begin, and a size. A buffer of 0
// bytes takes no room and gets offset 0.
struct Buffer {
  int32_t begin = 0;
  int32_t end = 0;
  int64_t size_bytes = 0;
};

struct OffsetPlan {
  std::vector<int64_t> offset_bytes;  // parallel to the buffers
  int64_t arena_bytes = 0;            // the largest offset + size
};

// The most bytes live at one step: no plan is smaller.
absl::StatusOr<int64_t> LowerBound(absl::Span<const Buffer> buffers);

// First fit over several orders (size, area, lifetime), the best of them; near
// linear in the number of pairs of buffers that live together. Buffers are
// placed at multiples of `alignment_bytes`, a power of two. Deterministic.
// Errors: a lifetime that is empty, a negative size, a total beyond 2^63.
absl::StatusOr<OffsetPlan> PackFirstFit(absl::Span<const Buffer> buffers,
                                        int64_t alignment_bytes = 1);

// Checks by brute sweep that no two buffers that live together overlap, that
// offsets are not negative, and that the arena holds all.
absl::Status ValidateOffsets(absl::Span<const Buffer> buffers,
                             const OffsetPlan& plan);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_OFFSETS_H_
