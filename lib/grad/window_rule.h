// The windows of a convolution or a pool as numbers, as gradients need them.
//
//   ASSIGN_OR_RETURN(WindowRule w, WindowRule::Of(c, kernel, x, y));
#ifndef ONNX_MEMOPT_LIB_GRAD_WINDOW_RULE_H_
#define ONNX_MEMOPT_LIB_GRAD_WINDOW_RULE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "grad/rule_context.h"

namespace onnx_memopt::grad {

struct WindowRule {
  Numbers kernel;
  Numbers strides;
  Numbers dilations;
  Numbers pads_begin;
  Numbers pads_end;
  // Spatial extents of the side with windows (a convolution's operand) and of
  // the side with one element a window (its result); nullopt: symbolic.
  std::optional<Numbers> wide;
  std::optional<Numbers> narrow;

  size_t axes() const { return kernel.size(); }

  // `wide` and `narrow` are the shapes of the two sides.
  static absl::StatusOr<WindowRule> Of(const RuleContext& c, Numbers kernel,
                                       const ir::Shape* wide,
                                       const ir::Shape* narrow);
};

// Adds up what windows saw: from [n, m, narrow...] with weights [m, c/group,
// kernel...] to [n, c, wide...]. The transposed convolution.
absl::StatusOr<ValueId> FromWindows(RuleContext& c, const WindowRule& w,
                                    ValueId narrow, ValueId weight,
                                    int64_t group);
// The gradient of the weight [m, c/group, kernel...] of the convolution that
// takes `wide` [n, c, wide...] to [n, m, narrow...], whose gradient is given.
absl::StatusOr<ValueId> WeightGradient(RuleContext& c, const WindowRule& w,
                                       ValueId wide, ValueId narrow,
                                       ValueId weight_like, int64_t group);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_WINDOW_RULE_H_
