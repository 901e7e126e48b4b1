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
  ir::ValueId gradient;  // of the loss by the output
};

// What "target" has to be.
absl::StatusOr<ir::Type> ClassTargets(const ir::Type& output);

absl::StatusOr<LossValue> CrossEntropy(rewrite::Emitter& e, ir::ValueId output,
                                       ir::ValueId target,
                                       std::optional<int64_t> ignore_index);
absl::StatusOr<LossValue> MeanSquaredError(rewrite::Emitter& e,
                                           ir::ValueId output,
                                           ir::ValueId target);
// The output itself, which must have one element.
absl::StatusOr<LossValue> OutputAsLoss(rewrite::Emitter& e, ir::ValueId output);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_LOSSES_H_
