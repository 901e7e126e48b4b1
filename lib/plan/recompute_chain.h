// Dynamic programming over a chain of blocks, as rotor does for chains of
// layers (Beaumont et al., "Optimal checkpointing for heterogeneous chains";
// with equal layers it is the binomial schedule of Griewank and Walther's
// revolve).
//
// Let the value that leads into block i + 1 be held, and blocks i + 1 to j be
// run forward and backward in m units of memory. Then either all that the
// backward part of block i + 1 reads is kept while the others are done; or the
// blocks up to k are run for the value that leads on, which is held while those
// after k are done, and then those up to k remain:
//
//   cost(i, j, m) = min( F(i+1)             + cost(i+1, j, m - saved(i+1)),
//                        F(i+1) + .. + F(k) + cost(k, j, m - out(k))
//                                           + cost(i, k, m)  for some k )
//
// Stretches of equal blocks are solved once, so that equal layers take
// milliseconds.
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_CHAIN_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_CHAIN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "plan/recompute_blocks.h"

namespace onnx_memopt::plan {

// Sequences for the budget: one, within it. Where memory is too fine for the
// tables it is counted in coarser units, rounded up; then there may be more,
// the most careful first, that assume that the rounding did no harm, and they
// may be over the budget. Empty: the budget is too small for this method, or it
// is not worth the work, or `stop`, which may be empty, said so.
std::vector<std::vector<int32_t>> PlanChain(
    absl::Span<const RecomputeBlock> blocks, int64_t budget, int64_t max_work,
    const std::function<bool()>& stop);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_CHAIN_H_
