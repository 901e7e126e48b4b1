// Reductions, arg-reductions, running sums and TopK: independent along the axes
// that stay; a reduced axis can be contracted where the op allows it.
#include <utility>

#include "ir/flow_rule_util.h"

namespace onnx_memopt::ir::flow_rules {
namespace {

// Which axes are reduced; nullopt if that is not known.
std::optional<std::vector<bool>> ReducedAxes(const ShapeContext& c,
                                             size_t rank) {
  const IntList axes = ListOf(c, "axes", 1);
  if (!axes.given || axes.size == 0) {
    const bool none = IntAttribute(c.node, "noop_with_empty_axes", 0) != 0;
    return std::vector<bool>(rank, !none);
  }
  if (!axes.values) return std::nullopt;
  const auto normalized = NormalizeAxes(*axes.values, rank);
  if (!normalized) return std::nullopt;
  std::vector<bool> reduced(rank, false);
  for (const size_t axis : *normalized) reduced[axis] = true;
  return reduced;
}

// How the reductions of parts become that of the whole; kNone: they do not.
Combine CombineOf(const ShapeContext& c) {
  const std::string& op = c.node.op_type;
  if (op == "ReduceSum" || op == "ReduceL1" || op == "ReduceSumSquare") {
    return Combine::kSum;
  }
  if (op == "ReduceMax") return Combine::kMax;
  if (op == "ReduceMin") return Combine::kMin;
  if (op == "ReduceProd") return Combine::kProd;
  // The mean of integers is rounded.
  const bool is_float = shape_rules::IsFloat(shape_rules::ElementOf(c, 0));
  if (op == "ReduceMean" && is_float) return Combine::kMean;
  return Combine::kNone;
}

// Ways along the axes that are not reduced.
Ways KeptAxes(const ShapeContext& c, const std::vector<bool>& reduced) {
  Ways ways;
  const bool keeps = IntAttribute(c.node, "keepdims", 1) != 0;
  size_t result_axis = 0;
  for (size_t axis = 0; axis < reduced.size(); ++axis) {
    if (!reduced[axis]) {
      std::optional<SplitWay> way = WayAlong(c, result_axis);
      if (way && SplitOperand(c, *way, 0, axis)) {
        ways.push_back(*std::move(way));
      }
    }
    if (!reduced[axis] || keeps) ++result_axis;
  }
  return ways;
}

}  // namespace

Ways Reduce(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  if (x == nullptr) return {};
  const auto reduced = ReducedAxes(c, x->size());
  if (!reduced) return {};
  Ways ways = KeptAxes(c, *reduced);
  const Combine combine = CombineOf(c);
  for (size_t axis = 0; axis < reduced->size(); ++axis) {
    if (!(*reduced)[axis] || combine == Combine::kNone) continue;
    std::optional<SplitWay> way = WayOver(c, (*x)[axis], combine);
    if (way && SplitOperand(c, *way, 0, axis)) ways.push_back(*std::move(way));
  }
  return ways;
}

Ways ArgReduce(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  if (x == nullptr) return {};
  const std::optional<size_t> axis = AxisOf(c, 0, x->size());
  if (!axis) return {};
  std::vector<bool> reduced(x->size(), false);
  reduced[*axis] = true;
  return KeptAxes(c, reduced);
}

Ways OtherAxes(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  if (x == nullptr) return {};
  const std::optional<size_t> axis = AxisOf(c, -1, x->size());
  if (!axis) return {};
  return SameAxes(c, [&](size_t a) { return a != *axis; });
}

Ways CumSum(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  const auto operand = shape_rules::ScalarOf(c, 1);
  if (x == nullptr || !operand) return {};
  const auto number = shape_rules::AsConstant(*operand);
  const auto axis = number ? NormalizeAxis(*number, x->size()) : std::nullopt;
  if (!axis) return {};
  return SameAxes(c, [&](size_t a) { return a != *axis; });
}

Ways GlobalPool(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  if (x == nullptr) return {};
  Ways ways = SameAxes(c, [](size_t a) { return a < 2; });
  Combine combine = Combine::kNone;
  if (c.node.op_type == "GlobalAveragePool") combine = Combine::kMean;
  if (c.node.op_type == "GlobalMaxPool") combine = Combine::kMax;
  for (size_t axis = 2; axis < x->size(); ++axis) {
    if (combine == Combine::kNone) continue;
    std::optional<SplitWay> way = WayOver(c, (*x)[axis], combine);
    if (way && SplitOperand(c, *way, 0, axis)) ways.push_back(*std::move(way));
  }
  return ways;
}

}  // namespace onnx_memopt::ir::flow_rules
