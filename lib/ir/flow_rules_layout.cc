// Ops that give the same elements another order or another shape.
//
// A Reshape keeps the order of the elements. Extents of operand and result are
// matched from the left, in the smallest groups of equal products:
//
//   operand  [ batch, seq | 768     ]
//   result   [ batch*seq  | 12 , 64 ]
//
// A range of the outermost axis of a group is a range of the group's elements,
// so the outermost axes of both sides flow into each other; the inner ones
// would be many small pieces. Here, result axis 0 in steps of seq is operand
// axis 0, and result axis 1 is operand axis 2 in steps of 64.
#include <numeric>
#include <utility>

#include "ir/flow_rule_util.h"

namespace onnx_memopt::ir::flow_rules {
namespace {

// Outermost axes of a group. [lo, hi) of the result's is [lo*num/den,
// hi*num/den) of the operand's; lo and hi are multiples of den.
struct OuterAxes {
  size_t operand_axis = 0;
  size_t result_axis = 0;
  Dim num{1};
  Dim den{1};
};

// One side of a group.
class Side {
 public:
  explicit Side(const Shape& shape) : shape_(shape) {}

  // Begins a group at the next axis that is not of extent 1; false at the end,
  // or where the extent is unknown.
  bool Begin() {
    while (next_ < shape_.size() && IsOne(shape_[next_])) ++next_;
    if (next_ == shape_.size() || !shape_[next_]) return false;
    first_ = next_++;
    product_ = *shape_[first_];
    inner_ = Dim(1);
    return true;
  }
  bool Extend() {
    if (next_ == shape_.size() || !shape_[next_]) return false;
    const std::optional<Dim> product = Mul(product_, *shape_[next_]);
    const std::optional<Dim> inner = Mul(inner_, *shape_[next_]);
    if (!product || !inner) return false;
    ++next_;
    product_ = *product;
    inner_ = *inner;
    return true;
  }

  size_t first() const { return first_; }
  const Dim& product() const { return product_; }
  // Of all but the first axis.
  const Dim& inner() const { return inner_; }

 private:
  const Shape& shape_;
  size_t next_ = 0;
  size_t first_ = 0;
  Dim product_;
  Dim inner_;
};

// Extends the smaller side until both products are equal.
bool CompleteGroup(Side* operand, Side* result) {
  while (operand->product() != result->product()) {
    const Dim& a = operand->product();
    const Dim& b = result->product();
    bool operand_is_smaller = false;
    if (a.is_constant() && b.is_constant()) {
      operand_is_smaller = a.constant() < b.constant();
    } else if (DivideExact(b, a)) {
      operand_is_smaller = true;
    } else if (!DivideExact(a, b)) {
      return false;
    }
    if (!(operand_is_smaller ? operand : result)->Extend()) return false;
  }
  return true;
}

// numerator / denominator in lowest terms; false where it is not known.
bool SetRatio(const Dim& numerator, const Dim& denominator, OuterAxes* axes) {
  if (numerator.is_constant() && denominator.is_constant()) {
    if (numerator.constant() < 1 || denominator.constant() < 1) return false;
    const int64_t common =
        std::gcd(numerator.constant(), denominator.constant());
    axes->num = Dim(numerator.constant() / common);
    axes->den = Dim(denominator.constant() / common);
    return true;
  }
  if (const std::optional<Dim> num = DivideExact(numerator, denominator)) {
    axes->num = *num;
    return true;
  }
  if (const std::optional<Dim> den = DivideExact(denominator, numerator)) {
    axes->den = *den;
    return true;
  }
  return false;
}

std::vector<OuterAxes> MatchGroups(const Shape& operand, const Shape& result) {
  std::vector<OuterAxes> matched;
  Side from(operand);
  Side to(result);
  while (from.Begin() && to.Begin() && CompleteGroup(&from, &to)) {
    OuterAxes axes{.operand_axis = from.first(), .result_axis = to.first()};
    if (SetRatio(to.inner(), from.inner(), &axes)) matched.push_back(axes);
  }
  return matched;
}

Ways GroupWays(const ShapeContext& c) {
  Ways ways;
  const Shape* operand = c.shape(0);
  const Shape* result = ResultShape(c, 0);
  if (operand == nullptr || result == nullptr) return ways;
  for (const OuterAxes& axes : MatchGroups(*operand, *result)) {
    std::optional<SplitWay> way = WayAlong(c, axes.result_axis);
    if (!way) continue;
    way->operands[0].axis = static_cast<int>(axes.operand_axis);
    way->operands[0].num = axes.num;
    way->operands[0].den = axes.den;
    way->grain = axes.den;
    ways.push_back(*std::move(way));
  }
  return ways;
}

// Makes the target shape of a Reshape that of a part; false if the target
// cannot be made to.
bool EditTarget(const ShapeContext& c, SplitWay* way) {
  const int result_axis = way->result_axes[0];
  const bool same_axis = way->operands[0].axis == result_axis;
  const auto index = static_cast<size_t>(result_axis);
  std::vector<OptDim> target(ResultShape(c, 0)->size());
  const bool is_attribute = IsOnnxBefore(c.node, 5);
  if (is_attribute) {
    const std::vector<int64_t>* shape = IntsAttribute(c.node, "shape");
    if (shape == nullptr) return false;
    target.assign(shape->begin(), shape->end());
  } else if (const Contents* contents = ContentsOf(c, 1)) {
    target.clear();
    for (const Element& element : contents->elements) {
      target.push_back(shape_rules::AsInteger(element));
    }
  }
  if (target.size() != ResultShape(c, 0)->size()) return false;
  const bool allow_zero = IntAttribute(c.node, "allowzero", 0) != 0;
  const auto copies = [&](size_t i) {
    return !allow_zero && (!target[i] || *target[i] == Dim(0));
  };
  // An element that copies the extent of the operand's split axis would copy
  // that of its part.
  const auto operand_axis = static_cast<size_t>(way->operands[0].axis);
  if (!same_axis && operand_axis < target.size() && copies(operand_axis)) {
    return false;
  }
  const OptDim& element = target[index];
  if (element && *element == Dim(-1)) return true;
  const bool unscaled =
      way->operands[0].num == Dim(1) && way->operands[0].den == Dim(1);
  if (element && copies(index) && same_axis && unscaled) return true;
  if (is_attribute) {
    way->attributes.push_back({.name = "shape", .element = result_axis});
  } else {
    way->edits.push_back({.operand = 1, .element = result_axis});
  }
  return true;
}

}  // namespace

Ways Transpose(const ShapeContext& c) {
  Ways ways;
  const Shape* operand = c.shape(0);
  const Shape* result = ResultShape(c, 0);
  if (operand == nullptr || result == nullptr ||
      operand->size() != result->size()) {
    return ways;
  }
  std::vector<size_t> permutation(operand->size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    permutation[i] = permutation.size() - 1 - i;
  }
  if (const std::vector<int64_t>* perm = IntsAttribute(c.node, "perm")) {
    const auto normalized = NormalizeAxes(*perm, operand->size());
    if (!normalized || normalized->size() != operand->size()) return ways;
    permutation = *normalized;
  }
  for (size_t axis = 0; axis < permutation.size(); ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (way && SplitOperand(c, *way, 0, permutation[axis])) {
      ways.push_back(*std::move(way));
    }
  }
  return ways;
}

Ways Reshape(const ShapeContext& c) {
  Ways kept;
  for (SplitWay& way : GroupWays(c)) {
    if (EditTarget(c, &way)) kept.push_back(std::move(way));
  }
  return kept;
}

Ways Flatten(const ShapeContext& c) {
  // A Squeeze without axes also drops the axis of a part of extent 1.
  if (c.node.op_type == "Squeeze" && !ListOf(c, "axes", 1).given) return {};
  return GroupWays(c);
}

}  // namespace onnx_memopt::ir::flow_rules
