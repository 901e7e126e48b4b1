// What allocators take from the device for a step's allocations: more than is
// live, since sizes are rounded up, blocks are cut from segments, and free
// pieces between blocks that are in use cannot be given back.
//
//   AllocatorResult r = SimulateCaching(trace, /*steps=*/2);
//   r.peak_reserved_bytes - r.peak_allocated_bytes;   // fragmentation
//
// SimulateCaching is PyTorch's caching allocator with its default settings:
// sizes in multiples of 512 B; up to 1 MiB from a pool of 2 MiB segments;
// larger ones from segments of 20 MiB, or, from 10 MiB on, of their own size
// rounded up to 2 MiB; best fit; neighbours merge; what is left of a block is
// split off if it is at least 512 B (small pool) or more than 1 MiB (large).
// SimulateExpandable is the same with expandable_segments:True: a pool is one
// segment that grows by pages of 2 or 20 MiB.
// SimulateBfc is best fit with coalescing as in TensorFlow and ONNX Runtime
// (BestFitArena): sizes in multiples of 256 B, regions that double.
#ifndef ONNX_MEMOPT_ESTIMATE_ALLOCATOR_H_
#define ONNX_MEMOPT_ESTIMATE_ALLOCATOR_H_

#include <cstdint>

#include "onnx_memopt/estimate/step_trace.h"
#include "onnx_memopt/support/best_fit_arena.h"

namespace onnx_memopt::estimate {

struct AllocatorResult {
  int64_t peak_requested_bytes = 0;  // as the program asked for
  int64_t peak_allocated_bytes = 0;  // rounded
  int64_t peak_reserved_bytes = 0;   // taken from the device
  int64_t segments = 0;
  // Of segments with nothing in them when the last step has ended: what
  // torch.cuda.empty_cache() gives back then.
  int64_t idle_bytes = 0;
};

// The trace is run `steps` times; persistent blocks are allocated once.
AllocatorResult SimulateCaching(const StepTrace& trace, int steps);
AllocatorResult SimulateExpandable(const StepTrace& trace, int steps);
// TensorFlow's with memory growth: the first region has 2 MiB.
inline constexpr BestFitRules kTensorFlowArena = {
    .alignment = 256, .first_region = int64_t{2} << 20};
AllocatorResult SimulateBfc(const StepTrace& trace, int steps,
                            const BestFitRules& rules = kTensorFlowArena);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_ESTIMATE_ALLOCATOR_H_
