// Matrix products and Einsum.
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "ir/shape_rule_util.h"

namespace onnx_memopt::ir::shape_rules {
namespace {

// Numpy's matmul: vectors become matrices for the product, the dims before the
// last two are broadcast.
std::optional<Shape> MatMulShape(const Shape* a, const Shape* b,
                                 bool transpose_a, bool transpose_b) {
  if (a == nullptr || b == nullptr || a->empty() || b->empty()) {
    return std::nullopt;
  }
  Shape left = *a;
  Shape right = *b;
  const bool vector_a = left.size() == 1;
  const bool vector_b = right.size() == 1;
  if (vector_a) left.insert(left.begin(), Dim(1));
  if (vector_b) right.push_back(Dim(1));
  if (transpose_a && !vector_a) std::swap(left.end()[-1], left.end()[-2]);
  if (transpose_b && !vector_b) std::swap(right.end()[-1], right.end()[-2]);
  bool conflict = false;
  (void)MergeEqual(left.back(), right.end()[-2], &conflict);
  if (conflict) return std::nullopt;
  std::optional<Shape> result =
      Broadcast(Shape(left.begin(), left.end() - 2),
                Shape(right.begin(), right.end() - 2));
  if (!result) return std::nullopt;
  if (!vector_a) result->push_back(left.end()[-2]);
  if (!vector_b) result->push_back(right.back());
  return result;
}

}  // namespace

bool MatMul(ShapeContext& c) {
  SetResult(c, 0, ElementOf(c, 0),
            MatMulShape(c.shape(0), c.shape(1), false, false));
  return Complete(c);
}

bool MatMulInteger(ShapeContext& c) {
  SetResult(c, 0, ElementType::kInt32,
            MatMulShape(c.shape(0), c.shape(1), false, false));
  return Complete(c);
}

bool QLinearMatMul(ShapeContext& c) {
  // a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point
  SetResult(c, 0, ElementOf(c, 7),
            MatMulShape(c.shape(0), c.shape(3), false, false));
  return Complete(c);
}

bool FusedMatMul(ShapeContext& c) {
  SetResult(c, 0, ElementOf(c, 0), std::nullopt);
  // These rotate the batch dims too, which no exporter asks for.
  if (IntAttribute(c.node, "transBatchA", 0) != 0 ||
      IntAttribute(c.node, "transBatchB", 0) != 0) {
    return false;
  }
  SetResult(c, 0, ElementOf(c, 0),
            MatMulShape(c.shape(0), c.shape(1),
                        IntAttribute(c.node, "transA", 0) != 0,
                        IntAttribute(c.node, "transB", 0) != 0));
  return Complete(c);
}

bool Gemm(ShapeContext& c) {
  const Shape* a = c.shape(0);
  const Shape* b = c.shape(1);
  if ((a != nullptr && a->size() != 2) || (b != nullptr && b->size() != 2)) {
    SetResult(c, 0, ElementOf(c, 0), std::nullopt);
    return false;
  }
  Shape result(2);
  if (a != nullptr) result[0] = (*a)[IntAttribute(c.node, "transA", 0) != 0];
  if (b != nullptr) result[1] = (*b)[IntAttribute(c.node, "transB", 0) == 0];
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  return Complete(c);
}

// --- Einsum ---

namespace {

struct EinsumTerm {
  std::string before;  // the ellipsis
  std::string after;
  bool ellipsis = false;

  size_t letters() const { return before.size() + after.size(); }
};

std::optional<EinsumTerm> ParseTerm(absl::string_view text) {
  EinsumTerm term;
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (letter == '.') {
      if (term.ellipsis || text.substr(i, 3) != "...") return std::nullopt;
      term.ellipsis = true;
      i += 2;
    } else if ((letter >= 'a' && letter <= 'z') ||
               (letter >= 'A' && letter <= 'Z')) {
      (term.ellipsis ? term.after : term.before).push_back(letter);
    } else {
      return std::nullopt;
    }
  }
  return term;
}

// Letters and what is known of their dims.
class EinsumDims {
 public:
  // False if the operand does not fit.
  bool Bind(const EinsumTerm& term, const Shape& shape) {
    const size_t letters = term.letters();
    if (shape.size() < letters || (!term.ellipsis && shape.size() != letters)) {
      return false;
    }
    const size_t dots = shape.size() - letters;
    for (size_t i = 0; i < term.before.size(); ++i) {
      if (!BindLetter(term.before[i], shape[i])) return false;
    }
    for (size_t i = 0; i < term.after.size(); ++i) {
      const OptDim& dim = shape[term.before.size() + dots + i];
      if (!BindLetter(term.after[i], dim)) return false;
    }
    const auto begin =
        shape.begin() + static_cast<ptrdiff_t>(term.before.size());
    auto merged = Broadcast(ellipsis_,
                            Shape(begin, begin + static_cast<ptrdiff_t>(dots)));
    if (!merged) return false;
    ellipsis_ = *std::move(merged);
    return true;
  }

  // Without "->": the ellipsis, then the letters that occur once, sorted.
  EinsumTerm ImplicitResult() const {
    EinsumTerm term;
    term.ellipsis = true;
    for (size_t i = 0; i < kLetters; ++i) {
      if (count_[i] == 1) term.after.push_back(static_cast<char>(i));
    }
    return term;
  }

  std::optional<Shape> Result(const EinsumTerm& term) const {
    Shape result;
    std::array<bool, kLetters> used = {};
    const auto append = [&](absl::string_view letters) {
      for (const char letter : letters) {
        const size_t i = IndexOf(letter);
        if (count_[i] == 0 || used[i]) return false;
        used[i] = true;
        result.push_back(dims_[i]);
      }
      return true;
    };
    if (!append(term.before)) return std::nullopt;
    if (term.ellipsis) result.append(ellipsis_.begin(), ellipsis_.end());
    if (!append(term.after)) return std::nullopt;
    return result;
  }

 private:
  static constexpr size_t kLetters = 128;

  static size_t IndexOf(char letter) {
    return static_cast<unsigned char>(letter);
  }

  bool BindLetter(char letter, const OptDim& dim) {
    const size_t i = IndexOf(letter);
    if (count_[i]++ == 0) {
      dims_[i] = dim;
      return true;
    }
    // A dim of 1 is broadcast, as in numpy.
    const auto merged = Broadcast(Shape{dims_[i]}, Shape{dim});
    if (!merged) return false;
    dims_[i] = (*merged)[0];
    return true;
  }

  std::array<OptDim, kLetters> dims_;
  std::array<size_t, kLetters> count_ = {};
  Shape ellipsis_;
};

std::optional<Shape> EinsumShape(const ShapeContext& c) {
  std::string equation = StringAttribute(c.node, "equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '),
                 equation.end());
  absl::string_view inputs = equation;
  std::optional<EinsumTerm> result;
  const size_t arrow = inputs.find("->");
  if (arrow != absl::string_view::npos) {
    result = ParseTerm(inputs.substr(arrow + 2));
    if (!result) return std::nullopt;
    inputs = inputs.substr(0, arrow);
  }
  EinsumDims dims;
  for (size_t i = 0; i < c.operand_types.size(); ++i) {
    const size_t comma = inputs.find(',');
    const bool last = i + 1 == c.operand_types.size();
    if (last != (comma == absl::string_view::npos)) return std::nullopt;
    const std::optional<EinsumTerm> term = ParseTerm(inputs.substr(0, comma));
    const Shape* shape = c.shape(i);
    if (!term || shape == nullptr || !dims.Bind(*term, *shape)) {
      return std::nullopt;
    }
    if (!last) inputs = inputs.substr(comma + 1);
  }
  return dims.Result(result ? *result : dims.ImplicitResult());
}

}  // namespace

bool Einsum(ShapeContext& c) {
  SetResult(c, 0, ElementOf(c, 0), EinsumShape(c));
  return Complete(c);
}

}  // namespace onnx_memopt::ir::shape_rules
