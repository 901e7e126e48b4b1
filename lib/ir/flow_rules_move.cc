// Ops that repeat, join, cut or pad: independent along the axes that they leave
// alone.
#include <utility>

#include "ir/flow_rule_util.h"

namespace onnx_memopt::ir::flow_rules {
namespace {

bool IsConstant(const OptDim& dim, int64_t value) {
  return dim && *dim == Dim(value);
}

// The elements of a list that is an attribute in older opsets.
std::optional<std::vector<OptDim>> ElementsOf(const ShapeContext& c,
                                              absl::string_view attribute,
                                              size_t operand) {
  if (const std::vector<int64_t>* listed = IntsAttribute(c.node, attribute)) {
    return std::vector<OptDim>(listed->begin(), listed->end());
  }
  if (!HasOperand(c, operand)) return std::nullopt;
  return shape_rules::DimsOf(c, operand);
}

// What a Slice or a Pad does to each axis: the position of each axis in its
// lists, kNotListed if it is not in them. nullopt if that is not known.
constexpr size_t kNotListed = static_cast<size_t>(-1);
std::optional<std::vector<size_t>> ListedAxes(const ShapeContext& c,
                                              size_t operand, size_t rank,
                                              size_t num_listed) {
  std::vector<size_t> positions(rank, kNotListed);
  const IntList axes = ListOf(c, "axes", operand);
  if (!axes.given) {
    if (num_listed > rank) return std::nullopt;
    for (size_t i = 0; i < num_listed; ++i) positions[i] = i;
    return positions;
  }
  if (!axes.values || axes.values->size() != num_listed) return std::nullopt;
  const auto normalized = NormalizeAxes(*axes.values, rank);
  if (!normalized) return std::nullopt;
  for (size_t i = 0; i < num_listed; ++i) positions[(*normalized)[i]] = i;
  return positions;
}

}  // namespace

Ways Expand(const ShapeContext& c) {
  Ways ways;
  const Shape* x = c.shape(0);
  const Shape* result = ResultShape(c, 0);
  const auto target = shape_rules::DimsOf(c, 1);
  if (x == nullptr || result == nullptr || !target ||
      target->size() > result->size() || x->size() > result->size()) {
    return ways;
  }
  const size_t unnamed = result->size() - target->size();
  for (size_t axis = 0; axis < result->size(); ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (!way || !BroadcastOperand(c, *way, 0, result->size(), axis)) continue;
    const bool is_split = way->operands[0].axis >= 0;
    if (axis >= unnamed &&
        !(is_split && IsConstant((*target)[axis - unnamed], 1))) {
      way->edits.push_back(
          {.operand = 1, .element = static_cast<int>(axis - unnamed)});
    }
    ways.push_back(*std::move(way));
  }
  return ways;
}

Ways Tile(const ShapeContext& c) {
  Ways ways;
  const Shape* x = c.shape(0);
  const Shape* result = ResultShape(c, 0);
  if (x == nullptr || result == nullptr || x->size() != result->size() ||
      IsOnnxBefore(c.node, 6)) {
    return ways;
  }
  const auto repeats = shape_rules::DimsOf(c, 1);
  if (!repeats || repeats->size() != x->size()) return ways;
  for (size_t axis = 0; axis < x->size(); ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (!way) continue;
    if (IsOne((*repeats)[axis])) {
      if (!SplitOperand(c, *way, 0, axis)) continue;
    } else if (IsOne((*x)[axis])) {
      way->edits.push_back({.operand = 1, .element = static_cast<int>(axis)});
    } else {
      continue;
    }
    ways.push_back(*std::move(way));
  }
  return ways;
}

Ways Concat(const ShapeContext& c) {
  const Shape* result = ResultShape(c, 0);
  if (result == nullptr) return {};
  // The axis had a default once.
  const std::optional<size_t> axis = AxisOf(c, 1, result->size());
  if (!axis) return {};
  Ways kept;
  for (SplitWay& way : SameAxes(c, [&](size_t a) { return a != *axis; })) {
    const auto a = static_cast<size_t>(way.result_axes[0]);
    bool all = true;
    for (size_t i = 1; i < c.operand_types.size(); ++i) {
      all = all && SplitOperand(c, way, i, a);
    }
    if (all) kept.push_back(std::move(way));
  }
  return kept;
}

Ways Split(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  const std::optional<size_t> axis =
      x == nullptr ? std::nullopt : AxisOf(c, 0, x->size());
  if (!axis) return {};
  return SameAxes(c, [&](size_t a) { return a != *axis; });
}

Ways Slice(const ShapeContext& c) {
  Ways ways;
  const Shape* x = c.shape(0);
  const Shape* result = ResultShape(c, 0);
  const auto starts = ElementsOf(c, "starts", 1);
  const auto ends = ElementsOf(c, "ends", 2);
  if (x == nullptr || result == nullptr || x->size() != result->size() ||
      !starts || !ends || starts->size() != ends->size()) {
    return ways;
  }
  const auto positions = ListedAxes(c, 3, x->size(), starts->size());
  std::vector<OptDim> steps(starts->size(), Dim(1));
  if (HasOperand(c, 4)) {
    const auto listed = shape_rules::DimsOf(c, 4);
    if (!listed || listed->size() != steps.size()) return ways;
    steps = *listed;
  }
  if (!positions) return ways;
  for (size_t axis = 0; axis < x->size(); ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (!way) continue;
    const size_t i = (*positions)[axis];
    if (i == kNotListed) {
      if (SplitOperand(c, *way, 0, axis)) ways.push_back(*std::move(way));
      continue;
    }
    // The first elements, all or some: an end behind a part is its end.
    const OptDim& end = (*ends)[i];
    if (IsConstant((*starts)[i], 0) && IsOne(steps[i]) && end &&
        KnownAtLeastFromZero(*end, 0) && (*x)[axis]) {
      way->operands[0].axis = static_cast<int>(axis);
      ways.push_back(*std::move(way));
    }
  }
  return ways;
}

Ways Pad(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  if (x == nullptr) return {};
  const auto pads =
      ElementsOf(c, IsOnnxBefore(c.node, 2) ? "paddings" : "pads", 1);
  if (!pads || pads->size() % 2 != 0) return {};
  const size_t n = pads->size() / 2;
  const auto positions = ListedAxes(c, 3, x->size(), n);
  if (!positions) return {};
  return SameAxes(c, [&](size_t axis) {
    const size_t i = (*positions)[axis];
    return i == kNotListed ||
           (IsConstant((*pads)[i], 0) && IsConstant((*pads)[n + i], 0));
  });
}

Ways Trilu(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  if (x == nullptr) return {};
  return SameAxes(c, [&](size_t axis) { return axis + 2 < x->size(); });
}

Ways DepthToSpace(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  const Shape* result = ResultShape(c, 0);
  const int64_t block = IntAttribute(c.node, "blocksize", 0);
  if (x == nullptr || result == nullptr || x->size() != 4 ||
      result->size() != 4 || block < 1 || block > INT32_MAX) {
    return {};
  }
  const bool to_space = c.node.op_type == "DepthToSpace";
  // In mode CRD the output channel is the outermost part of the input's.
  const bool channels =
      to_space && StringAttribute(c.node, "mode", "DCR") == "CRD";
  Ways ways;
  for (size_t axis = 0; axis < 4; ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (!way || !(*x)[axis] || (axis == 1 && !channels)) continue;
    OperandFlow& flow = way->operands[0];
    flow.axis = static_cast<int>(axis);
    if (axis == 1) flow.num = Dim(block * block);
    if (axis >= 2) (to_space ? flow.den : flow.num) = Dim(block);
    way->grain = flow.den;
    // What the result would be: a file may claim another one.
    const OptDim scaled = shape_rules::Times(way->extent, flow.num);
    if (SameExtent(scaled, shape_rules::Times((*x)[axis], flow.den))) {
      ways.push_back(*std::move(way));
    }
  }
  return ways;
}

}  // namespace onnx_memopt::ir::flow_rules
