// Gradients of elementwise arithmetic, activations and changes of type.
#include <cmath>
#include <numbers>
#include <vector>

#include "grad/rule_list.h"
#include "onnx_memopt/ir/op_info.h"

namespace onnx_memopt::grad::rules {
namespace {

// dx = dy * slope
absl::Status Chain(RuleContext& c, ValueId slope) {
  return c.Give(0, c.e().Mul(c.dy(), slope));
}

// dx = dy where the condition holds, else zero.
absl::Status Gate(RuleContext& c, ValueId condition) {
  return c.Give(0, c.e().Keep(condition, c.dy()));
}

}  // namespace

absl::Status Neg(RuleContext& c) { return c.Give(0, c.e().Neg(c.dy())); }

absl::Status Abs(RuleContext& c) { return Chain(c, c.e().Op("Sign", {c.x()})); }

absl::Status Sqrt(RuleContext& c) {
  return c.Give(0, c.e().Div(c.e().Mul(c.dy(), 0.5), c.y()));
}

absl::Status Reciprocal(RuleContext& c) {
  return Chain(c, c.e().Neg(c.e().Square(c.y())));
}

absl::Status Exp(RuleContext& c) { return Chain(c, c.y()); }

absl::Status Log(RuleContext& c) { return c.Give(0, c.e().Div(c.dy(), c.x())); }

absl::Status Sin(RuleContext& c) { return Chain(c, c.e().Op("Cos", {c.x()})); }

absl::Status Cos(RuleContext& c) {
  return Chain(c, c.e().Neg(c.e().Op("Sin", {c.x()})));
}

absl::Status Tan(RuleContext& c) {
  return Chain(c, c.e().Add(c.e().Square(c.y()), 1));
}

absl::Status Sinh(RuleContext& c) {
  return Chain(c, c.e().Op("Cosh", {c.x()}));
}

absl::Status Cosh(RuleContext& c) {
  return Chain(c, c.e().Op("Sinh", {c.x()}));
}

absl::Status Asin(RuleContext& c) {
  Emitter& e = c.e();
  return c.Give(0, e.Div(c.dy(), e.Sqrt(e.RSub(1, e.Square(c.x())))));
}

absl::Status Acos(RuleContext& c) {
  Emitter& e = c.e();
  return c.Give(0, e.Neg(e.Div(c.dy(), e.Sqrt(e.RSub(1, e.Square(c.x()))))));
}

absl::Status Atan(RuleContext& c) {
  return c.Give(0, c.e().Div(c.dy(), c.e().Add(c.e().Square(c.x()), 1)));
}

absl::Status Asinh(RuleContext& c) {
  Emitter& e = c.e();
  return c.Give(0, e.Div(c.dy(), e.Sqrt(e.Add(e.Square(c.x()), 1))));
}

absl::Status Acosh(RuleContext& c) {
  Emitter& e = c.e();
  return c.Give(0, e.Div(c.dy(), e.Sqrt(e.Add(e.Square(c.x()), -1))));
}

absl::Status Atanh(RuleContext& c) {
  return c.Give(0, c.e().Div(c.dy(), c.e().RSub(1, c.e().Square(c.x()))));
}

absl::Status Erf(RuleContext& c) {
  Emitter& e = c.e();
  const ValueId bell = e.Exp(e.Neg(e.Square(c.x())));
  return Chain(c, e.Mul(bell, 2 * std::numbers::inv_sqrtpi));
}

absl::Status Tanh(RuleContext& c) {
  return Chain(c, c.e().RSub(1, c.e().Square(c.y())));
}

absl::Status Sigmoid(RuleContext& c) {
  return Chain(c, c.e().Mul(c.y(), c.e().RSub(1, c.y())));
}

absl::Status Relu(RuleContext& c) { return Gate(c, c.e().Greater(c.y(), 0)); }

absl::Status LeakyRelu(RuleContext& c) {
  const ValueId steep = c.e().Greater(c.x(), 0);
  return c.Give(0, c.e().Where(steep, c.dy(),
                               c.e().Mul(c.dy(), c.Float("alpha", 0.01F))));
}

absl::Status Elu(RuleContext& c) {
  Emitter& e = c.e();
  const ValueId slope = e.Mul(e.Exp(c.x()), c.Float("alpha", 1));
  return c.Give(0, e.Where(e.Greater(c.x(), 0), c.dy(), e.Mul(c.dy(), slope)));
}

absl::Status Celu(RuleContext& c) {
  Emitter& e = c.e();
  const ValueId slope = e.Exp(e.Mul(c.x(), 1 / double{c.Float("alpha", 1)}));
  return c.Give(0, e.Where(e.Greater(c.x(), 0), c.dy(), e.Mul(c.dy(), slope)));
}

absl::Status Selu(RuleContext& c) {
  Emitter& e = c.e();
  const double alpha = c.Float("alpha", 1.67326319217681884765625F);
  const double gamma = c.Float("gamma", 1.05070102214813232421875F);
  const ValueId slope = e.Where(e.Greater(c.x(), 0), e.RealLike(1, c.x()),
                                e.Mul(e.Exp(c.x()), alpha));
  return Chain(c, e.Mul(slope, gamma));
}

absl::Status HardSigmoid(RuleContext& c) {
  Emitter& e = c.e();
  const ValueId inside = e.Op("And", {e.Greater(c.y(), 0), e.Less(c.y(), 1)});
  return c.Give(0, e.Keep(inside, e.Mul(c.dy(), c.Float("alpha", 0.2F))));
}

absl::Status HardSwish(RuleContext& c) {
  Emitter& e = c.e();
  const ValueId ramp = e.Add(e.Mul(c.x(), 1.0 / 3), 0.5);
  const ValueId slope = e.Where(e.Greater(c.x(), 3), e.RealLike(1, c.x()),
                                e.Keep(e.Greater(c.x(), -3), ramp));
  return Chain(c, slope);
}

absl::Status Softplus(RuleContext& c) {
  return Chain(c, c.e().Op("Sigmoid", {c.x()}));
}

absl::Status Softsign(RuleContext& c) {
  Emitter& e = c.e();
  return c.Give(0, e.Div(c.dy(), e.Square(e.Add(e.Op("Abs", {c.x()}), 1))));
}

absl::Status ThresholdedRelu(RuleContext& c) {
  return Gate(c, c.e().Greater(c.x(), c.Float("alpha", 1)));
}

absl::Status Shrink(RuleContext& c) {
  return Gate(c,
              c.e().Greater(c.e().Op("Abs", {c.x()}), c.Float("lambd", 0.5F)));
}

absl::Status Gelu(RuleContext& c) {
  Emitter& e = c.e();
  if (c.String("approximate", "none") == "tanh") {
    // y = x/2 (1 + t), t = tanh(k (x + a x^3))
    const double k = std::sqrt(2 * std::numbers::inv_pi);
    constexpr double kCubic = 0.044715;
    const ValueId square = e.Square(c.x());
    const ValueId inner =
        e.Mul(e.Mul(c.x(), e.Add(e.Mul(square, kCubic), 1)), k);
    const ValueId t = e.Op("Tanh", {inner});
    const ValueId half = e.Add(e.Mul(t, 0.5), 0.5);
    const ValueId inner_slope = e.Mul(e.Add(e.Mul(square, 3 * kCubic), 1), k);
    const ValueId t_slope = e.Mul(e.RSub(1, e.Square(t)), inner_slope);
    return Chain(c, e.Add(half, e.Mul(e.Mul(c.x(), t_slope), 0.5)));
  }
  // The normal distribution, plus x times its density.
  const ValueId erf = e.Op("Erf", {e.Mul(c.x(), 1 / std::numbers::sqrt2)});
  const ValueId area = e.Add(e.Mul(erf, 0.5), 0.5);
  const ValueId bell = e.Exp(e.Mul(e.Square(c.x()), -0.5));
  const ValueId density =
      e.Mul(bell, std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return Chain(c, e.Add(area, e.Mul(c.x(), density)));
}

absl::Status Swish(RuleContext& c) {
  Emitter& e = c.e();
  const double alpha = c.Float("alpha", 1);
  const ValueId inner = alpha == 1 ? c.x() : e.Mul(c.x(), alpha);
  const ValueId s = e.Op("Sigmoid", {inner});
  // s + inner * s * (1 - s)
  return Chain(c, e.Add(s, e.Mul(inner, e.Mul(s, e.RSub(1, s)))));
}

absl::Status Mish(RuleContext& c) {
  Emitter& e = c.e();
  const ValueId t = e.Op("Tanh", {e.Op("Softplus", {c.x()})});
  const ValueId s = e.Op("Sigmoid", {c.x()});
  return Chain(c, e.Add(t, e.Mul(e.Mul(c.x(), s), e.RSub(1, e.Square(t)))));
}

absl::Status Clip(RuleContext& c) {
  Emitter& e = c.e();
  const Numbers empty;
  ValueId inside = ir::kNoValue;
  const auto both = [&](ValueId condition) {
    inside =
        inside == ir::kNoValue ? condition : e.Op("And", {inside, condition});
  };
  for (size_t bound : {size_t{1}, size_t{2}}) {
    if (!c.has(bound)) continue;
    const absl::string_view in = bound == 1 ? "Less" : "Greater";
    const ValueId outside = e.Op(in, {c.x(), c.x(bound)});
    both(e.Op("Not", {outside}));
    if (c.wants(bound)) {
      const ValueId there = e.Keep(outside, c.dy());
      absl::Status status = c.GiveBroadcast(bound, there);
      if (!status.ok()) return status;
    }
  }
  return c.Give(0, inside == ir::kNoValue ? c.dy() : e.Keep(inside, c.dy()));
}

absl::Status Identity(RuleContext& c) { return c.Give(0, c.dy()); }

absl::Status Cast(RuleContext& c) {
  return c.Give(0, c.e().Cast(c.dy(), c.x_type().element));
}

absl::Status Dropout(RuleContext& c) {
  Emitter& e = c.e();
  const auto& training = c.has(2) ? e.graph().value(c.x_id(2)).contents
                                  : std::shared_ptr<const ir::Contents>();
  const bool inert =
      !c.has(2) || (training != nullptr && training->elements.size() == 1 &&
                    training->elements[0].integer &&
                    *training->elements[0].integer == ir::Dim(0));
  if (inert) return c.Give(0, c.dy());
  ir::Type mask_type = ir::Type::Tensor(ir::ElementType::kBool, std::nullopt);
  mask_type.shape = c.x_type().shape;
  const ValueId mask = c.AskFor(1, mask_type);
  const ValueId kept = e.Keep(mask, c.dy());
  if (!c.has(1)) return c.Give(0, e.Mul(kept, 2));  // a ratio of one half
  const ValueId ratio = e.Cast(c.x(1), c.x_type().element);
  const ValueId scaled = e.Div(kept, e.RSub(1, ratio));
  const auto& known = e.graph().value(c.x_id(2)).contents;
  if (known != nullptr) return c.Give(0, scaled);
  // Whether this is a training run is known only then.
  return c.Give(0, e.Where(c.x(2), scaled, c.dy()));
}

absl::Status Add(RuleContext& c) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    if (!c.wants(i)) continue;
    const absl::Status status = c.GiveBroadcast(i, c.dy());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Sub(RuleContext& c) {
  if (c.wants(0)) {
    const absl::Status status = c.GiveBroadcast(0, c.dy());
    if (!status.ok()) return status;
  }
  if (!c.wants(1)) return absl::OkStatus();
  // The sum first: it is the smaller tensor.
  return c.Give(1, c.e().Neg(SumToShapeOf(c.e(), c.dy(), c.x_id(1))));
}

absl::Status Mul(RuleContext& c) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    if (!c.wants(i)) continue;
    const absl::Status status =
        c.GiveBroadcast(i, c.e().Mul(c.dy(), c.x(1 - i)));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Div(RuleContext& c) {
  Emitter& e = c.e();
  const ValueId quotient = e.Div(c.dy(), c.x(1));
  if (c.wants(0)) {
    const absl::Status status = c.GiveBroadcast(0, quotient);
    if (!status.ok()) return status;
  }
  if (!c.wants(1)) return absl::OkStatus();
  const ValueId slope = e.Div(e.Mul(quotient, c.x(0)), c.x(1));
  return c.Give(1, e.Neg(SumToShapeOf(e, slope, c.x_id(1))));
}

absl::Status Pow(RuleContext& c) {
  Emitter& e = c.e();
  const ir::ElementType element = c.x_type().element;
  if (c.wants(0)) {
    const auto& contents = e.graph().value(c.x_id(1)).contents;
    std::optional<double> constant;
    if (contents != nullptr && contents->elements.size() == 1) {
      const ir::Element& exponent = contents->elements[0];
      constant = exponent.real;
      if (exponent.integer && exponent.integer->is_constant()) {
        constant = static_cast<double>(exponent.integer->constant());
      }
    }
    ValueId slope;
    if (constant == 2.0) {
      slope = e.Mul(c.x(0), 2);
    } else {
      const ValueId exponent = e.Cast(c.x(1), element);
      slope = e.Mul(e.Op("Pow", {c.x(0), e.Add(exponent, -1)}), exponent);
    }
    const absl::Status status = c.GiveBroadcast(0, e.Mul(c.dy(), slope));
    if (!status.ok()) return status;
  }
  if (!c.wants(1)) return absl::OkStatus();
  // x^b log(x); at x = 0 the limit, zero.
  const ValueId positive = e.Greater(c.x(0), 0);
  const ValueId safe = e.Where(positive, c.x(0), e.RealLike(1, c.x(0)));
  const ValueId slope = e.Mul(c.y(), e.Op("Log", {safe}));
  return c.GiveBroadcast(1, e.Cast(e.Mul(c.dy(), slope), c.x_type(1).element));
}

absl::Status Mod(RuleContext& c) {
  if (c.wants(0)) {
    const absl::Status status = c.GiveBroadcast(0, c.dy());
    if (!status.ok()) return status;
  }
  if (!c.wants(1)) return absl::OkStatus();
  Emitter& e = c.e();
  const ValueId quotient = e.Div(c.x(0), c.x(1));
  // Rounded to zero as in C, or down as in Python.
  ValueId whole = e.Op("Floor", {quotient});
  if (c.Int("fmod", 0) != 0) {
    whole = e.Mul(e.Op("Floor", {e.Op("Abs", {quotient})}),
                  e.Op("Sign", {quotient}));
  }
  return c.GiveBroadcast(1, e.Neg(e.Mul(c.dy(), whole)));
}

absl::Status Sum(RuleContext& c) {
  for (size_t i = 0; i < c.num_operands(); ++i) {
    if (!c.wants(i)) continue;
    const absl::Status status = c.GiveBroadcast(i, c.dy());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Mean(RuleContext& c) {
  const ValueId part =
      c.e().Mul(c.dy(), 1.0 / static_cast<double>(c.num_operands()));
  for (size_t i = 0; i < c.num_operands(); ++i) {
    if (!c.wants(i)) continue;
    const absl::Status status = c.GiveBroadcast(i, part);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Max and Min: operands that are equal share the gradient.
absl::Status Extremum(RuleContext& c) {
  Emitter& e = c.e();
  const size_t n = c.num_operands();
  if (n == 1) return c.Give(0, c.dy());
  std::vector<ValueId> operands;
  operands.reserve(n);
  for (size_t i = 0; i < n; ++i) operands.push_back(c.x(i));
  const ValueId extremum = e.Op(c.node().op_type, operands);
  const ir::ElementType element = c.x_type().element;
  std::vector<ValueId> hits;
  hits.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    hits.push_back(e.Cast(e.Op("Equal", {operands[i], extremum}), element));
  }
  const ValueId share = e.Div(c.dy(), e.Op("Sum", hits));
  for (size_t i = 0; i < n; ++i) {
    if (!c.wants(i)) continue;
    const absl::Status status = c.GiveBroadcast(i, e.Mul(share, hits[i]));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PRelu(RuleContext& c) {
  Emitter& e = c.e();
  const ValueId negative = e.Less(c.x(0), 0);
  if (c.wants(0)) {
    const absl::Status status =
        c.Give(0, e.Where(negative, e.Mul(c.dy(), c.x(1)), c.dy()));
    if (!status.ok()) return status;
  }
  if (!c.wants(1)) return absl::OkStatus();
  return c.GiveBroadcast(1, e.Keep(negative, e.Mul(c.dy(), c.x(0))));
}

absl::Status Where(RuleContext& c) {
  Emitter& e = c.e();
  if (c.wants(1)) {
    const absl::Status status = c.GiveBroadcast(1, e.Keep(c.x(0), c.dy()));
    if (!status.ok()) return status;
  }
  if (!c.wants(2)) return absl::OkStatus();
  const ValueId zero = e.RealLike(0, c.dy());
  return c.GiveBroadcast(2, e.Where(c.x(0), zero, c.dy()));
}

}  // namespace onnx_memopt::grad::rules
