// Division of dims: exact, and rounded towards minus infinity.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/dim_polynomial.h"
#include "onnx_memopt/ir/dim.h"
#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::ir {
namespace {

// Each step of a long division removes the leading term; formulas that need
// more steps than this are not worth dividing.
constexpr int kMaxDivisionSteps = 128;

// The floor of a quotient of numbers with any signs; nullopt by zero and on
// overflow.
std::optional<int64_t> FloorDivNumbers(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) {
    return std::nullopt;
  }
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

struct Division {
  Dim quotient;
  Dim remainder;
};

// a = quotient * b + remainder, where no term of the remainder is a multiple of
// b's leading term. Requires b != 0.
std::optional<Division> LongDivide(const Dim& a, const Dim& b) {
  const std::vector<Term> divisor = Polynomial::TermsOf(b);
  std::vector<Term> quotient;
  std::vector<Term> remainder;
  std::optional<Dim> rest = a;
  for (int step = 0; step < kMaxDivisionSteps; ++step) {
    std::vector<Term> terms = Polynomial::TermsOf(*rest);
    // Terms that the divisor's leading one does not divide stay behind.
    size_t lead = 0;
    std::optional<Term> factor;
    for (; lead < terms.size(); ++lead) {
      factor = DivideTerms(terms[lead], divisor[0]);
      if (factor) break;
      remainder.push_back(terms[lead]);
    }
    if (!factor) {
      std::optional<Dim> q = Polynomial::Make(std::move(quotient));
      std::optional<Dim> r = Polynomial::Make(std::move(remainder));
      if (!q || !r) return std::nullopt;
      return Division{*std::move(q), *std::move(r)};
    }
    terms.erase(terms.begin(), terms.begin() + static_cast<ptrdiff_t>(lead));
    quotient.push_back(*factor);
    const std::optional<Dim> leading = Polynomial::Make({*std::move(factor)});
    const std::optional<Dim> product =
        leading ? Mul(*leading, b) : std::nullopt;
    const std::optional<Dim> minuend = Polynomial::Make(std::move(terms));
    rest = product && minuend ? Sub(*minuend, *product) : std::nullopt;
    if (!rest) return std::nullopt;
  }
  return std::nullopt;
}

// The greatest common divisor of the coefficients of `terms`, continuing from
// `start`; 0 if all are 0. The smallest int64_t has no magnitude: 1 then.
int64_t Content(const std::vector<Term>& terms, int64_t start) {
  for (const Term& term : terms) {
    if (term.coefficient == std::numeric_limits<int64_t>::min()) return 1;
    start = std::gcd(start, term.coefficient);
  }
  return start;
}

// The factors that every term of both lists has.
Term CommonMonomial(const std::vector<Term>& a, const std::vector<Term>& b) {
  Term common{1, b[0].factors};
  const auto restrict_to = [&common](const Term& term) {
    llvm::SmallVector<Factor, 2> kept;
    for (const Factor& factor : common.factors) {
      for (const Factor& other : term.factors) {
        if (CompareAtoms(*factor.atom, *other.atom) == 0) {
          kept.push_back(
              {factor.atom, std::min(factor.exponent, other.exponent)});
        }
      }
    }
    common.factors = std::move(kept);
  };
  for (const Term& term : a) restrict_to(term);
  for (const Term& term : b) restrict_to(term);
  return common;
}

std::optional<Dim> DivideAllTerms(const std::vector<Term>& terms,
                                  const Term& divisor) {
  std::vector<Term> quotients;
  quotients.reserve(terms.size());
  for (const Term& term : terms) {
    std::optional<Term> quotient = DivideTerms(term, divisor);
    if (!quotient) return std::nullopt;
    quotients.push_back(*std::move(quotient));
  }
  return Polynomial::Make(std::move(quotients));
}

// The index of the only linear term of `terms` that is a floor with a constant
// denominator, if its coefficient is 1; such a floor merges with the division
// around it: floor((floor(x/a) + y) / b) = floor((x + a*y) / (a*b)).
std::optional<size_t> MergeableFloor(const std::vector<Term>& terms) {
  std::optional<size_t> found;
  for (size_t i = 0; i < terms.size(); ++i) {
    for (const Factor& factor : terms[i].factors) {
      if (factor.atom->kind != AtomKind::kFloor) continue;
      // More than one floor: which one merges would be arbitrary.
      if (found || terms[i].coefficient != 1 || !terms[i].is_linear() ||
          !factor.atom->operands[1].is_constant() ||
          factor.atom->operands[1].constant() <= 0) {
        return std::nullopt;
      }
      found = i;
    }
  }
  return found;
}

// Requires divisor > 1 and a symbolic `a`.
std::optional<Dim> FloorDivByConstant(const Dim& a, int64_t divisor) {
  // Whole multiples come out, so that coefficients lie in [0, divisor): one
  // form for formulas that differ by a multiple.
  std::vector<Term> whole;
  std::vector<Term> rest;
  int64_t offset = 0;  // the constant term of the rest
  for (const Term& term : Polynomial::TermsOf(a)) {
    const int64_t quotient = onnx_memopt::FloorDiv(term.coefficient, divisor);
    // Not coefficient - quotient * divisor, which may overflow.
    int64_t remainder = term.coefficient % divisor;
    if (remainder < 0) remainder += divisor;
    if (quotient != 0) whole.push_back(Term{quotient, term.factors});
    if (remainder == 0) continue;
    if (term.is_constant()) {
      offset = remainder;
    } else {
      rest.push_back(Term{remainder, term.factors});
    }
  }
  std::optional<Dim> integral = Polynomial::Make(std::move(whole));
  if (!integral || rest.empty()) return integral;

  std::optional<Dim> fraction;
  const int64_t common = Content(rest, divisor);
  if (common > 1) {
    // floor((g*p + k) / (g*c)) = floor((p + floor(k/g)) / c)
    for (Term& term : rest) term.coefficient /= common;
    rest.push_back(Term{offset / common, {}});
    const std::optional<Dim> numerator = Polynomial::Make(std::move(rest));
    fraction =
        numerator ? FloorDiv(*numerator, Dim(divisor / common)) : std::nullopt;
    return fraction ? Add(*integral, *fraction) : std::nullopt;
  }
  if (const std::optional<size_t> inner = MergeableFloor(rest)) {
    const Atom& atom = *rest[*inner].factors[0].atom;
    const Dim inner_numerator = atom.operands[0];
    const Dim inner_divisor = atom.operands[1];
    std::vector<Term> others = rest;
    others.erase(others.begin() + static_cast<ptrdiff_t>(*inner));
    others.push_back(Term{offset, {}});
    const std::optional<Dim> y = Polynomial::Make(std::move(others));
    const std::optional<Dim> scaled = y ? Mul(*y, inner_divisor) : std::nullopt;
    const std::optional<Dim> numerator =
        scaled ? Add(inner_numerator, *scaled) : std::nullopt;
    const std::optional<Dim> product = Mul(inner_divisor, Dim(divisor));
    if (numerator && product) {
      fraction = FloorDiv(*numerator, *product);
      return fraction ? Add(*integral, *fraction) : std::nullopt;
    }
  }
  rest.push_back(Term{offset, {}});
  const std::optional<Dim> numerator = Polynomial::Make(std::move(rest));
  if (!numerator) return std::nullopt;
  const std::optional<int64_t> lower = LowerBound(*numerator, 0);
  const std::optional<int64_t> upper = UpperBound(*numerator, 0);
  if (lower && upper &&
      onnx_memopt::FloorDiv(*lower, divisor) ==
          onnx_memopt::FloorDiv(*upper, divisor)) {
    return Add(*integral, Dim(onnx_memopt::FloorDiv(*lower, divisor)));
  }
  fraction = Polynomial::MakeAtom(AtomKind::kFloor, {*numerator, Dim(divisor)});
  return fraction ? Add(*integral, *fraction) : std::nullopt;
}

// Requires a symbolic `b`.
std::optional<Dim> FloorDivByPolynomial(const Dim& a, const Dim& b) {
  const std::vector<Term> terms_a = Polynomial::TermsOf(a);
  const std::vector<Term> terms_b = Polynomial::TermsOf(b);
  if (terms_a.empty()) return Dim(0);
  // What numerator and denominator have in common cancels.
  Term common = CommonMonomial(terms_a, terms_b);
  common.coefficient = Content(terms_b, Content(terms_a, 0));
  if (terms_b[0].coefficient < 0) common.coefficient = -common.coefficient;
  if (!common.is_constant() || common.coefficient != 1) {
    const std::optional<Dim> numerator = DivideAllTerms(terms_a, common);
    const std::optional<Dim> denominator = DivideAllTerms(terms_b, common);
    if (!numerator || !denominator) return std::nullopt;
    return FloorDiv(*numerator, *denominator);
  }
  const std::optional<Division> division = LongDivide(a, b);
  if (!division) return Polynomial::MakeAtom(AtomKind::kFloor, {a, b});
  const Dim& remainder = division->remainder;
  if (remainder == Dim(0)) return division->quotient;
  if (KnownAtLeast(remainder, 0)) {
    const std::optional<Dim> gap = Sub(b, remainder);
    if (gap && KnownAtLeast(*gap, 1)) return division->quotient;
  }
  const std::optional<Dim> sum = Add(b, remainder);
  if (sum && KnownAtLeast(*sum, 0)) {
    const std::optional<Dim> deficit = Mul(remainder, Dim(-1));
    if (deficit && KnownAtLeast(*deficit, 1)) {
      return Sub(division->quotient, Dim(1));
    }
  }
  // The remainder may share factors with the denominator that a did not.
  std::optional<Dim> fraction =
      division->quotient == Dim(0)
          ? Polynomial::MakeAtom(AtomKind::kFloor, {a, b})
          : FloorDiv(remainder, b);
  return fraction ? Add(division->quotient, *fraction) : std::nullopt;
}

}  // namespace

std::optional<Term> DivideTerms(const Term& a, const Term& b) {
  if (b.coefficient == 0 ||
      (b.coefficient == -1 &&
       a.coefficient == std::numeric_limits<int64_t>::min()) ||
      a.coefficient % b.coefficient != 0) {
    return std::nullopt;
  }
  Term result{a.coefficient / b.coefficient, {}};
  size_t j = 0;
  for (const Factor& factor : a.factors) {
    int exponent = factor.exponent;
    if (j < b.factors.size() &&
        CompareAtoms(*factor.atom, *b.factors[j].atom) == 0) {
      exponent -= b.factors[j++].exponent;
    }
    if (exponent < 0) return std::nullopt;
    if (exponent > 0) result.factors.push_back({factor.atom, exponent});
  }
  if (j < b.factors.size()) return std::nullopt;
  return result;
}

std::optional<Dim> DivideExact(const Dim& a, const Dim& b) {
  if (b.is_constant() && b.constant_ == 0) return std::nullopt;
  if (b.is_constant() && b.constant_ == 1) return a;
  if (a == b) return Dim(1);
  std::optional<Division> division = LongDivide(a, b);
  if (!division || division->remainder != Dim(0)) return std::nullopt;
  return std::move(division->quotient);
}

std::optional<Dim> FloorDiv(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    return FloorDivNumbers(a.constant_, b.constant_);
  }
  if (!b.is_constant()) return FloorDivByPolynomial(a, b);
  const int64_t divisor = b.constant_;
  if (divisor == 0) return std::nullopt;
  if (divisor == 1) return a;
  if (divisor > 1) return FloorDivByConstant(a, divisor);
  const std::optional<Dim> negated = Mul(a, Dim(-1));
  const auto positive = CheckedMul(divisor, -1);
  return negated && positive ? FloorDiv(*negated, Dim(*positive))
                             : std::nullopt;
}

std::optional<Dim> CeilDiv(const Dim& a, const Dim& b) {
  // ceil(a / b) = floor((a + b - 1) / b) reads better than the general
  // -floor(-a / b), and is the form that convolutions make too.
  if (KnownAtLeast(b, 1)) {
    const std::optional<Dim> sum = Add(a, b);
    const std::optional<Dim> numerator = sum ? Sub(*sum, Dim(1)) : std::nullopt;
    if (numerator) return FloorDiv(*numerator, b);
  }
  const std::optional<Dim> negated = Mul(a, Dim(-1));
  const std::optional<Dim> floor =
      negated ? FloorDiv(*negated, b) : std::nullopt;
  return floor ? Mul(*floor, Dim(-1)) : std::nullopt;
}

std::optional<Dim> Mod(const Dim& a, const Dim& b) {
  const std::optional<Dim> quotient = FloorDiv(a, b);
  const std::optional<Dim> multiple =
      quotient ? Mul(*quotient, b) : std::nullopt;
  return multiple ? Sub(a, *multiple) : std::nullopt;
}

}  // namespace onnx_memopt::ir
