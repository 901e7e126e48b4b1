// Ops that compute each element of a result from the elements at the same place
// of their operands.
#include <utility>

#include "ir/flow_rule_util.h"

namespace onnx_memopt::ir::flow_rules {
namespace {

// Before opset 7 an attribute could align the second operand with any axis.
bool HasLegacyBroadcast(const ShapeContext& c) {
  return IsOnnxBefore(c.node, 7) && HasAttribute(c.node, "axis");
}

// Is operand i a bool that is known to be false, or left out?
bool IsFalse(const ShapeContext& c, size_t i) {
  if (!HasOperand(c, i)) return true;
  const auto value = shape_rules::ScalarOf(c, i);
  return value && shape_rules::AsConstant(*value) == 0;
}

}  // namespace

Ways Elementwise(const ShapeContext& c) {
  Ways ways;
  const Shape* result = ResultShape(c, 0);
  if (result == nullptr || HasLegacyBroadcast(c)) return ways;
  for (size_t axis = 0; axis < result->size(); ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (!way) continue;
    bool all = true;
    for (size_t i = 0; i < c.operand_types.size(); ++i) {
      all = all && (!HasOperand(c, i) ||
                    BroadcastOperand(c, *way, i, result->size(), axis));
    }
    if (all) ways.push_back(*std::move(way));
  }
  return ways;
}

Ways CastLike(const ShapeContext& c) {
  return SameAxes(c, [](size_t) { return true; });
}

Ways Dropout(const ShapeContext& c) {
  // Without training it copies; training is the default before opset 7, then
  // never, and an operand since opset 12.
  if (IsOnnxBefore(c.node, 7) && IntAttribute(c.node, "is_test", 0) == 0) {
    return {};
  }
  if (!IsFalse(c, 2)) return {};
  return SameAxes(c, [](size_t) { return true; });
}

Ways QuantizeLinear(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  const Shape* scale = c.shape(1);
  if (x == nullptr || scale == nullptr) return {};
  Ways ways = SameAxes(c, [](size_t) { return true; });
  if (scale->empty() || (scale->size() == 1 && IsOne((*scale)[0]))) {
    return ways;  // one scale for all; a zero point has the scale's shape
  }
  const std::optional<size_t> axis = AxisOf(c, 1, x->size());
  const int64_t block = IntAttribute(c.node, "block_size", 0);
  if (!axis || (block == 0 && scale->size() != 1) ||
      (block != 0 && scale->size() != x->size())) {
    return {};
  }
  Ways kept;
  for (SplitWay& way : ways) {
    const auto split = static_cast<size_t>(way.result_axes[0]);
    bool all = true;
    for (size_t i = 1; all && i < 3 && HasOperand(c, i); ++i) {
      if (block == 0) {
        if (split == *axis) all = SplitOperand(c, way, i, 0);
      } else if (split != *axis) {
        all = SplitOperand(c, way, i, split);
      } else {
        const Shape* shape = c.shape(i);
        all = block > 0 && shape != nullptr && split < shape->size() &&
              SameExtent((*shape)[split],
                         shape_rules::Ceiled(way.extent, Dim(block)));
        way.operands[i].axis = static_cast<int>(split);
        way.operands[i].den = Dim(block);
        way.grain = Dim(block);
      }
    }
    if (all) kept.push_back(std::move(way));
  }
  return kept;
}

}  // namespace onnx_memopt::ir::flow_rules
