// The loss of a training step: the one that the options name, and the terms of
// a distillation.
#ifndef ONNX_MEMOPT_LIB_GRAD_STEP_LOSS_H_
#define ONNX_MEMOPT_LIB_GRAD_STEP_LOSS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "grad/losses.h"
#include "grad/teacher.h"
#include "onnx_memopt/grad/differentiate.h"
#include "onnx_memopt/grad/step_options.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {

struct LossOperands {
  ir::ValueId output;
  ir::ValueId target = ir::kNoValue;  // if HasTarget
  Comparisons compared;
};

struct StepLoss {
  ir::ValueId loss = ir::kNoValue;   // a scalar
  ir::ValueId count = ir::kNoValue;  // LossValue::count
  std::vector<Seed> seeds;
};

// The loss that the options name is a part of the whole: there is no teacher,
// or it leaves something to it.
bool HasHardLoss(const StepOptions& options);
// It, or an index to ignore, reads "target".
bool HasTarget(const StepOptions& options);
// Where in `operands` values are of which gradients come.
std::vector<ir::ValueId*> MutableOutputs(LossOperands* operands);
// Of these values the ones that the loss depends on.
std::vector<ir::ValueId> LossOutputs(const StepOptions& options,
                                     const LossOperands& operands);
// kOutOfRange for options that do not go together.
absl::Status CheckDistillation(const StepOptions& options);

absl::StatusOr<StepLoss> BuildLoss(const StepOptions& options,
                                   const LossOperands& operands,
                                   const LossWeight& weight,
                                   rewrite::Emitter& e);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_STEP_LOSS_H_
