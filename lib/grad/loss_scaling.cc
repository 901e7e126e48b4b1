#include "grad/loss_scaling.h"

#include <limits>

namespace onnx_memopt::grad {

using ir::ElementType;
using ir::ValueId;
using rewrite::Emitter;

ValueId LossScaling::Unscale(Emitter& e, ValueId gradient) {
  if (!is_on()) return gradient;
  if (inverse_ == ir::kNoValue) inverse_ = e.Op("Reciprocal", {scale_});
  return e.Mul(gradient, e.Cast(inverse_, e.element(gradient)));
}

void LossScaling::Check(Emitter& e, ValueId square) {
  if (!is_on()) return;
  // Not so for NaN either.
  finite_ = e.Less(square, std::numeric_limits<double>::infinity());
}

ValueId LossScaling::IfFinite(Emitter& e, ValueId next, ValueId before) const {
  return is_on() ? e.Where(finite_, next, before) : next;
}

LossScaling::Next LossScaling::Update(Emitter& e,
                                      const StepOptions& options) const {
  const ValueId steps = e.Op("Add", {good_steps_, e.Int(1)});
  const ValueId grows =
      e.Op("GreaterOrEqual", {steps, e.Int(options.loss_scale_steps)});
  const ValueId larger = e.Where(grows, e.Mul(scale_, 2), scale_);
  // A model whose numbers are not finite at any scale must not end at zero.
  const ValueId smaller =
      e.Op("Max", {e.Mul(scale_, 0.5), e.Real(1, ElementType::kFloat)});
  return {.scale = e.Where(finite_, larger, smaller),
          .good_steps =
              e.Where(finite_, e.Where(grows, e.Int(0), steps), e.Int(0))};
}

}  // namespace onnx_memopt::grad
