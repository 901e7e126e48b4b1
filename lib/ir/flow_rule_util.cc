#include "ir/flow_rule_util.h"

#include <utility>

namespace onnx_memopt::ir::flow_rules {

const Shape* ResultShape(const ShapeContext& c, size_t i) {
  if (!HasResult(c, i) || i >= c.result_types.size()) return nullptr;
  const Type& type = c.result_types[i];
  return type.is_tensor() && type.shape ? &*type.shape : nullptr;
}

bool HasResult(const ShapeContext& c, size_t i) {
  return i < c.node.results.size() && c.node.results[i] != kNoValue;
}

bool IsOne(const OptDim& dim) { return dim && *dim == Dim(1); }

bool SameExtent(const OptDim& a, const OptDim& b) { return a && b && *a == *b; }

SplitWay NewWay(const ShapeContext& c, const Dim& extent) {
  SplitWay way;
  way.result_axes.assign(c.node.results.size(), -1);
  way.operands.resize(c.operand_types.size());
  way.extent = extent;
  return way;
}

std::optional<SplitWay> WayAlong(const ShapeContext& c, size_t axis) {
  const Shape* shape = ResultShape(c, 0);
  if (shape == nullptr || axis >= shape->size() || !(*shape)[axis]) {
    return std::nullopt;
  }
  SplitWay way = NewWay(c, *(*shape)[axis]);
  way.result_axes[0] = static_cast<int>(axis);
  return way;
}

std::optional<SplitWay> WayOver(const ShapeContext& c, const OptDim& extent,
                                Combine combine) {
  if (!extent) return std::nullopt;
  SplitWay way = NewWay(c, *extent);
  way.combine = combine;
  return way;
}

bool SplitOperand(const ShapeContext& c, SplitWay& way, size_t i, size_t axis) {
  const Shape* shape = c.shape(i);
  if (shape == nullptr || axis >= shape->size() ||
      !SameExtent((*shape)[axis], way.extent)) {
    return false;
  }
  way.operands[i].axis = static_cast<int>(axis);
  return true;
}

bool SplitResult(const ShapeContext& c, SplitWay& way, size_t i, size_t axis) {
  if (!HasResult(c, i)) return true;
  const Shape* shape = ResultShape(c, i);
  if (shape == nullptr || axis >= shape->size() ||
      !SameExtent((*shape)[axis], way.extent)) {
    return false;
  }
  way.result_axes[i] = static_cast<int>(axis);
  return true;
}

bool BroadcastOperand(const ShapeContext& c, SplitWay& way, size_t i,
                      size_t rank, size_t axis) {
  const Shape* shape = c.shape(i);
  if (shape == nullptr || shape->size() > rank) return false;
  const size_t missing = rank - shape->size();
  if (axis < missing || IsOne((*shape)[axis - missing])) return true;
  return SplitOperand(c, way, i, axis - missing);
}

Ways SameAxes(const ShapeContext& c,
              llvm::function_ref<bool(size_t)> independent) {
  Ways ways;
  const Shape* result = ResultShape(c, 0);
  const Shape* operand = c.shape(0);
  if (result == nullptr || operand == nullptr ||
      operand->size() != result->size()) {
    return ways;
  }
  for (size_t axis = 0; axis < result->size(); ++axis) {
    if (!independent(axis)) continue;
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (!way || !SplitOperand(c, *way, 0, axis)) continue;
    bool all = true;
    for (size_t i = 1; i < c.node.results.size(); ++i) {
      all = all && SplitResult(c, *way, i, axis);
    }
    if (all) ways.push_back(*std::move(way));
  }
  return ways;
}

std::optional<size_t> AxisOf(const ShapeContext& c, int64_t default_axis,
                             size_t rank) {
  return NormalizeAxis(IntAttribute(c.node, "axis", default_axis), rank);
}

}  // namespace onnx_memopt::ir::flow_rules
