#include "ir/shape_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/shape_rule_util.h"
#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::ir::shape_rules {
namespace {

Element RealElement(ElementType type, double value) {
  const std::optional<double> rounded = RoundTo(type, value);
  return rounded ? Element::Real(*rounded) : Element{};
}

// Powers of symbolic sizes beyond this do not occur in shapes.
constexpr int64_t kMaxSymbolicExponent = 8;

OptDim Power(const Dim& base, const Dim& exponent) {
  if (!exponent.is_constant() || exponent.constant() < 0) return std::nullopt;
  // 2^63 overflows; the only longer powers that do not are of 0, 1 and -1.
  const int64_t limit = base.is_constant() ? 63 : kMaxSymbolicExponent;
  if (exponent.constant() > limit) return std::nullopt;
  OptDim result = Dim(1);
  for (int64_t i = 0; result && i < exponent.constant(); ++i) {
    result = Mul(*result, base);
  }
  return result;
}

// Integer division of ONNX rounds towards zero.
OptDim Divide(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    const bool undefined =
        b.constant() == 0 ||
        (b.constant() == -1 &&
         a.constant() == std::numeric_limits<int64_t>::min());
    if (undefined) return std::nullopt;
    return Dim(a.constant() / b.constant());
  }
  if (KnownAtLeast(a, 0) && KnownAtLeast(b, 1)) return FloorDiv(a, b);
  return DivideExact(a, b);
}

OptDim Modulo(const Dim& a, const Dim& b, bool fmod) {
  if (!fmod) return Mod(a, b);
  // The remainder has the sign of the dividend.
  const OptDim quotient = Divide(a, b);
  return Minus(a, Times(quotient, b));
}

OptDim IntegerBinary(const BinaryOp& op, const Dim& a, const Dim& b) {
  if (op.name == "Add" || op.name == "Sum") return Add(a, b);
  if (op.name == "Sub") return Sub(a, b);
  if (op.name == "Mul") return Mul(a, b);
  if (op.name == "Div") return Divide(a, b);
  if (op.name == "Mod") return Modulo(a, b, op.fmod);
  if (op.name == "Pow") return Power(a, b);
  if (op.name == "Min") return Min(a, b);
  if (op.name == "Max") return Max(a, b);
  return std::nullopt;
}

std::optional<double> RealBinary(const BinaryOp& op, double a, double b) {
  if (op.name == "Add" || op.name == "Sum") return a + b;
  if (op.name == "Sub") return a - b;
  if (op.name == "Mul") return a * b;
  if (op.name == "Div" && b != 0) return a / b;
  if (op.name == "Mod" && b != 0 && op.fmod) {
    return std::fmod(a, b);
  }
  if (op.name == "Pow") {
    // Other powers may differ between libraries in the last digit.
    const double power = std::pow(a, b);
    const bool exact = std::trunc(a) == a && std::trunc(power) == power &&
                       std::abs(power) < 16777216.0;
    if (exact) return power;
  }
  if (op.name == "Min") return std::min(a, b);
  if (op.name == "Max") return std::max(a, b);
  return std::nullopt;
}

// A symbolic size in a floating-point tensor: exact while the result is one
// too.
OptDim SymbolicInFloat(const BinaryOp& op, const Element& a, const Element& b) {
  const OptDim x = AsInteger(a);
  const OptDim y = AsInteger(b);
  if (!x || !y) return std::nullopt;
  if (op.name == "Div") return DivideExact(*x, *y);
  if (op.name == "Mod") return std::nullopt;
  return IntegerBinary(op, *x, *y);
}

}  // namespace

Element ComputeBinary(const BinaryOp& op, ElementType type, const Element& a,
                      const Element& b) {
  if (IsFloat(type)) {
    if (a.real && b.real) {
      if (!std::isfinite(*a.real) || !std::isfinite(*b.real)) return {};
      const std::optional<double> value = RealBinary(op, *a.real, *b.real);
      if (!value || !std::isfinite(*value)) return {};
      return RealElement(type, *value);
    }
    return MakeElement(type, SymbolicInFloat(op, a, b));
  }
  // An exponent may be of floating-point type where the base is not.
  if (!IsInteger(type) || !a.integer || !b.integer) return {};
  return MakeElement(type, IntegerBinary(op, *a.integer, *b.integer));
}

Element ComputeUnary(absl::string_view op, ElementType type, const Element& a) {
  if (op == "Not") {
    const std::optional<int64_t> value = AsConstant(a);
    if (!value) return {};
    return Element::Integer(Dim(*value == 0 ? 1 : 0));
  }
  if (a.real) {
    const double x = *a.real;
    if (!IsFloat(type) || !std::isfinite(x)) return {};
    if (op == "Neg") return RealElement(type, -x);
    if (op == "Abs") return RealElement(type, std::abs(x));
    if (op == "Floor") return RealElement(type, std::floor(x));
    if (op == "Ceil") return RealElement(type, std::ceil(x));
    // Halves go to the even neighbour, as in the default rounding mode.
    if (op == "Round") return RealElement(type, std::nearbyint(x));
    if (op == "Sqrt" && x >= 0) return RealElement(type, std::sqrt(x));
    if (op == "Reciprocal" && x != 0) return RealElement(type, 1 / x);
    if (op == "Sign") return RealElement(type, x > 0 ? 1 : x < 0 ? -1 : 0);
    return {};
  }
  if (!a.integer) return {};
  const Dim& x = *a.integer;
  if (op == "Neg") return MakeElement(type, Mul(x, Dim(-1)));
  if (op == "Abs") {
    if (KnownAtLeast(x, 0)) return MakeElement(type, x);
    if (x.is_constant()) return MakeElement(type, Mul(x, Dim(-1)));
  }
  if (op == "Sign") {
    if (KnownAtLeastFromZero(x, 1)) return MakeElement(type, Dim(1));
    if (x.is_constant()) {
      return MakeElement(type, Dim(x.constant() < 0 ? -1 : 0));
    }
  }
  // An integer already.
  if (op == "Floor" || op == "Ceil" || op == "Round") {
    return MakeElement(type, x);
  }
  return {};
}

Element Compare(absl::string_view op, const Element& a, const Element& b) {
  const auto result = [](bool value) {
    return Element::Integer(Dim(value ? 1 : 0));
  };
  if (op == "And" || op == "Or" || op == "Xor") {
    const std::optional<int64_t> x = AsConstant(a);
    const std::optional<int64_t> y = AsConstant(b);
    if (x && y) {
      if (op == "Xor") return result((*x != 0) != (*y != 0));
      return result(op == "And" ? *x != 0 && *y != 0 : *x != 0 || *y != 0);
    }
    // One side may decide alone.
    const std::optional<int64_t> one = x ? x : y;
    if (one && op == "And" && *one == 0) return result(false);
    if (one && op == "Or" && *one != 0) return result(true);
    return {};
  }
  // What holds is found out once: less, equal or greater; or only that one of
  // them does not hold.
  bool may_be_less = true;
  bool may_be_equal = true;
  bool may_be_greater = true;
  if (a.real && b.real) {
    if (std::isnan(*a.real) || std::isnan(*b.real)) return {};
    may_be_less = *a.real < *b.real;
    may_be_equal = *a.real == *b.real;
    may_be_greater = *a.real > *b.real;
  } else {
    const OptDim x = AsInteger(a);
    const OptDim y = AsInteger(b);
    const OptDim difference = Minus(x, y);
    const OptDim opposite = Minus(y, x);
    if (!difference || !opposite) return {};
    // A model asks whether a size is 0 because it may be: names from 0 here.
    if (KnownAtLeastFromZero(*difference, 0)) may_be_less = false;
    if (KnownAtLeastFromZero(*opposite, 0)) may_be_greater = false;
    if (KnownAtLeastFromZero(*difference, 1) ||
        KnownAtLeastFromZero(*opposite, 1)) {
      may_be_equal = false;
    }
  }
  const auto decide = [&](bool may_hold, bool may_not_hold) {
    if (may_hold && may_not_hold) return Element{};
    return result(may_hold);
  };
  if (op == "Equal") {
    return decide(may_be_equal, may_be_less || may_be_greater);
  }
  if (op == "Less") return decide(may_be_less, may_be_equal || may_be_greater);
  if (op == "LessOrEqual") {
    return decide(may_be_less || may_be_equal, may_be_greater);
  }
  if (op == "Greater") {
    return decide(may_be_greater, may_be_less || may_be_equal);
  }
  if (op == "GreaterOrEqual") {
    return decide(may_be_greater || may_be_equal, may_be_less);
  }
  return {};
}

Element ConvertElement(const Element& a, ElementType from, ElementType to) {
  if (!a.known()) return {};
  if (a.real) {
    const double x = *a.real;
    if (!std::isfinite(x)) return {};
    if (IsFloat(to)) return RealElement(to, x);
    if (to == ElementType::kBool) return MakeElement(to, Dim(x != 0 ? 1 : 0));
    // 2^62: safely within int64_t on either side.
    if (!IsInteger(to) || std::abs(x) > 4611686018427387904.0) return {};
    return MakeElement(to, Dim(static_cast<int64_t>(x)));
  }
  const Dim& x = *a.integer;
  if (to == ElementType::kBool) {
    if (x.is_constant()) {
      return MakeElement(to, Dim(x.constant() != 0 ? 1 : 0));
    }
    return KnownAtLeastFromZero(x, 1) ? MakeElement(to, Dim(1)) : Element{};
  }
  if (from == ElementType::kUndefined) return {};
  return IsFloat(to) || IsInteger(to) ? MakeElement(to, x) : Element{};
}

}  // namespace onnx_memopt::ir::shape_rules
