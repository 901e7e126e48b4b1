// Gradients of reductions, softmax, cumulative sums and TopK.
#include <algorithm>
#include <optional>
#include <string>

#include "grad/rule_list.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad::rules {
namespace {

// The reduced axes, ascending; empty: nothing is reduced.
absl::StatusOr<Numbers> ReducedAxes(RuleContext& c) {
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  ASSIGN_OR_RETURN(std::optional<Numbers> axes, c.List("axes", 1));
  Numbers result;
  if (!axes || axes->empty()) {
    if (c.Int("noop_with_empty_axes", 0) != 0) return result;
    for (size_t i = 0; i < rank; ++i) result.push_back(static_cast<int>(i));
    return result;
  }
  for (int64_t axis : *axes) {
    ASSIGN_OR_RETURN(const int64_t positive, c.Axis(axis, rank));
    result.push_back(positive);
  }
  std::sort(result.begin(), result.end());
  return result;
}

// A result, or its gradient, with the reduced axes as axes of extent 1.
ValueId WithAxes(RuleContext& c, ValueId value, const Numbers& axes) {
  return c.Int("keepdims", 1) != 0 ? value : c.e().Unsqueeze(value, axes);
}

// dx = dy, repeated along the axes, times `slope` if there is one.
absl::Status Spread(RuleContext& c, ValueId dy, ValueId slope) {
  return c.Give(0, c.e().Mul(dy, slope));
}

// 1 / (elements that one element of the result is made of), as a scalar.
absl::StatusOr<ValueId> OneOverCount(RuleContext& c, const Numbers& axes) {
  Emitter& e = c.e();
  const ir::Shape shape = *c.x_shape();
  const ir::ElementType element = c.x_type().element;
  std::optional<ValueId> symbolic;
  double count = 1;
  for (int64_t axis : axes) {
    const std::optional<ir::Dim>& dim = shape[static_cast<size_t>(axis)];
    if (dim && dim->is_constant()) {
      count *= static_cast<double>(dim->constant());
      continue;
    }
    std::optional<ValueId> extent =
        dim ? e.DimValue(*dim) : std::optional<ValueId>();
    if (!extent) {
      extent = e.Slice(e.Op("Shape", {c.x_id()}), {0}, {axis}, {axis + 1});
    }
    symbolic = symbolic ? e.Mul(*symbolic, *extent) : *extent;
  }
  if (!symbolic) return e.Real(1 / count, element);
  const ValueId all = e.Mul(e.Cast(e.Squeeze(*symbolic, {0}), element), count);
  return e.Div(e.Real(1, element), all);
}

}  // namespace

absl::Status ReduceSum(RuleContext& c) {
  ASSIGN_OR_RETURN(const Numbers axes, ReducedAxes(c));
  if (axes.empty()) return c.Give(0, c.dy());
  return c.Give(
      0, c.e().Expand(WithAxes(c, c.dy(), axes), c.e().ShapeOf(c.x_id())));
}

absl::Status ReduceMean(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const Numbers axes, ReducedAxes(c));
  if (axes.empty()) return c.Give(0, c.dy());
  ASSIGN_OR_RETURN(const ValueId share, OneOverCount(c, axes));
  const ValueId part = e.Mul(WithAxes(c, c.dy(), axes), share);
  return c.Give(0, e.Expand(part, e.ShapeOf(c.x_id())));
}

// ReduceMax, ReduceMin: elements that are equal share the gradient.
absl::Status ReduceExtremum(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const Numbers axes, ReducedAxes(c));
  const ValueId y = WithAxes(c, c.y(), axes);
  const ValueId hits = e.Cast(e.Op("Equal", {c.x(), y}), c.x_type().element);
  const ValueId share =
      e.Div(WithAxes(c, c.dy(), axes), e.ReduceSum(hits, axes));
  return Spread(c, share, hits);
}

absl::Status ReduceProd(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const Numbers axes, ReducedAxes(c));
  if (axes.empty()) return c.Give(0, c.dy());
  // The product of the others is y / x where no factor is zero; with one zero
  // only that one's is not zero, and it is the product of the rest.
  const ValueId y = WithAxes(c, c.y(), axes);
  const ValueId zero = e.Op("Equal", {c.x(), e.RealLike(0, c.x())});
  const ValueId one = e.RealLike(1, c.x());
  const ValueId safe = e.Where(zero, one, c.x());
  const ValueId zeros = e.ReduceSum(e.Cast(zero, c.x_type().element), axes);
  Emitter::Attributes keep = {Attr("keepdims", int64_t{1})};
  ValueId rest;
  if (c.node().opset >= 18) {
    rest = e.Op("ReduceProd", {safe, e.Ints(axes)}, keep);
  } else {
    keep.push_back(Attr("axes", axes));
    rest = e.Op("ReduceProd", {safe}, keep);
  }
  const ValueId single = e.Op("Equal", {zeros, one});
  const ValueId at_zero =
      e.Where(e.Op("And", {zero, single}), rest, e.RealLike(0, c.x()));
  const ValueId slope = e.Where(zero, at_zero, e.Div(y, safe));
  return Spread(c, WithAxes(c, c.dy(), axes), slope);
}

absl::Status ReduceL1(RuleContext& c) {
  ASSIGN_OR_RETURN(const Numbers axes, ReducedAxes(c));
  return Spread(c, WithAxes(c, c.dy(), axes), c.e().Op("Sign", {c.x()}));
}

absl::Status ReduceL2(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const Numbers axes, ReducedAxes(c));
  const ValueId y = WithAxes(c, c.y(), axes);
  const ValueId share = e.Div(WithAxes(c, c.dy(), axes), y);
  // A norm of zero has no slope; zero is one of its subgradients.
  return Spread(c, e.Keep(e.Greater(y, 0), share), c.x());
}

absl::Status ReduceLogSum(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const Numbers axes, ReducedAxes(c));
  const ValueId share = e.Mul(c.dy(), e.Exp(e.Neg(c.y())));
  return c.Give(0, e.Expand(WithAxes(c, share, axes), e.ShapeOf(c.x_id())));
}

absl::Status ReduceLogSumExp(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const Numbers axes, ReducedAxes(c));
  const ValueId share = e.Exp(e.Sub(c.x(), WithAxes(c, c.y(), axes)));
  return Spread(c, WithAxes(c, c.dy(), axes), share);
}

absl::Status ReduceSumSquare(RuleContext& c) {
  ASSIGN_OR_RETURN(const Numbers axes, ReducedAxes(c));
  const ValueId dy = c.e().Mul(WithAxes(c, c.dy(), axes), 2);
  return Spread(c, dy, c.x());
}

absl::Status Softmax(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", -1), rank));
  const ValueId product = e.Mul(c.dy(), c.y());
  const ValueId sum = e.ReduceSum(product, {axis});
  return c.Give(0, e.Sub(product, e.Mul(c.y(), sum)));
}

absl::Status LogSoftmax(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", -1), rank));
  const ValueId sum = e.ReduceSum(c.dy(), {axis});
  return c.Give(0, e.Sub(c.dy(), e.Mul(e.Exp(c.y()), sum)));
}

absl::Status CumSum(RuleContext& c) {
  const int64_t reverse = c.Int("reverse", 0);
  return c.Give(0, c.e().Op("CumSum", {c.dy(), c.x(1)},
                            {Attr("exclusive", c.Int("exclusive", 0)),
                             Attr("reverse", int64_t{reverse == 0})}));
}

absl::Status TopK(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  ASSIGN_OR_RETURN(const int64_t axis, c.Axis(c.Int("axis", -1), rank));
  ir::Type positions = ir::Type::Tensor(ir::ElementType::kInt64, std::nullopt);
  positions.shape = e.type(c.y_id()).shape;
  const ValueId indices = c.AskFor(1, positions);
  const ValueId zeros = e.Zeros(c.x_type().element, e.ShapeOf(c.x_id()));
  return c.Give(0, e.Op("ScatterElements", {zeros, indices, c.dy()},
                        {Attr("axis", axis)}));
}

}  // namespace onnx_memopt::grad::rules
