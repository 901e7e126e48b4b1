// Ops that read or write elements at positions that an operand gives.
#include <utility>

#include "ir/flow_rule_util.h"

namespace onnx_memopt::ir::flow_rules {

Ways Gather(const ShapeContext& c) {
  Ways ways;
  const Shape* data = c.shape(0);
  const Shape* indices = c.shape(1);
  const Shape* result = ResultShape(c, 0);
  if (data == nullptr || indices == nullptr || result == nullptr) return ways;
  const std::optional<size_t> axis = AxisOf(c, 0, data->size());
  if (!axis || result->size() + 1 != data->size() + indices->size()) {
    return ways;
  }
  for (size_t a = 0; a < result->size(); ++a) {
    std::optional<SplitWay> way = WayAlong(c, a);
    if (!way) continue;
    bool known = false;
    if (a < *axis) {
      known = SplitOperand(c, *way, 0, a);
    } else if (a < *axis + indices->size()) {
      known = SplitOperand(c, *way, 1, a - *axis);
    } else {
      known = SplitOperand(c, *way, 0, a + 1 - indices->size());
    }
    if (known) ways.push_back(*std::move(way));
  }
  return ways;
}

Ways GatherElements(const ShapeContext& c) {
  Ways ways;
  const Shape* data = c.shape(0);
  const Shape* indices = c.shape(1);
  if (data == nullptr || indices == nullptr ||
      data->size() != indices->size()) {
    return ways;
  }
  const std::optional<size_t> axis = AxisOf(c, 0, data->size());
  if (!axis) return ways;
  for (size_t a = 0; a < data->size(); ++a) {
    std::optional<SplitWay> way = WayAlong(c, a);
    if (!way || !SplitOperand(c, *way, 1, a)) continue;
    if (a != *axis && !SplitOperand(c, *way, 0, a)) continue;
    ways.push_back(*std::move(way));
  }
  return ways;
}

Ways GatherNd(const ShapeContext& c) {
  Ways ways;
  const Shape* data = c.shape(0);
  const Shape* indices = c.shape(1);
  const Shape* result = ResultShape(c, 0);
  if (data == nullptr || indices == nullptr || result == nullptr ||
      indices->empty()) {
    return ways;
  }
  const int64_t batch_dims = IntAttribute(c.node, "batch_dims", 0);
  const OptDim& depth = indices->back();  // of one index
  const size_t index_axes = indices->size() - 1;
  if (!depth || !depth->is_constant() || depth->constant() < 0 ||
      batch_dims < 0 || batch_dims > static_cast<int64_t>(index_axes)) {
    return ways;
  }
  const auto batch = static_cast<size_t>(batch_dims);
  const auto taken = batch + static_cast<size_t>(depth->constant());
  if (taken > data->size() ||
      result->size() != index_axes + data->size() - taken) {
    return ways;
  }
  for (size_t a = 0; a < result->size(); ++a) {
    std::optional<SplitWay> way = WayAlong(c, a);
    if (!way) continue;
    bool known = true;
    if (a < index_axes) known = SplitOperand(c, *way, 1, a);
    if (a < batch) known = known && SplitOperand(c, *way, 0, a);
    if (a >= index_axes) {
      known = SplitOperand(c, *way, 0, taken + (a - index_axes));
    }
    if (known) ways.push_back(*std::move(way));
  }
  return ways;
}

Ways ScatterElements(const ShapeContext& c) {
  Ways kept;
  const Shape* data = c.shape(0);
  const std::optional<size_t> axis =
      data == nullptr ? std::nullopt : AxisOf(c, 0, data->size());
  if (!axis) return kept;
  for (SplitWay& way : SameAxes(c, [&](size_t a) { return a != *axis; })) {
    const auto a = static_cast<size_t>(way.result_axes[0]);
    if (SplitOperand(c, way, 1, a) && SplitOperand(c, way, 2, a)) {
      kept.push_back(std::move(way));
    }
  }
  return kept;
}

Ways ScatterNd(const ShapeContext& c) {
  Ways kept;
  const Shape* data = c.shape(0);
  const Shape* indices = c.shape(1);
  const Shape* updates = c.shape(2);
  if (data == nullptr || indices == nullptr || updates == nullptr ||
      indices->empty()) {
    return kept;
  }
  const OptDim& depth = indices->back();
  if (!depth || !depth->is_constant() || depth->constant() < 0 ||
      depth->constant() > static_cast<int64_t>(data->size())) {
    return kept;
  }
  // Axes of the data that no index addresses are the last ones of updates.
  const auto first = static_cast<size_t>(depth->constant());
  const size_t index_axes = indices->size() - 1;
  if (updates->size() != index_axes + data->size() - first) return kept;
  for (SplitWay& way : SameAxes(c, [&](size_t a) { return a >= first; })) {
    const auto a = static_cast<size_t>(way.result_axes[0]);
    if (SplitOperand(c, way, 2, index_axes + (a - first))) {
      kept.push_back(std::move(way));
    }
  }
  return kept;
}

Ways OneHot(const ShapeContext& c) {
  Ways ways;
  const Shape* indices = c.shape(0);
  const Shape* result = ResultShape(c, 0);
  if (indices == nullptr || result == nullptr ||
      result->size() != indices->size() + 1) {
    return ways;
  }
  const std::optional<size_t> axis = AxisOf(c, -1, result->size());
  if (!axis) return ways;
  for (size_t a = 0; a < result->size(); ++a) {
    if (a == *axis) continue;
    std::optional<SplitWay> way = WayAlong(c, a);
    if (way && SplitOperand(c, *way, 0, a < *axis ? a : a - 1)) {
      ways.push_back(*std::move(way));
    }
  }
  return ways;
}

Ways ReverseSequence(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  if (x == nullptr) return {};
  const auto time =
      NormalizeAxis(IntAttribute(c.node, "time_axis", 0), x->size());
  const auto batch =
      NormalizeAxis(IntAttribute(c.node, "batch_axis", 1), x->size());
  if (!time || !batch) return {};
  Ways kept;
  for (SplitWay& way : SameAxes(c, [&](size_t a) { return a != *time; })) {
    const bool is_batch = way.result_axes[0] == static_cast<int>(*batch);
    if (!is_batch || SplitOperand(c, way, 1, 0)) kept.push_back(std::move(way));
  }
  return kept;
}

Ways GridSample(const ShapeContext& c) {
  // x: [batch, channels, ...], grid: [batch, result's spatial axes..., 2 or 3]
  const Shape* x = c.shape(0);
  const Shape* grid = c.shape(1);
  const Shape* result = ResultShape(c, 0);
  if (x == nullptr || grid == nullptr || result == nullptr || x->size() < 3 ||
      grid->size() != x->size() || result->size() != x->size()) {
    return {};
  }
  Ways ways;
  for (size_t a = 0; a < result->size(); ++a) {
    std::optional<SplitWay> way = WayAlong(c, a);
    if (!way) continue;
    bool known = true;
    if (a < 2) known = SplitOperand(c, *way, 0, a);
    if (a != 1) known = known && SplitOperand(c, *way, 1, a == 0 ? 0 : a - 1);
    if (known) ways.push_back(*std::move(way));
  }
  return ways;
}

Ways RegionPool(const ShapeContext& c) {
  // x: [batch, channels, height, width], regions: [number, ...], and for
  // RoiAlign the batch entry of each region.
  const Shape* result = ResultShape(c, 0);
  if (result == nullptr || result->size() != 4) return {};
  Ways ways;
  std::optional<SplitWay> regions = WayAlong(c, 0);
  if (regions && SplitOperand(c, *regions, 1, 0) &&
      (!HasOperand(c, 2) || SplitOperand(c, *regions, 2, 0))) {
    ways.push_back(*std::move(regions));
  }
  std::optional<SplitWay> channels = WayAlong(c, 1);
  if (channels && SplitOperand(c, *channels, 0, 1)) {
    ways.push_back(*std::move(channels));
  }
  return ways;
}

}  // namespace onnx_memopt::ir::flow_rules
