// Matrix products: batches, rows and columns are independent, and the inner
// dimension is contracted.
#include <algorithm>
#include <utility>

#include "ir/flow_rule_util.h"

namespace onnx_memopt::ir::flow_rules {
namespace {

// A product of operands `a` and `b`. Ranks are at least 1; a vector has no rows
// (as `a`) or no columns (as `b`).
struct Product {
  size_t a = 0;
  size_t b = 1;
  bool transpose_a = false;
  bool transpose_b = false;
};

// Axes of the matrices, which are the last two of each operand.
size_t RowsAxis(const Product& p, size_t rank) {
  return p.transpose_a ? rank - 1 : rank - 2;
}
size_t ColumnsAxis(const Product& p, size_t rank) {
  return p.transpose_b ? rank - 2 : rank - 1;
}
size_t InnerAxisA(const Product& p, size_t rank) {
  if (rank == 1) return 0;
  return p.transpose_a ? rank - 2 : rank - 1;
}
size_t InnerAxisB(const Product& p, size_t rank) {
  if (rank == 1) return 0;
  return p.transpose_b ? rank - 1 : rank - 2;
}

// The operand's dims before its matrix are broadcast to the result's
// `num_batch` ones.
bool BroadcastBatch(const ShapeContext& c, SplitWay& way, size_t i,
                    size_t num_batch, size_t axis) {
  const size_t rank = c.shape(i)->size();
  const size_t own = rank > 2 ? rank - 2 : 0;
  if (own > num_batch) return false;
  const size_t missing = num_batch - own;
  if (axis < missing || IsOne((*c.shape(i))[axis - missing])) return true;
  return SplitOperand(c, way, i, axis - missing);
}

Ways WaysOf(const ShapeContext& c, const Product& p) {
  Ways ways;
  const Shape* a = c.shape(p.a);
  const Shape* b = c.shape(p.b);
  const Shape* result = ResultShape(c, 0);
  if (a == nullptr || b == nullptr || result == nullptr || a->empty() ||
      b->empty()) {
    return ways;
  }
  const size_t num_batch = std::max({a->size(), b->size(), size_t{2}}) - 2;
  const bool has_rows = a->size() > 1;
  const bool has_columns = b->size() > 1;
  if (result->size() !=
      num_batch + (has_rows ? 1u : 0u) + (has_columns ? 1u : 0u)) {
    return ways;
  }
  for (size_t axis = 0; axis < result->size(); ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (!way) continue;
    bool known = false;
    if (axis < num_batch) {
      known = BroadcastBatch(c, *way, p.a, num_batch, axis) &&
              BroadcastBatch(c, *way, p.b, num_batch, axis);
    } else if (axis == num_batch && has_rows) {
      known = SplitOperand(c, *way, p.a, RowsAxis(p, a->size()));
    } else {
      known = SplitOperand(c, *way, p.b, ColumnsAxis(p, b->size()));
    }
    if (known) ways.push_back(*std::move(way));
  }
  return ways;
}

void AddContraction(const ShapeContext& c, const Product& p, Ways* ways) {
  const Shape* a = c.shape(p.a);
  const Shape* b = c.shape(p.b);
  if (a == nullptr || b == nullptr || a->empty() || b->empty()) return;
  const size_t inner_a = InnerAxisA(p, a->size());
  std::optional<SplitWay> way = WayOver(c, (*a)[inner_a], Combine::kSum);
  if (way && SplitOperand(c, *way, p.a, inner_a) &&
      SplitOperand(c, *way, p.b, InnerAxisB(p, b->size()))) {
    ways->push_back(*std::move(way));
  }
}

}  // namespace

Ways MatMul(const ShapeContext& c) {
  Ways ways = WaysOf(c, {});
  AddContraction(c, {}, &ways);
  return ways;
}

namespace {

// Drops the ways that split the rows of `a` or the columns of `b` while operand
// i has one element for each of these, unless they can be split with it.
Ways WithQuantization(const ShapeContext& c, Ways ways, size_t i,
                      size_t matrix_operand, bool of_rows) {
  if (!HasOperand(c, i) || ways.empty()) return ways;
  const Shape* shape = c.shape(i);
  if (shape == nullptr || shape->size() > 1) return {};
  if (shape->empty() || IsOne((*shape)[0])) return ways;
  Ways kept;
  const auto rank = static_cast<int>(c.shape(matrix_operand)->size());
  for (SplitWay& way : ways) {
    const int axis = way.operands[matrix_operand].axis;
    const int own = of_rows ? rank - 2 : rank - 1;
    if (axis != own || SplitOperand(c, way, i, 0)) kept.push_back(way);
  }
  return kept;
}

}  // namespace

Ways MatMulInteger(const ShapeContext& c) {
  // a, b, a_zero_point, b_zero_point
  Ways ways = MatMul(c);
  ways = WithQuantization(c, std::move(ways), 2, 0, /*of_rows=*/true);
  return WithQuantization(c, std::move(ways), 3, 1, /*of_rows=*/false);
}

Ways QLinearMatMul(const ShapeContext& c) {
  // a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point
  Ways ways = WaysOf(c, {.a = 0, .b = 3});
  for (const size_t i : {1, 2}) {
    ways = WithQuantization(c, std::move(ways), i, 0, /*of_rows=*/true);
  }
  for (const size_t i : {4, 5}) {
    ways = WithQuantization(c, std::move(ways), i, 3, /*of_rows=*/false);
  }
  for (const size_t i : {6, 7}) {
    const Shape* shape = c.shape(i);
    if (shape == nullptr || shape->size() > 1 ||
        (shape->size() == 1 && !IsOne((*shape)[0]))) {
      return {};
    }
  }
  return ways;
}

Ways MatMulNBits(const ShapeContext& c) {
  // The weights are packed, so only the rows of the activation are split.
  const Shape* a = c.shape(0);
  const Shape* result = ResultShape(c, 0);
  // A group index and a bias belong to the weights.
  if (a == nullptr || result == nullptr || a->size() != result->size()) {
    return {};
  }
  Ways ways;
  for (size_t axis = 0; axis + 1 < a->size(); ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (way && SplitOperand(c, *way, 0, axis)) ways.push_back(*std::move(way));
  }
  return ways;
}

Ways BatchOfMatrices(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  if (x == nullptr || x->size() < 2) return {};
  const Shape* result = ResultShape(c, 0);
  if (result == nullptr) return {};
  Ways ways;
  for (size_t axis = 0; axis + 2 < x->size(); ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (way && SplitOperand(c, *way, 0, axis)) ways.push_back(*std::move(way));
  }
  return ways;
}

Ways FusedMatMul(const ShapeContext& c) {
  // These rotate the batch dims too, which no exporter asks for.
  if (IntAttribute(c.node, "transBatchA", 0) != 0 ||
      IntAttribute(c.node, "transBatchB", 0) != 0) {
    return {};
  }
  // A vector is not transposed.
  const auto transposed = [&c](absl::string_view name, size_t i) {
    const Shape* shape = c.shape(i);
    return shape != nullptr && shape->size() > 1 &&
           IntAttribute(c.node, name, 0) != 0;
  };
  const Product product{.transpose_a = transposed("transA", 0),
                        .transpose_b = transposed("transB", 1)};
  Ways ways = WaysOf(c, product);
  if (!HasAttribute(c.node, "activation")) AddContraction(c, product, &ways);
  return ways;
}

Ways Gemm(const ShapeContext& c) {
  const Shape* a = c.shape(0);
  const Shape* b = c.shape(1);
  if (a == nullptr || b == nullptr || a->size() != 2 || b->size() != 2) {
    return {};
  }
  const Product product{.transpose_a = IntAttribute(c.node, "transA", 0) != 0,
                        .transpose_b = IntAttribute(c.node, "transB", 0) != 0};
  Ways ways = WaysOf(c, product);
  const bool has_bias = HasOperand(c, 2);
  if (has_bias) {
    Ways kept;
    for (SplitWay& way : ways) {
      const auto axis = static_cast<size_t>(way.result_axes[0]);
      if (BroadcastOperand(c, way, 2, 2, axis)) kept.push_back(std::move(way));
    }
    ways = std::move(kept);
  }
  // Parts would each add the bias.
  const bool adds = has_bias && FloatAttribute(c.node, "beta", 1) != 0;
  if (!adds && !HasAttribute(c.node, "activation")) {
    AddContraction(c, product, &ways);
  }
  return ways;
}

}  // namespace onnx_memopt::ir::flow_rules
