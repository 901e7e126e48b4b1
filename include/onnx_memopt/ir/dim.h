// A tensor dimension: an integer, or a polynomial with integer coefficients in
// named sizes ("batch", "seq") and in terms that are not polynomials, such as
// floor((height - 1) / 2). Values are immutable, cheap to copy, and canonical:
// two dims that are equal as polynomials compare equal.
//
//   Dim batch = Dim::Symbol("batch");
//   Dim n = *Mul(batch, Dim(4));             // 4*batch
//   n.ToString();                            // "4*batch"
//   n.Evaluate({{"batch", 8}});              // 32
//   FloorDiv(*Add(n, Dim(8)), Dim(4));       // batch + 2
//
// All arithmetic is checked: it returns nullopt on 64-bit overflow, on division
// by zero, and where a formula becomes larger than any real model's: more than
// kMaxDimTerms terms, or nested too deeply. Max, Min and divisions by symbolic
// dims simplify under the assumption that every name is at least 1.
#ifndef ONNX_MEMOPT_IR_DIM_H_
#define ONNX_MEMOPT_IR_DIM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace onnx_memopt::ir {

using Bindings = absl::flat_hash_map<std::string, int64_t>;

// More terms than any real model's formula has; a bound on hostile input.
inline constexpr int kMaxDimTerms = 256;

struct Polynomial;  // lib/ir/dim_polynomial.h

class Dim {
 public:
  Dim() = default;                          // The constant 0.
  Dim(int64_t value) : constant_(value) {}  // NOLINT: a number is a dimension
  static Dim Symbol(absl::string_view name);

  bool is_constant() const { return polynomial_ == nullptr; }
  // Requires is_constant().
  int64_t constant() const { return constant_; }

  // The value with each name bound; nullopt if a name is not bound, or on
  // overflow.
  std::optional<int64_t> Evaluate(const Bindings& bindings) const;
  // This dim with the bound names replaced by their numbers.
  std::optional<Dim> Substitute(const Bindings& bindings) const;
  // Adds the names this dim depends on to `names`.
  void CollectSymbols(absl::btree_set<std::string>* names) const;
  // For example "4*batch*seq^2 + 16*seq + 8", the highest degree first.
  std::string ToString() const;

  friend bool operator==(const Dim& a, const Dim& b);
  friend bool operator!=(const Dim& a, const Dim& b) { return !(a == b); }

 private:
  friend struct Polynomial;
  friend std::optional<Dim> Add(const Dim& a, const Dim& b);
  friend std::optional<Dim> Mul(const Dim& a, const Dim& b);
  friend std::optional<Dim> DivideExact(const Dim& a, const Dim& b);
  friend std::optional<Dim> FloorDiv(const Dim& a, const Dim& b);
  friend bool KnownAtLeast(const Dim& a, int64_t bound);

  int64_t constant_ = 0;
  std::shared_ptr<const Polynomial> polynomial_;  // null for a constant
};

std::optional<Dim> Add(const Dim& a, const Dim& b);
std::optional<Dim> Sub(const Dim& a, const Dim& b);
std::optional<Dim> Mul(const Dim& a, const Dim& b);
// a / b where b divides a as a polynomial, else nullopt.
std::optional<Dim> DivideExact(const Dim& a, const Dim& b);
// Rounded towards minus infinity; a term floor(a/b) where it stays symbolic.
std::optional<Dim> FloorDiv(const Dim& a, const Dim& b);
std::optional<Dim> CeilDiv(const Dim& a, const Dim& b);
std::optional<Dim> Mod(const Dim& a, const Dim& b);
std::optional<Dim> Max(const Dim& a, const Dim& b);
std::optional<Dim> Min(const Dim& a, const Dim& b);

// True if `a` is at least `bound` for every choice of names >= 1; false where
// that is unknown.
bool KnownAtLeast(const Dim& a, int64_t bound);
// The same for names >= 0: what decides a comparison that a model makes itself,
// since a size such as "past_sequence_length" may be 0 at run time.
bool KnownAtLeastFromZero(const Dim& a, int64_t bound);

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_DIM_H_
