// A training graph as a chain of blocks: what runs up to the step with most
// memory is forward, what follows is backward and runs once; forward is cut
// where a single value leads on.
//
//   forward    [ a  b ]x1 -> [ c  d  e ]x2 -> [ f ]x3
//                 |              |             |
//   backward   [ .... ]   <-  [ ...... ]  <- [ ... ]   of block 3 first
//
// The backward part of a block reads only the block's values, the value that
// leads into the block, and what other backward nodes made; where it reads
// more, blocks are joined until this holds.
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_BLOCKS_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_BLOCKS_H_

#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "plan/recompute_model.h"

namespace onnx_memopt::plan {

// Peaks leave out the value that leads into the block, which whoever runs the
// block holds, unless they say otherwise; and what backward nodes hold, unless
// they are of the backward part.
struct RecomputeBlock {
  std::vector<int32_t> forward;   // in order; the last one leads on
  std::vector<int32_t> tail;      // the part of it that the backward part needs
  std::vector<int32_t> backward;  // in order
  int64_t cost = 0;               // of `forward`
  int64_t tail_cost = 0;
  int64_t out_memory = 0;    // of the value that leads on
  int64_t saved_memory = 0;  // of the others that the backward part reads
  int64_t sweep_peak = 0;    // of running `forward` for the value that leads on
  int64_t sweep_in_peak = 0;  // the same, with the value that leads in
  int64_t save_peak = 0;      // of running `forward` and keeping what is read
  int64_t tail_peak = 0;      // of running `tail` and keeping what is read
  int64_t backward_peak = 0;  // of `backward`, with all that is held by it
  int64_t gradients = 0;      // what backward nodes hold when `backward` begins

  // Blocks of which these are equal cost the same to plan.
  auto Key() const {
    return std::tie(cost, tail_cost, out_memory, saved_memory, sweep_peak,
                    sweep_in_peak, save_peak, tail_peak, backward_peak,
                    gradients);
  }
};

// The blocks of `order`, a valid one; at most `max_blocks`, from the first to
// run to the last. One block: there is no chain.
std::vector<RecomputeBlock> FindBlocks(const RecomputeModel& model,
                                       absl::Span<const int32_t> order,
                                       int32_t max_blocks);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_BLOCKS_H_
