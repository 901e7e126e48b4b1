// The loss of an output, and its gradient by that output, in one go: what both
// share is computed once.
#ifndef ONNX_MEMOPT_LIB_GRAD_LOSSES_H_
#define ONNX_MEMOPT_LIB_GRAD_LOSSES_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {

struct LossValue {
  ir::ValueId loss;      // a scalar
  ir::ValueId gradient;  // of the loss by the output, weighted
  // Of a sum: how many it has to be divided by, a scalar.
  ir::ValueId count = ir::kNoValue;
};

// What the gradient is multiplied by, in the numbers that it is made of: as a
// rule there are far fewer of them than the output has elements.
struct LossWeight {
  double factor = 1;
  ir::ValueId scale = ir::kNoValue;  // a float scalar, or none
  // A mean over what an index leaves is over that of all micro-batches
  // together: loss and gradient are sums, to be divided by the sum of counts.
  bool sum = false;
};

// What "target" has to be.
absl::StatusOr<ir::Type> ClassTargets(const ir::Type& output);

absl::StatusOr<LossValue> CrossEntropy(rewrite::Emitter& e, ir::ValueId output,
                                       ir::ValueId target,
                                       std::optional<int64_t> ignore_index,
                                       const LossWeight& weight);
// T^2 times the Kullback-Leibler divergence from the teacher's distribution to
// the student's, both at temperature T, over the rows that count; `target` is
// read for an index to ignore alone. `teacher` has the shape of `output`, which
// ClassTargets takes.
absl::StatusOr<LossValue> SoftCrossEntropy(
    rewrite::Emitter& e, ir::ValueId output, ir::ValueId teacher,
    ir::ValueId target, std::optional<int64_t> ignore_index, double temperature,
    const LossWeight& weight);
absl::StatusOr<LossValue> MeanSquaredError(rewrite::Emitter& e,
                                           ir::ValueId output,
                                           ir::ValueId target,
                                           const LossWeight& weight);
// The output itself, which must have one element.
absl::StatusOr<LossValue> OutputAsLoss(rewrite::Emitter& e, ir::ValueId output,
                                       const LossWeight& weight);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_LOSSES_H_
