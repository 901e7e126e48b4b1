// What the packers share; the validator uses none of it.
#ifndef ONNX_MEMOPT_PLAN_OFFSETS_INTERNAL_H_
#define ONNX_MEMOPT_PLAN_OFFSETS_INTERNAL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"

namespace onnx_memopt::plan {

// Fails unless every lifetime has a step and no size is negative.
absl::Status CheckBuffers(absl::Span<const Buffer> buffers);

// Offsets for buffers whose sizes are above 0 and add up to less than 2^63.
// Walks through time with a list of free blocks: a buffer takes the smallest
// block that holds it, and the arena grows when none does.
// O(n log n) whatever the lifetimes.
std::vector<int64_t> PackOnline(absl::Span<const Buffer> buffers);

// Who lives together with whom: two arrays instead of a list per buffer.
struct Neighbours {
  std::vector<int64_t> first;  // of buffer i: list[first[i] .. first[i + 1])
  std::vector<int32_t> list;
};

// nullopt: more than max_pairs pairs. Takes 8 bytes a pair.
std::optional<Neighbours> FindNeighbours(absl::Span<const Buffer> buffers,
                                         int64_t max_pairs);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_OFFSETS_INTERNAL_H_
