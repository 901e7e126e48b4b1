// Normalisation: independent along every axis that no mean, variance or maximum
// is taken over.
#include <algorithm>
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

// Whole groups of channels: num_groups counts those of the part. Scale and bias
// have an element for each channel, before opset 21 for each group.
bool SplitGroups(const ShapeContext& c, int64_t groups, SplitWay& way) {
  if (groups < 1 || !way.extent.is_constant()) return false;
  const int64_t each = way.extent.constant() / groups;
  if (each < 1 || each * groups != way.extent.constant()) return false;
  const bool per_group = IsOnnxBefore(c.node, 21);
  for (size_t i = 1; i < way.operands.size(); ++i) {
    const Shape* shape = c.shape(i);
    const Dim length = per_group ? Dim(groups) : way.extent;
    if (shape == nullptr || shape->size() != 1 || (*shape)[0] != length) {
      return false;
    }
    way.operands[i] = {.axis = 0, .den = Dim(per_group ? each : 1)};
  }
  way.grain = Dim(each);
  way.attributes.push_back({.name = "num_groups", .den = each});
  return true;
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

Ways InstanceNormalization(const ShapeContext& c) {
  Ways kept;
  for (SplitWay& way : SameAxes(c, [](size_t a) { return a < 2; })) {
    const bool channels = way.result_axes[0] == 1;
    if (!channels ||
        (SplitOperand(c, way, 1, 0) && SplitOperand(c, way, 2, 0))) {
      kept.push_back(std::move(way));
    }
  }
  return kept;
}

Ways GroupNormalization(const ShapeContext& c) {
  Ways kept;
  const int64_t groups = IntAttribute(c.node, "num_groups", 0);
  for (SplitWay& way : SameAxes(c, [](size_t a) { return a < 2; })) {
    if (way.result_axes[0] == 1 && !SplitGroups(c, groups, way)) continue;
    kept.push_back(std::move(way));
  }
  return kept;
}

Ways ChannelsLastGroupNorm(const ShapeContext& c) {
  return SameAxes(c, [](size_t a) { return a == 0; });
}

Ways BatchNormalization(const ShapeContext& c) {
  // Statistics of a batch are results in training.
  for (size_t i = 1; i < c.node.results.size(); ++i) {
    if (HasResult(c, i)) return {};
  }
  if (IsOnnxBefore(c.node, 7) && IntAttribute(c.node, "is_test", 0) == 0) {
    return {};
  }
  if (IntAttribute(c.node, "training_mode", 0) != 0 ||
      IntAttribute(c.node, "spatial", 1) != 1) {
    return {};
  }
  Ways kept;
  for (SplitWay& way : SameAxes(c, [](size_t) { return true; })) {
    bool all = true;
    for (size_t i = 1; way.result_axes[0] == 1 && i < 5; ++i) {
      all = all && SplitOperand(c, way, i, 0);
    }
    if (all) kept.push_back(std::move(way));
  }
  return kept;
}

Ways LocalResponse(const ShapeContext& c) {
  return SameAxes(c, [](size_t a) { return a != 1; });
}

Ways MeanVarianceNormalization(const ShapeContext& c) {
  const std::vector<int64_t>* listed = IntsAttribute(c.node, "axes");
  const auto axes =
      NormalizeAxes(listed != nullptr ? *listed : std::vector<int64_t>{0, 2, 3},
                    RankOf(c, 0));
  if (!axes) return {};
  return SameAxes(c, [&](size_t a) {
    return std::find(axes->begin(), axes->end(), a) == axes->end();
  });
}

Ways SkipLayerNormalization(const ShapeContext& c) {
  const size_t rank = RankOf(c, 0);
  return WithBroadcast(c, SameAxes(c, [&](size_t a) { return a + 1 < rank; }),
                       1, c.operand_types.size());
}

}  // namespace onnx_memopt::ir::flow_rules
