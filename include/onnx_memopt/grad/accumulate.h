// Gradient accumulation: one step over several micro-batches, one after the
// other, so that only the activations of one are held at a time.
//
//   x [k*b, ...] -> Reshape [k, b, ...] -> Loop of k iterations -> updates
//                                           micro = x[i]
//                                           forward and backward pass
//                                           sum' = sum * (i > 0) + gradient
//
//   options.accumulate = 4;
//   ASSIGN_OR_RETURN(StepInfo step, BuildTrainingStep(options, &graph));
//   ... checkpoints, in the step of one micro-batch ...
//   ASSIGN_OR_RETURN(AccumulatedStep a, AccumulateGradients(4, step, &graph));
//
// Sums begin with the parameters themselves, times zero: tensors of zeros would
// be held the whole loop. A Loop and not a Scan, since what a Scan carries is
// held in three copies in ONNX Runtime, and what a Loop carries in two.
#ifndef ONNX_MEMOPT_GRAD_ACCUMULATE_H_
#define ONNX_MEMOPT_GRAD_ACCUMULATE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "onnx_memopt/grad/training_step.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::grad {

struct AccumulatedStep {
  ir::BlockId body = ir::kNoBlock;
  ir::ValueId body_loss = ir::kNoValue;  // the sum so far
};

// `graph` as BuildTrainingStep left it for one micro-batch with the same
// `count`, or with checkpoints in it. Ids in `step` stay good.
absl::StatusOr<AccumulatedStep> AccumulateGradients(int64_t count,
                                                    const StepInfo& step,
                                                    ir::Graph* graph);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_ACCUMULATE_H_
