// Gradients of normalisations. With n = (x - mean) / deviation over some axes
// and g the gradient of n,
//
//   dx = (g - mean(g) - n * mean(g * n)) / deviation
#include <string>

#include "grad/rule_list.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad::rules {
namespace {

struct Normalized {
  ValueId value;    // n
  ValueId inverse;  // 1 / deviation
};

Normalized Normalize(Emitter& e, ValueId x, const Emitter::Axes& axes,
                     float epsilon) {
  const ValueId centred = e.Sub(x, e.ReduceMean(x, axes));
  const ValueId variance = e.ReduceMean(e.Square(centred), axes);
  const ValueId inverse =
      e.Op("Reciprocal", {e.Sqrt(e.Add(variance, epsilon))});
  return {e.Mul(centred, inverse), inverse};
}

ValueId Backward(Emitter& e, const Normalized& n, ValueId g,
                 const Emitter::Axes& axes) {
  const ValueId mean = e.ReduceMean(g, axes);
  const ValueId along = e.ReduceMean(e.Mul(g, n.value), axes);
  const ValueId rest = e.Sub(e.Sub(g, mean), e.Mul(n.value, along));
  return e.Mul(rest, n.inverse);
}

Emitter::Axes Range(size_t begin, size_t end) {
  Emitter::Axes axes;
  for (size_t i = begin; i < end; ++i) axes.push_back(static_cast<int>(i));
  return axes;
}

// All axes but the channels.
Emitter::Axes OtherThanChannels(size_t rank) {
  Emitter::Axes axes = {0};
  for (size_t i = 2; i < rank; ++i) axes.push_back(static_cast<int>(i));
  return axes;
}

// One number a channel, [c], as [c, 1, ...]: it is broadcast over positions.
ValueId PerChannel(Emitter& e, ValueId value, size_t rank) {
  return rank <= 2 ? value : e.Unsqueeze(value, Range(1, rank - 1));
}

absl::Status GiveScaleAndBias(RuleContext& c, ValueId normalized,
                              const Emitter::Axes& axes) {
  Emitter& e = c.e();
  if (c.wants(1)) {
    RETURN_IF_ERROR(c.Give(1, e.ReduceSum(e.Mul(c.dy(), normalized), axes,
                                          /*keep_dims=*/false)));
  }
  if (!c.wants(2)) return absl::OkStatus();
  return c.Give(2, e.ReduceSum(c.dy(), axes, /*keep_dims=*/false));
}

// A gradient of the statistics themselves, as results.
absl::Status RefuseStatistics(RuleContext& c) {
  if (c.dy(0) != ir::kNoValue && c.dy(1) == ir::kNoValue &&
      c.dy(2) == ir::kNoValue) {
    return absl::OkStatus();
  }
  return c.Error("the gradient through its statistics is not known");
}

}  // namespace

absl::Status LayerNormalization(RuleContext& c) {
  Emitter& e = c.e();
  RETURN_IF_ERROR(RefuseStatistics(c));
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  ASSIGN_OR_RETURN(const int64_t first, c.Axis(c.Int("axis", -1), rank));
  const Emitter::Axes axes = Range(static_cast<size_t>(first), rank);
  const ir::ElementType element = c.x_type().element;
  Normalized n;
  if (element == ir::ElementType::kFloat) {
    ir::Type statistic = ir::Type::Tensor(element, std::nullopt);
    if (c.x_shape() != nullptr) {
      ir::Shape shape = *c.x_shape();
      for (int64_t axis : axes) shape[static_cast<size_t>(axis)] = ir::Dim(1);
      statistic.shape = shape;
    }
    const ValueId mean = c.AskFor(1, statistic);
    n.inverse = c.AskFor(2, statistic);
    n.value = e.Mul(e.Sub(c.x(), mean), n.inverse);
  } else {
    // The op's own statistics are float, whatever the operand is.
    n = Normalize(e, c.x(), axes, c.Float("epsilon", 1e-5F));
  }
  if (c.wants(1)) {
    RETURN_IF_ERROR(c.GiveBroadcast(1, e.Mul(c.dy(), n.value)));
  }
  if (c.wants(2)) RETURN_IF_ERROR(c.GiveBroadcast(2, c.dy()));
  if (!c.wants(0)) return absl::OkStatus();
  return c.Give(0, Backward(e, n, e.Mul(c.dy(), c.x(1)), axes));
}

absl::Status RmsNormalization(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  ASSIGN_OR_RETURN(const int64_t first, c.Axis(c.Int("axis", -1), rank));
  const Emitter::Axes axes = Range(static_cast<size_t>(first), rank);
  const ValueId mean = e.ReduceMean(e.Square(c.x()), axes);
  const ValueId inverse =
      e.Op("Reciprocal", {e.Sqrt(e.Add(mean, c.Float("epsilon", 1e-5F)))});
  const ValueId n = e.Mul(c.x(), inverse);
  if (c.wants(1)) RETURN_IF_ERROR(c.GiveBroadcast(1, e.Mul(c.dy(), n)));
  if (!c.wants(0)) return absl::OkStatus();
  const ValueId g = e.Mul(c.dy(), c.x(1));
  const ValueId along = e.ReduceMean(e.Mul(g, n), axes);
  return c.Give(0, e.Mul(e.Sub(g, e.Mul(n, along)), inverse));
}

absl::Status InstanceNormalization(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  const Emitter::Axes axes = Range(2, rank);
  const Normalized n = Normalize(e, c.x(), axes, c.Float("epsilon", 1e-5F));
  RETURN_IF_ERROR(GiveScaleAndBias(c, n.value, OtherThanChannels(rank)));
  if (!c.wants(0)) return absl::OkStatus();
  const ValueId g = e.Mul(c.dy(), PerChannel(e, c.x(1), rank));
  return c.Give(0, Backward(e, n, g, axes));
}

absl::Status GroupNormalization(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  const int64_t groups = c.Int("num_groups", 1);
  if (groups < 1) return c.Error("num_groups is not positive");
  // Statistics over [n, groups, all the rest].
  const ValueId grouped = e.Reshape(c.x(), Numbers{0, groups, -1});
  Normalized n = Normalize(e, grouped, {2}, c.Float("epsilon", 1e-5F));
  const ValueId dims = e.ShapeOf(c.x_id());
  const ValueId n_full = e.Reshape(n.value, dims);
  e.graph().mutable_value(n_full).type = c.x_type();
  // Before opset 21 there is one scale a group.
  const bool per_group = c.node().opset < 21;
  if (per_group) {
    const ValueId dy = e.Reshape(c.dy(), Numbers{0, groups, -1});
    if (c.wants(1)) {
      RETURN_IF_ERROR(c.Give(
          1, e.ReduceSum(e.Mul(dy, n.value), {0, 2}, /*keep_dims=*/false)));
    }
    if (c.wants(2)) {
      RETURN_IF_ERROR(c.Give(2, e.ReduceSum(dy, {0, 2}, /*keep_dims=*/false)));
    }
    if (!c.wants(0)) return absl::OkStatus();
    const ValueId g = e.Mul(dy, e.Unsqueeze(c.x(1), {1}));
    return c.Give(0, e.Reshape(Backward(e, n, g, {2}), dims));
  }
  RETURN_IF_ERROR(GiveScaleAndBias(c, n_full, OtherThanChannels(rank)));
  if (!c.wants(0)) return absl::OkStatus();
  const ValueId scaled = e.Mul(c.dy(), PerChannel(e, c.x(1), rank));
  const ValueId g = e.Reshape(scaled, Numbers{0, groups, -1});
  return c.Give(0, e.Reshape(Backward(e, n, g, {2}), dims));
}

absl::Status BatchNormalization(RuleContext& c) {
  Emitter& e = c.e();
  RETURN_IF_ERROR(RefuseStatistics(c));
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  const float epsilon = c.Float("epsilon", 1e-5F);
  const Emitter::Axes axes = OtherThanChannels(rank);
  if (c.Int("training_mode", 0) != 0) {
    const Normalized n = Normalize(e, c.x(), axes, epsilon);
    RETURN_IF_ERROR(GiveScaleAndBias(c, n.value, axes));
    if (!c.wants(0)) return absl::OkStatus();
    const ValueId g = e.Mul(c.dy(), PerChannel(e, c.x(1), rank));
    return c.Give(0, Backward(e, n, g, axes));
  }
  // The statistics are constants.
  const ValueId inverse = e.Op("Reciprocal", {e.Sqrt(e.Add(c.x(4), epsilon))});
  if (c.wants(1) || c.wants(2)) {
    const ValueId centred = e.Sub(c.x(), PerChannel(e, c.x(3), rank));
    const ValueId n = e.Mul(centred, PerChannel(e, inverse, rank));
    RETURN_IF_ERROR(GiveScaleAndBias(c, n, axes));
  }
  if (c.wants(3) || c.wants(4)) {
    return c.Error("its mean and variance have no gradient");
  }
  if (!c.wants(0)) return absl::OkStatus();
  return c.Give(0, e.Mul(c.dy(), PerChannel(e, e.Mul(c.x(1), inverse), rank)));
}

absl::Status MeanVarianceNormalization(RuleContext& c) {
  const Numbers* given = c.Ints("axes");
  const Emitter::Axes axes = given != nullptr ? *given : Emitter::Axes{0, 2, 3};
  // The op divides by (deviation + 1e-9): the same, as near as float is.
  const Normalized n = Normalize(c.e(), c.x(), axes, 0);
  return c.Give(0, Backward(c.e(), n, c.dy(), axes));
}

absl::Status LpNormalization(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", -1), rank));
  const bool l1 = c.Int("p", 2) == 1;
  const ValueId norm = l1 ? e.ReduceSum(e.Op("Abs", {c.x()}), {axis})
                          : e.Sqrt(e.ReduceSum(e.Square(c.x()), {axis}));
  // y = x / norm, so dx = (dy - norm's slope * sum(dy * y)) / norm.
  const ValueId along = e.ReduceSum(e.Mul(c.dy(), c.y()), {axis});
  const ValueId slope = l1 ? e.Op("Sign", {c.x()}) : c.y();
  return c.Give(0, e.Div(e.Sub(c.dy(), e.Mul(slope, along)), norm));
}

}  // namespace onnx_memopt::grad::rules
