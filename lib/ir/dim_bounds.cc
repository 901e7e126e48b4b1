// What can be proved about the value of a dim for all choices of its names, and
// Max and Min, which drop the operands that are proved never to win.
#include <algorithm>

#include "ir/dim_polynomial.h"
#include "onnx_memopt/ir/dim.h"
#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::ir {
namespace {

// Beyond this, a proof would take longer than it is worth.
constexpr size_t kMaxTermsInProof = 48;
constexpr int kMaxDegreeInProof = 8;
constexpr int kMaxProofDepth = 4;
constexpr int kMaxProofSteps = 32;

// `term` with each factor x replaced by lower + x, or upper - x where only that
// is known: over it, every factor then ranges from 0 upwards. nullopt if some
// factor has no bound at all.
std::optional<Dim> ShiftToZero(const Term& term, int smallest_name) {
  Dim product(term.coefficient);
  for (const Factor& factor : term.factors) {
    const Bounds& bounds = factor.atom->bounds[smallest_name];
    std::optional<Dim> shifted = Polynomial::FromAtom(factor.atom);
    if (bounds.lower) {
      shifted = Add(*shifted, Dim(*bounds.lower));
    } else if (bounds.upper) {
      shifted = Sub(Dim(*bounds.upper), *shifted);
    } else {
      return std::nullopt;
    }
    for (int i = 0; shifted && i < factor.exponent; ++i) {
      const std::optional<Dim> next = Mul(product, *shifted);
      if (!next) return std::nullopt;
      product = *next;
    }
    if (!shifted) return std::nullopt;
  }
  return product;
}

// The largest value of the factors of a shifted term; nullopt if unbounded.
std::optional<int64_t> LargestShifted(const Term& term, int smallest_name) {
  int64_t product = 1;
  for (const Factor& factor : term.factors) {
    const Bounds& bounds = factor.atom->bounds[smallest_name];
    if (!bounds.lower || !bounds.upper) return std::nullopt;
    const auto range = CheckedSub(*bounds.upper, *bounds.lower);
    if (!range || *range < 0) return std::nullopt;
    for (int i = 0; i < factor.exponent; ++i) {
      const auto next = CheckedMul(product, *range);
      if (!next) return std::nullopt;
      product = *next;
    }
  }
  return product;
}

std::optional<int64_t> Maximum(std::optional<int64_t> a,
                               std::optional<int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::max(*a, *b);
}

std::optional<int64_t> Minimum(std::optional<int64_t> a,
                               std::optional<int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

Bounds BoundsOf(const Dim& dim, int smallest_name) {
  return {LowerBound(dim, smallest_name), UpperBound(dim, smallest_name)};
}

Bounds FloorBounds(const Bounds& numerator, const Bounds& denominator) {
  Bounds result;
  // Where a polynomial denominator may be 0 the quotient has no value, so it
  // is at least 1 wherever it is known not to be negative.
  if (!denominator.lower || *denominator.lower < 0) return result;
  const int64_t smallest = std::max<int64_t>(*denominator.lower, 1);
  if (denominator.upper == denominator.lower) {
    if (numerator.lower)
      result.lower = onnx_memopt::FloorDiv(*numerator.lower, smallest);
    if (numerator.upper)
      result.upper = onnx_memopt::FloorDiv(*numerator.upper, smallest);
    return result;
  }
  // Dividing by more than 1 brings either side closer to 0.
  if (numerator.lower) {
    result.lower = *numerator.lower >= 0
                       ? 0
                       : onnx_memopt::FloorDiv(*numerator.lower, smallest);
  }
  if (numerator.upper) {
    result.upper = *numerator.upper >= 0
                       ? onnx_memopt::FloorDiv(*numerator.upper, smallest)
                       : -1;
  }
  return result;
}

struct Proof {
  int smallest_name = 1;
  int steps_left = kMaxProofSteps;

  bool AtLeast(const Dim& dim, int64_t bound, int depth);
  bool AtLeastWithout(const Dim& dim, const Term& term, int64_t bound,
                      int depth);
};

// dim = rest + c * atom, where the atom is a floor, max or min. Replaces the
// atom by polynomials that bound it or that it must be one of.
bool Proof::AtLeastWithout(const Dim& dim, const Term& term, int64_t bound,
                           int depth) {
  const Atom& atom = *term.factors[0].atom;
  const std::optional<Dim> itself = Polynomial::Make({term});
  const std::optional<Dim> rest = itself ? Sub(dim, *itself) : std::nullopt;
  if (!rest) return false;
  const Dim coefficient(term.coefficient);
  if (atom.kind == AtomKind::kFloor) {
    const Dim& divisor = atom.operands[1];
    if (!divisor.is_constant() || divisor.constant() < 1) return false;
    // (p - (k - 1)) / k <= floor(p / k) <= p / k, times k throughout. dim is
    // an integer, so k * dim > k * (bound - 1) is enough.
    std::optional<Dim> numerator = atom.operands[0];
    if (term.coefficient > 0) {
      numerator = Sub(*numerator, Dim(divisor.constant() - 1));
    }
    const std::optional<Dim> scaled_rest = Mul(*rest, divisor);
    const std::optional<Dim> replaced =
        numerator ? Mul(*numerator, coefficient) : std::nullopt;
    const std::optional<Dim> total =
        scaled_rest && replaced ? Add(*scaled_rest, *replaced) : std::nullopt;
    const auto below = CheckedSub(bound, 1);
    const auto scaled_below =
        below ? CheckedMul(*below, divisor.constant()) : std::nullopt;
    const auto needed =
        scaled_below ? CheckedAdd(*scaled_below, 1) : std::nullopt;
    return total && needed && AtLeast(*total, *needed, depth + 1);
  }
  // c * max(a, b) >= c * a for c > 0, and likewise for min and c < 0: any
  // operand will do. Otherwise the proof must hold for each operand.
  const bool any = (atom.kind == AtomKind::kMax) == (term.coefficient > 0);
  for (const Dim& operand : atom.operands) {
    const std::optional<Dim> replaced = Mul(operand, coefficient);
    const std::optional<Dim> total =
        replaced ? Add(*rest, *replaced) : std::nullopt;
    const bool holds = total && AtLeast(*total, bound, depth + 1);
    if (holds == any) return any;
  }
  return !any;
}

bool Proof::AtLeast(const Dim& dim, int64_t bound, int depth) {
  const std::optional<int64_t> lower = LowerBound(dim, smallest_name);
  if (lower && *lower >= bound) return true;
  const Polynomial* p = Polynomial::Get(dim);
  if (p == nullptr || p->terms.size() > kMaxTermsInProof ||
      depth >= kMaxProofDepth) {
    return false;
  }
  for (const Term& term : p->terms) {
    if (!term.is_linear() || term.factors[0].atom->kind == AtomKind::kSymbol) {
      continue;
    }
    if (--steps_left < 0) return false;
    if (AtLeastWithout(dim, term, bound, depth)) return true;
  }
  return false;
}

// Max or Min of the operands of both.
std::optional<Dim> Extreme(AtomKind kind, const Dim& a, const Dim& b) {
  std::vector<Dim> operands;
  for (const Dim* side : {&a, &b}) {
    const std::shared_ptr<const Atom> atom = Polynomial::AsAtom(*side);
    std::vector<Dim> added = {*side};
    if (atom != nullptr && atom->kind == kind) added = atom->operands;
    for (const Dim& candidate : added) {
      bool loses = false;
      std::vector<Dim> kept;
      for (const Dim& operand : operands) {
        const std::optional<Dim> lead = kind == AtomKind::kMax
                                            ? Sub(operand, candidate)
                                            : Sub(candidate, operand);
        const std::optional<Dim> lag = lead ? Mul(*lead, Dim(-1)) : lead;
        if (!loses && lead && KnownAtLeast(*lead, 0)) loses = true;
        if (loses || !lag || !KnownAtLeast(*lag, 0)) kept.push_back(operand);
      }
      operands = std::move(kept);
      if (!loses) operands.push_back(candidate);
      if (operands.size() > kMaxExtremeOperands) return std::nullopt;
    }
  }
  if (operands.size() == 1) return operands[0];
  std::sort(operands.begin(), operands.end(),
            [](const Dim& x, const Dim& y) { return CompareDims(x, y) > 0; });
  return Polynomial::MakeAtom(kind, std::move(operands));
}

}  // namespace

std::optional<int64_t> LowerBound(const Dim& dim, int smallest_name) {
  const Polynomial* p = Polynomial::Get(dim);
  if (p == nullptr) return dim.constant();
  if (p->terms.size() > kMaxTermsInProof ||
      Degree(p->terms[0]) > kMaxDegreeInProof) {
    return std::nullopt;
  }
  Dim shifted(0);
  for (const Term& term : p->terms) {
    const std::optional<Dim> product = ShiftToZero(term, smallest_name);
    const std::optional<Dim> sum =
        product ? Add(shifted, *product) : std::nullopt;
    if (!sum) return std::nullopt;
    shifted = *sum;
  }
  // Each non-constant term is now its coefficient times something >= 0.
  int64_t lower = 0;
  for (const Term& term : Polynomial::TermsOf(shifted)) {
    if (term.coefficient >= 0 && !term.is_constant()) continue;
    const auto largest = LargestShifted(term, smallest_name);
    const auto product =
        largest ? CheckedMul(term.coefficient, *largest) : std::nullopt;
    const auto sum = product ? CheckedAdd(lower, *product) : std::nullopt;
    if (!sum) return std::nullopt;
    lower = *sum;
  }
  return lower;
}

std::optional<int64_t> UpperBound(const Dim& dim, int smallest_name) {
  const std::optional<Dim> negated = Mul(dim, Dim(-1));
  const auto lower =
      negated ? LowerBound(*negated, smallest_name) : std::nullopt;
  return lower ? CheckedMul(*lower, -1) : std::nullopt;
}

Bounds AtomBounds(AtomKind kind, const std::vector<Dim>& operands,
                  int smallest_name) {
  Bounds result = BoundsOf(operands[0], smallest_name);
  if (kind == AtomKind::kFloor) {
    return FloorBounds(result, BoundsOf(operands[1], smallest_name));
  }
  for (size_t i = 1; i < operands.size(); ++i) {
    const Bounds next = BoundsOf(operands[i], smallest_name);
    const bool both_lower = result.lower && next.lower;
    const bool both_upper = result.upper && next.upper;
    if (kind == AtomKind::kMax) {
      // One operand's lower bound is one of the whole; upper needs all.
      result.lower = Maximum(result.lower, next.lower);
      result.upper =
          both_upper ? Maximum(result.upper, next.upper) : std::nullopt;
    } else {
      result.upper = Minimum(result.upper, next.upper);
      result.lower =
          both_lower ? Minimum(result.lower, next.lower) : std::nullopt;
    }
  }
  return result;
}

bool KnownAtLeast(const Dim& a, int64_t bound) {
  if (a.is_constant()) return a.constant_ >= bound;
  Proof proof;
  return proof.AtLeast(a, bound, 0);
}

bool KnownAtLeastFromZero(const Dim& a, int64_t bound) {
  if (a.is_constant()) return a.constant() >= bound;
  Proof proof;
  proof.smallest_name = 0;
  return proof.AtLeast(a, bound, 0);
}

std::optional<Dim> Max(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    return Dim(std::max(a.constant(), b.constant()));
  }
  return Extreme(AtomKind::kMax, a, b);
}

std::optional<Dim> Min(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    return Dim(std::min(a.constant(), b.constant()));
  }
  return Extreme(AtomKind::kMin, a, b);
}

}  // namespace onnx_memopt::ir
