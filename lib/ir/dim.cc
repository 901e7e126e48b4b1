// Construction, sums, products, evaluation and printing. Division is in
// dim_divide.cc, max, min and bounds are in dim_bounds.cc.
#include "onnx_memopt/ir/dim.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ir/dim_polynomial.h"
#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::ir {
namespace {

// The characters of a name count towards the weight, so that the text of a
// formula is bounded too.
int NameWeight(absl::string_view name) {
  return 1 + static_cast<int>(std::min<size_t>(name.size() / 64, kMaxWeight));
}

}  // namespace

int CompareAtoms(const Atom& a, const Atom& b) {
  if (&a == &b) return 0;
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (const int order = a.name.compare(b.name); order != 0) return order;
  if (a.operands.size() != b.operands.size()) {
    return a.operands.size() < b.operands.size() ? -1 : 1;
  }
  for (size_t i = 0; i < a.operands.size(); ++i) {
    const int order = CompareDims(a.operands[i], b.operands[i]);
    if (order != 0) return order;
  }
  return 0;
}

int Degree(const Term& term) {
  int degree = 0;
  for (const Factor& factor : term.factors) degree += factor.exponent;
  return degree;
}

int CompareMonomials(const Term& a, const Term& b) {
  const int degree_a = Degree(a);
  const int degree_b = Degree(b);
  if (degree_a != degree_b) return degree_a < degree_b ? -1 : 1;
  const size_t common = std::min(a.factors.size(), b.factors.size());
  for (size_t i = 0; i < common; ++i) {
    // The side with the smaller atom has a power of it, the other has none.
    const int order = CompareAtoms(*a.factors[i].atom, *b.factors[i].atom);
    if (order != 0) return order < 0 ? 1 : -1;
    if (a.factors[i].exponent != b.factors[i].exponent) {
      return a.factors[i].exponent < b.factors[i].exponent ? -1 : 1;
    }
  }
  return 0;  // Of the same degree, so neither has factors left.
}

int CompareDims(const Dim& a, const Dim& b) {
  const Polynomial* pa = Polynomial::Get(a);
  const Polynomial* pb = Polynomial::Get(b);
  if (pa == pb) {
    if (pa != nullptr || a.constant() == b.constant()) return 0;
    return a.constant() < b.constant() ? -1 : 1;
  }
  if (pa == nullptr || pb == nullptr) return pa == nullptr ? -1 : 1;
  const size_t common = std::min(pa->terms.size(), pb->terms.size());
  for (size_t i = 0; i < common; ++i) {
    const Term& ta = pa->terms[i];
    const Term& tb = pb->terms[i];
    if (const int order = CompareMonomials(ta, tb); order != 0) return order;
    if (ta.coefficient != tb.coefficient) {
      return ta.coefficient < tb.coefficient ? -1 : 1;
    }
  }
  if (pa->terms.size() == pb->terms.size()) return 0;
  return pa->terms.size() < pb->terms.size() ? -1 : 1;
}

bool operator==(const Dim& a, const Dim& b) { return CompareDims(a, b) == 0; }

std::optional<Dim> Polynomial::Make(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
    return CompareMonomials(a, b) > 0;
  });
  std::vector<Term> merged;
  for (Term& term : terms) {
    if (!merged.empty() && CompareMonomials(merged.back(), term) == 0) {
      const auto sum = CheckedAdd(merged.back().coefficient, term.coefficient);
      if (!sum) return std::nullopt;
      merged.back().coefficient = *sum;
    } else {
      // Only complete sums are known to be zero or not.
      if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
      merged.push_back(std::move(term));
    }
  }
  if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
  if (merged.empty()) return Dim(0);
  if (merged.size() == 1 && merged[0].is_constant()) {
    return Dim(merged[0].coefficient);
  }
  if (merged.size() > kMaxDimTerms) return std::nullopt;
  auto polynomial = std::make_shared<Polynomial>();
  for (const Term& term : merged) {
    if (Degree(term) > kMaxDegree) return std::nullopt;
    for (const Factor& factor : term.factors) {
      polynomial->weight += factor.atom->weight;
      polynomial->depth = std::max(polynomial->depth, factor.atom->depth);
      if (polynomial->weight > kMaxWeight) return std::nullopt;
    }
  }
  polynomial->terms = std::move(merged);
  Dim dim;
  dim.polynomial_ = std::move(polynomial);
  return dim;
}

std::vector<Term> Polynomial::TermsOf(const Dim& dim) {
  if (dim.polynomial_ != nullptr) return dim.polynomial_->terms;
  if (dim.constant_ == 0) return {};
  return {Term{dim.constant_, {}}};
}

std::shared_ptr<const Atom> Polynomial::AsAtom(const Dim& dim) {
  const Polynomial* p = dim.polynomial_.get();
  if (p == nullptr || p->terms.size() != 1) return nullptr;
  const Term& term = p->terms[0];
  if (term.coefficient != 1 || !term.is_linear()) return nullptr;
  return term.factors[0].atom;
}

Dim Polynomial::FromAtom(std::shared_ptr<const Atom> atom) {
  auto polynomial = std::make_shared<Polynomial>();
  polynomial->weight = atom->weight;
  polynomial->depth = atom->depth;
  Term term{1, {}};
  term.factors.push_back({std::move(atom), 1});
  polynomial->terms.push_back(std::move(term));
  Dim dim;
  dim.polynomial_ = std::move(polynomial);
  return dim;
}

std::optional<Dim> Polynomial::MakeAtom(AtomKind kind,
                                        std::vector<Dim> operands) {
  auto atom = std::make_shared<Atom>();
  atom->kind = kind;
  for (const Dim& operand : operands) {
    const Polynomial* p = Get(operand);
    atom->weight += p == nullptr ? 1 : p->weight;
    atom->depth = std::max(atom->depth, p == nullptr ? 1 : p->depth + 1);
  }
  if (atom->weight > kMaxWeight || atom->depth > kMaxDepth) {
    return std::nullopt;
  }
  for (int i = 0; i < 2; ++i) atom->bounds[i] = AtomBounds(kind, operands, i);
  atom->operands = std::move(operands);
  return FromAtom(std::move(atom));
}

Dim Dim::Symbol(absl::string_view name) {
  auto atom = std::make_shared<Atom>();
  atom->name = std::string(name);
  atom->weight = NameWeight(name);
  atom->bounds[0].lower = 0;
  atom->bounds[1].lower = 1;
  return Polynomial::FromAtom(std::move(atom));
}

std::optional<Dim> Add(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    return CheckedAdd(a.constant_, b.constant_);
  }
  if (a.is_constant() && a.constant_ == 0) return b;
  if (b.is_constant() && b.constant_ == 0) return a;
  std::vector<Term> terms = Polynomial::TermsOf(a);
  const std::vector<Term> more = Polynomial::TermsOf(b);
  terms.insert(terms.end(), more.begin(), more.end());
  return Polynomial::Make(std::move(terms));
}

std::optional<Dim> Sub(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    return CheckedSub(a.constant(), b.constant());
  }
  const std::optional<Dim> negated = Mul(b, Dim(-1));
  return negated ? Add(a, *negated) : std::nullopt;
}

std::optional<Term> MultiplyTerms(const Term& a, const Term& b) {
  const auto coefficient = CheckedMul(a.coefficient, b.coefficient);
  if (!coefficient) return std::nullopt;
  Term result{*coefficient, {}};
  size_t i = 0;
  size_t j = 0;
  while (i < a.factors.size() || j < b.factors.size()) {
    const int order =
        i == a.factors.size() ? 1
        : j == b.factors.size()
            ? -1
            : CompareAtoms(*a.factors[i].atom, *b.factors[j].atom);
    if (order < 0) {
      result.factors.push_back(a.factors[i++]);
    } else if (order > 0) {
      result.factors.push_back(b.factors[j++]);
    } else {
      result.factors.push_back(
          {a.factors[i].atom, a.factors[i].exponent + b.factors[j].exponent});
      ++i;
      ++j;
    }
  }
  if (Degree(result) > kMaxDegree) return std::nullopt;
  return result;
}

std::optional<Dim> Mul(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    return CheckedMul(a.constant_, b.constant_);
  }
  if (a.is_constant() && a.constant_ == 1) return b;
  if (b.is_constant() && b.constant_ == 1) return a;
  const std::vector<Term> terms_a = Polynomial::TermsOf(a);
  const std::vector<Term> terms_b = Polynomial::TermsOf(b);
  if (terms_a.size() * terms_b.size() > kMaxTermProducts) return std::nullopt;
  std::vector<Term> products;
  products.reserve(terms_a.size() * terms_b.size());
  for (const Term& term_a : terms_a) {
    for (const Term& term_b : terms_b) {
      std::optional<Term> product = MultiplyTerms(term_a, term_b);
      if (!product) return std::nullopt;
      products.push_back(*std::move(product));
    }
  }
  return Polynomial::Make(std::move(products));
}

// --- Values ---

namespace {

std::optional<int64_t> EvaluateAtom(const Atom& atom,
                                    const Bindings& bindings) {
  if (atom.kind == AtomKind::kSymbol) {
    const auto it = bindings.find(atom.name);
    if (it == bindings.end()) return std::nullopt;
    return it->second;
  }
  std::optional<int64_t> result;
  for (const Dim& operand : atom.operands) {
    const std::optional<int64_t> value = operand.Evaluate(bindings);
    if (!value) return std::nullopt;
    if (!result) {
      result = value;
    } else if (atom.kind == AtomKind::kMax) {
      result = std::max(*result, *value);
    } else if (atom.kind == AtomKind::kMin) {
      result = std::min(*result, *value);
    } else {
      const std::optional<Dim> quotient = FloorDiv(Dim(*result), Dim(*value));
      if (!quotient) return std::nullopt;
      result = quotient->constant();
    }
  }
  return result;
}

std::optional<Dim> SubstituteAtom(const std::shared_ptr<const Atom>& atom,
                                  const Bindings& bindings) {
  if (atom->kind == AtomKind::kSymbol) {
    const auto it = bindings.find(atom->name);
    if (it == bindings.end()) return Polynomial::FromAtom(atom);
    return Dim(it->second);
  }
  std::optional<Dim> result;
  for (const Dim& operand : atom->operands) {
    const std::optional<Dim> value = operand.Substitute(bindings);
    if (!value) return std::nullopt;
    if (!result) {
      result = value;
      continue;
    }
    result = atom->kind == AtomKind::kMax   ? Max(*result, *value)
             : atom->kind == AtomKind::kMin ? Min(*result, *value)
                                            : FloorDiv(*result, *value);
    if (!result) return std::nullopt;
  }
  return result;
}

void CollectAtomSymbols(const Atom& atom, absl::btree_set<std::string>* names) {
  if (atom.kind == AtomKind::kSymbol) names->insert(atom.name);
  for (const Dim& operand : atom.operands) operand.CollectSymbols(names);
}

}  // namespace

std::optional<int64_t> Dim::Evaluate(const Bindings& bindings) const {
  if (polynomial_ == nullptr) return constant_;
  int64_t total = 0;
  for (const Term& term : polynomial_->terms) {
    int64_t product = term.coefficient;
    for (const Factor& factor : term.factors) {
      const auto value = EvaluateAtom(*factor.atom, bindings);
      if (!value) return std::nullopt;
      for (int i = 0; i < factor.exponent; ++i) {
        const auto next = CheckedMul(product, *value);
        if (!next) return std::nullopt;
        product = *next;
      }
    }
    const auto sum = CheckedAdd(total, product);
    if (!sum) return std::nullopt;
    total = *sum;
  }
  return total;
}

std::optional<Dim> Dim::Substitute(const Bindings& bindings) const {
  if (polynomial_ == nullptr) return *this;
  Dim total(0);
  for (const Term& term : polynomial_->terms) {
    Dim product(term.coefficient);
    for (const Factor& factor : term.factors) {
      const std::optional<Dim> value = SubstituteAtom(factor.atom, bindings);
      if (!value) return std::nullopt;
      for (int i = 0; i < factor.exponent; ++i) {
        std::optional<Dim> next = Mul(product, *value);
        if (!next) return std::nullopt;
        product = *std::move(next);
      }
    }
    std::optional<Dim> sum = Add(total, product);
    if (!sum) return std::nullopt;
    total = *std::move(sum);
  }
  return total;
}

void Dim::CollectSymbols(absl::btree_set<std::string>* names) const {
  if (polynomial_ == nullptr) return;
  for (const Term& term : polynomial_->terms) {
    for (const Factor& factor : term.factors) {
      CollectAtomSymbols(*factor.atom, names);
    }
  }
}

// --- Text ---

namespace {

// `dim` as one side of a division: in parentheses where it needs them.
std::string Parenthesized(const Dim& dim, bool is_denominator) {
  const Polynomial* p = Polynomial::Get(dim);
  const bool bare =
      p == nullptr || (p->terms.size() == 1 &&
                       (!is_denominator || Polynomial::AsAtom(dim) != nullptr));
  return bare ? dim.ToString() : absl::StrCat("(", dim.ToString(), ")");
}

std::string AtomToString(const Atom& atom) {
  if (atom.kind == AtomKind::kSymbol) return atom.name;
  if (atom.kind == AtomKind::kFloor) {
    return absl::StrCat("floor(", Parenthesized(atom.operands[0], false), "/",
                        Parenthesized(atom.operands[1], true), ")");
  }
  std::string out = atom.kind == AtomKind::kMax ? "max(" : "min(";
  for (size_t i = 0; i < atom.operands.size(); ++i) {
    absl::StrAppend(&out, i == 0 ? "" : ", ", atom.operands[i].ToString());
  }
  out.push_back(')');
  return out;
}

// Without the sign.
std::string TermToString(const Term& term) {
  std::string out;
  // The magnitude of the smallest int64_t is not an int64_t.
  const uint64_t magnitude =
      term.coefficient < 0
          ? uint64_t{0} - static_cast<uint64_t>(term.coefficient)
          : static_cast<uint64_t>(term.coefficient);
  if (magnitude != 1 || term.is_constant()) absl::StrAppend(&out, magnitude);
  for (const Factor& factor : term.factors) {
    absl::StrAppend(&out, out.empty() ? "" : "*", AtomToString(*factor.atom));
    if (factor.exponent > 1) absl::StrAppend(&out, "^", factor.exponent);
  }
  return out;
}

}  // namespace

std::string Dim::ToString() const {
  if (polynomial_ == nullptr) return absl::StrCat(constant_);
  std::string out;
  for (const Term& term : polynomial_->terms) {
    const bool negative = term.coefficient < 0;
    absl::StrAppend(
        &out, out.empty() ? (negative ? "-" : "") : (negative ? " - " : " + "),
        TermToString(term));
  }
  return out;
}

}  // namespace onnx_memopt::ir
