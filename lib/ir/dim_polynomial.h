// How a symbolic Dim is represented, for the files dim*.cc alone.
//
//   4*batch*floor(seq/2)^2 + 8     a polynomial: two terms
//   4*batch*floor(seq/2)^2         a term: coefficient and factors
//   floor(seq/2)^2                 a factor: an atom and its exponent
//   batch, floor(seq/2)            atoms: what a polynomial treats as variables
//
// Canonical form: terms in descending graded-lexicographic order without zero
// coefficients, factors in ascending order of atoms, and no polynomial for a
// constant. Atoms are canonical too: FloorDiv, Max and Min bring numerators
// and operands to one form, so equal formulas have equal trees.
//
// Trees are bounded (kMaxWeight, kMaxDepth, kMaxDegree, kMaxDimTerms): every
// recursion over them is short and no formula takes more than some kilobytes.
#ifndef ONNX_MEMOPT_LIB_IR_DIM_POLYNOMIAL_H_
#define ONNX_MEMOPT_LIB_IR_DIM_POLYNOMIAL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "llvm/ADT/SmallVector.h"
#include "onnx_memopt/ir/dim.h"

namespace onnx_memopt::ir {

inline constexpr int kMaxWeight = 2048;  // nodes of the whole tree
inline constexpr int kMaxDepth = 24;     // atoms within atoms
inline constexpr int kMaxDegree = 32;
inline constexpr int kMaxExtremeOperands = 16;    // of one max or min
inline constexpr size_t kMaxTermProducts = 1024;  // in one multiplication

enum class AtomKind : uint8_t { kSymbol, kFloor, kMax, kMin };

struct Bounds {
  std::optional<int64_t> lower;
  std::optional<int64_t> upper;
};

struct Atom {
  AtomKind kind = AtomKind::kSymbol;
  std::string name;           // kSymbol
  std::vector<Dim> operands;  // kFloor: numerator, denominator; else descending
  // Over all choices of names >= i.
  std::array<Bounds, 2> bounds;
  int weight = 1;
  int depth = 0;
};

struct Factor {
  std::shared_ptr<const Atom> atom;
  int exponent = 1;
};

struct Term {
  int64_t coefficient = 0;
  llvm::SmallVector<Factor, 2> factors;

  bool is_constant() const { return factors.empty(); }
  // One atom to the first power.
  bool is_linear() const {
    return factors.size() == 1 && factors[0].exponent == 1;
  }
};

struct Polynomial {
  std::vector<Term> terms;
  int weight = 0;
  int depth = 0;

  // Sorts, merges, drops zeros; nullopt on overflow or beyond the limits.
  static std::optional<Dim> Make(std::vector<Term> terms);
  // The terms of any dim; a constant's are made up, so they are copied.
  static std::vector<Term> TermsOf(const Dim& dim);
  // Null for a constant.
  static const Polynomial* Get(const Dim& dim) { return dim.polynomial_.get(); }
  // The atom if `dim` is that alone, else null.
  static std::shared_ptr<const Atom> AsAtom(const Dim& dim);
  // A dim that is a new atom.
  static std::optional<Dim> MakeAtom(AtomKind kind, std::vector<Dim> operands);
  static Dim FromAtom(std::shared_ptr<const Atom> atom);
};

// Total orders: <0, 0, >0.
int CompareDims(const Dim& a, const Dim& b);
int CompareAtoms(const Atom& a, const Atom& b);
// Graded lexicographic, coefficients ignored: a monomial order.
int CompareMonomials(const Term& a, const Term& b);
int Degree(const Term& term);

std::optional<Term> MultiplyTerms(const Term& a, const Term& b);
// a / b, where b's monomial and coefficient divide a's.
std::optional<Term> DivideTerms(const Term& a, const Term& b);

// The best bounds that interval arithmetic finds, over all choices of names
// that are at least `smallest_name` (0 or 1).
std::optional<int64_t> LowerBound(const Dim& dim, int smallest_name);
std::optional<int64_t> UpperBound(const Dim& dim, int smallest_name);
Bounds AtomBounds(AtomKind kind, const std::vector<Dim>& operands,
                  int smallest_name);

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_LIB_IR_DIM_POLYNOMIAL_H_
