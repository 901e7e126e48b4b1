// Normalisation: independent along every axis that no mean, variance or maximum
// is taken over.
#include <utility>

#include "ir/flow_rule_util.h"

namespace onnx_memopt::ir::flow_rules {
namespace {

size_t RankOf(const ShapeContext& c, size_t operand) {
  const Shape* shape = c.shape(operand);
  return shape == nullptr ? 0 : shape->size();
}

// The ways in which operands [begin, end) that are there are known to be
// broadcast to result 0.
Ways WithBroadcast(const ShapeContext& c, Ways ways, size_t begin, size_t end) {
  Ways kept;
  for (SplitWay& way : ways) {
    const auto axis = static_cast<size_t>(way.result_axes[0]);
    const size_t rank = ResultShape(c, 0)->size();
    bool all = true;
    for (size_t i = begin; i < end; ++i) {
      all =
          all && (!HasOperand(c, i) || BroadcastOperand(c, way, i, rank, axis));
    }
    if (all) kept.push_back(std::move(way));
  }
  return kept;
}

}  // namespace

Ways Softmax(const ShapeContext& c) {
  // Before opset 13, all axes from `axis` on were one.
  const bool flattens = IsOnnxBefore(c.node, 13);
  const size_t rank = RankOf(c, 0);
  const std::optional<size_t> axis = AxisOf(c, flattens ? 1 : -1, rank);
  if (!axis) return {};
  return SameAxes(
      c, [&](size_t a) { return a < *axis || (!flattens && a > *axis); });
}

Ways LayerNormalization(const ShapeContext& c) {
  const std::optional<size_t> axis = AxisOf(c, -1, RankOf(c, 0));
  if (!axis) return {};
  return WithBroadcast(c, SameAxes(c, [&](size_t a) { return a < *axis; }), 1,
                       c.operand_types.size());
}

}  // namespace onnx_memopt::ir::flow_rules
