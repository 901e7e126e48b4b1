// Gradients of matrix products.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grad/rule_list.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad::rules {
namespace {

Emitter::Attributes GemmAttributes(bool trans_a, bool trans_b, float alpha) {
  return {Attr("alpha", alpha), Attr("transA", int64_t{trans_a}),
          Attr("transB", int64_t{trans_b})};
}

ValueId Product(Emitter& e, ValueId a, bool trans_a, ValueId b, bool trans_b,
                float alpha = 1) {
  return e.Op("Gemm", {a, b}, GemmAttributes(trans_a, trans_b, alpha));
}

bool HasConstantLast(const ir::Shape& shape) {
  return shape.back() && shape.back()->is_constant() &&
         shape.back()->constant() > 0;
}

}  // namespace

absl::Status MatMul(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank_a, c.Rank(0));
  ASSIGN_OR_RETURN(const size_t rank_b, c.Rank(1));
  // Vectors become a row and a column.
  const auto as_matrix = [&](size_t i) {
    const ValueId value = c.x(i);
    if (i == 0 && rank_a == 1) return e.Unsqueeze(value, {0});
    if (i == 1 && rank_b == 1) return e.Unsqueeze(value, {1});
    return value;
  };
  ValueId dy = c.dy();
  if (rank_a == 1 && rank_b == 1) {
    dy = e.Unsqueeze(dy, {0, 1});
  } else if (rank_b == 1) {
    dy = e.Unsqueeze(dy, {-1});
  } else if (rank_a == 1) {
    dy = e.Unsqueeze(dy, {-2});
  }
  const bool matrices = rank_a <= 2 && rank_b <= 2;
  if (c.wants(0)) {
    const ValueId b = as_matrix(1);
    ValueId da = matrices ? Product(e, dy, false, b, true)
                          : e.MatMul(dy, e.SwapLastAxes(b));
    if (rank_a == 1) {
      const ir::Shape* shape = e.shape(da);
      const size_t extra = shape == nullptr ? 0 : shape->size() - 2;
      Emitter::Axes axes;
      for (size_t i = 0; i <= extra; ++i) axes.push_back(static_cast<int>(i));
      da = e.ReduceSum(da, axes, /*keep_dims=*/false);
    }
    RETURN_IF_ERROR(c.GiveBroadcast(0, da));
  }
  if (!c.wants(1)) return absl::OkStatus();
  const ValueId a = as_matrix(0);
  ValueId db;
  if (matrices) {
    db = Product(e, a, true, dy, false);
  } else if (rank_b == 2 && HasConstantLast(*c.x_shape(0)) &&
             HasConstantLast(*c.x_shape(1))) {
    // All rows of all batches at once: no product a batch, and no sum.
    const int64_t inner = c.x_shape(0)->back()->constant();
    const int64_t columns = c.x_shape(1)->back()->constant();
    db = Product(e, e.Reshape(a, Emitter::Axes{-1, inner}), true,
                 e.Reshape(dy, Emitter::Axes{-1, columns}), false);
  } else {
    db = e.MatMul(e.SwapLastAxes(a), dy);
  }
  if (rank_b != 1) return c.GiveBroadcast(1, db);
  // [batches..., k, 1], summed over the batches.
  const ir::Shape* shape = e.shape(db);
  const size_t extra = shape == nullptr ? 0 : shape->size() - 2;
  Emitter::Axes axes;
  for (size_t i = 0; i < extra; ++i) axes.push_back(static_cast<int>(i));
  axes.push_back(static_cast<int>(extra) + 1);
  return c.Give(1, e.ReduceSum(db, axes, /*keep_dims=*/false));
}

absl::Status Gemm(RuleContext& c) {
  Emitter& e = c.e();
  const bool ta = c.Int("transA", 0) != 0;
  const bool tb = c.Int("transB", 0) != 0;
  const float alpha = c.Float("alpha", 1);
  const float beta = c.Float("beta", 1);
  if (c.wants(0)) {
    // A' = dY B'^T; transposed where A is.
    RETURN_IF_ERROR(
        c.Give(0, ta ? Product(e, c.x(1), tb, c.dy(), true, alpha)
                     : Product(e, c.dy(), false, c.x(1), !tb, alpha)));
  }
  if (c.wants(1)) {
    RETURN_IF_ERROR(
        c.Give(1, tb ? Product(e, c.dy(), true, c.x(0), ta, alpha)
                     : Product(e, c.x(0), !ta, c.dy(), false, alpha)));
  }
  if (!c.wants(2)) return absl::OkStatus();
  const ValueId sum = SumToShapeOf(e, c.dy(), c.x_id(2));
  return c.Give(2, beta == 1 ? sum : e.Mul(sum, beta));
}

absl::Status Einsum(RuleContext& c) {
  Emitter& e = c.e();
  std::string equation = c.String("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '),
                 equation.end());
  const size_t arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find('.') != std::string::npos) {
    return c.Error(
        "the gradient of an equation without \"->\" or with an ellipsis is not "
        "known");
  }
  const std::string output = equation.substr(arrow + 2);
  std::vector<std::string> terms = {""};
  for (const char letter : equation.substr(0, arrow)) {
    if (letter == ',') {
      terms.emplace_back();
    } else {
      terms.back() += letter;
    }
  }
  if (terms.size() != c.num_operands()) {
    return c.Error("the equation has another number of terms than operands");
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    if (!c.wants(i)) continue;
    std::string equation_of_gradient = output;
    std::vector<ValueId> operands = {c.dy()};
    std::string available = output;
    for (size_t j = 0; j < terms.size(); ++j) {
      if (j == i) continue;
      equation_of_gradient += "," + terms[j];
      available += terms[j];
      operands.push_back(c.x(j));
    }
    std::string kept;
    Emitter::Axes missing;
    for (size_t axis = 0; axis < terms[i].size(); ++axis) {
      const char letter = terms[i][axis];
      if (std::count(terms[i].begin(), terms[i].end(), letter) > 1) {
        return c.Error(
            "the gradient of an equation that takes a diagonal is not known");
      }
      if (available.find(letter) == std::string::npos) {
        missing.push_back(static_cast<int>(axis));  // was summed over alone
      } else {
        kept += letter;
      }
    }
    const ValueId part = e.Op(
        "Einsum", operands,
        {Attr("equation", absl::StrCat(equation_of_gradient, "->", kept))});
    const ValueId whole = e.Unsqueeze(part, missing);
    RETURN_IF_ERROR(c.Give(
        i, missing.empty() ? whole : e.Expand(whole, e.ShapeOf(c.x_id(i)))));
  }
  return absl::OkStatus();
}

}  // namespace onnx_memopt::grad::rules
