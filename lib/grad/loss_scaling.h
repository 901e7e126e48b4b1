// The loss scale of a step in float16: gradients too small for it are computed
// as multiples, and a step whose gradients overflow changes nothing but the
// scale.
//
//   scaled loss -> gradients -> 1 / scale -> all finite? -> updates, or nothing
//                                               |
//                       scale / 2 if not, scale * 2 after many good steps
#ifndef ONNX_MEMOPT_LIB_GRAD_LOSS_SCALING_H_
#define ONNX_MEMOPT_LIB_GRAD_LOSS_SCALING_H_

#include "onnx_memopt/grad/step_options.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {

class LossScaling {
 public:
  LossScaling() = default;  // off: all values go through unchanged
  // The inputs of these names.
  LossScaling(ir::ValueId loss_scale, ir::ValueId good_steps)
      : scale_(loss_scale), good_steps_(good_steps) {}

  bool is_on() const { return scale_ != ir::kNoValue; }
  ir::ValueId scale() const { return scale_; }

  ir::ValueId Unscale(rewrite::Emitter& e, ir::ValueId gradient);
  // `square`: the sum of the squares of all gradients, which is not finite if
  // one of them is not.
  void Check(rewrite::Emitter& e, ir::ValueId square);
  // After Check.
  ir::ValueId IfFinite(rewrite::Emitter& e, ir::ValueId next,
                       ir::ValueId before) const;

  struct Next {
    ir::ValueId scale;
    ir::ValueId good_steps;
  };
  Next Update(rewrite::Emitter& e, const StepOptions& options) const;

 private:
  ir::ValueId scale_ = ir::kNoValue;
  ir::ValueId good_steps_ = ir::kNoValue;
  ir::ValueId inverse_ = ir::kNoValue;
  ir::ValueId finite_ = ir::kNoValue;
};

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_LOSS_SCALING_H_
