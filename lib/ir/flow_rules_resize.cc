// Resize and Upsample: an axis that is not scaled is independent; one that is
// enlarged by a whole number s is windowed. In it, result s * i + j lies at
// i + f(j) of the operand, so the window is that of one period j = 0 ... s - 1.
#include <algorithm>
#include <string>
#include <utility>

#include "ir/flow_rule_util.h"
#include "ir/resize_scales.h"

namespace onnx_memopt::ir::flow_rules {
namespace {

// Beyond this, positions in float are not exact.
constexpr int64_t kMaxScale = 1024;

int64_t FloorOf(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

struct Mode {
  bool linear = false;
  bool half_pixel = false;  // else asymmetric
  std::string nearest;      // nearest_mode
};

// nullopt: positions depend on the size of the whole, or are not modelled.
std::optional<Mode> ModeOf(const ShapeContext& c) {
  Mode mode;
  const std::string kind = StringAttribute(c.node, "mode", "nearest");
  mode.linear = kind == "linear" || kind == "bilinear";
  if (!mode.linear && kind != "nearest") return std::nullopt;
  if (c.node.op_type == "Upsample" || IsOnnxBefore(c.node, 11)) {
    mode.nearest = "floor";
    return mode;
  }
  if (IntAttribute(c.node, "antialias", 0) != 0) return std::nullopt;
  const std::string position =
      StringAttribute(c.node, "coordinate_transformation_mode", "half_pixel");
  mode.half_pixel = position == "half_pixel" ||
                    position == "pytorch_half_pixel" ||
                    position == "half_pixel_symmetric";
  if (!mode.half_pixel && position != "asymmetric") return std::nullopt;
  mode.nearest = StringAttribute(c.node, "nearest_mode", "round_prefer_floor");
  return mode;
}

// The elements that result s * i + j reads lie in [i - before, i + 1 + after).
struct Halo {
  int64_t before = 0;
  int64_t after = 0;
};

std::optional<Halo> HaloOf(const Mode& mode, int64_t scale) {
  Halo halo;
  const int64_t unit = 2 * scale;
  for (int64_t j = 0; j < scale; ++j) {
    const int64_t position = mode.half_pixel ? 2 * j + 1 - scale : 2 * j;
    int64_t first = FloorOf(position, unit);
    int64_t last = first;
    if (mode.linear) {
      last = -FloorOf(-position, unit);
    } else if (mode.nearest == "ceil") {
      first = last = -FloorOf(-position, unit);
    } else if (mode.nearest == "round_prefer_floor") {
      first = last = -FloorOf(-(position - scale), unit);
    } else if (mode.nearest == "round_prefer_ceil") {
      first = last = FloorOf(position + scale, unit);
    } else if (mode.nearest != "floor") {
      return std::nullopt;
    }
    halo.before = std::max(halo.before, -first);
    halo.after = std::max(halo.after, last);
  }
  return halo;
}

// The factor of axis `axis`, number `position` of those that are resized; 0 if
// it is not a known whole number.
int64_t ScaleOf(const ShapeContext& c, bool by_size, size_t axis,
                size_t position) {
  const OptDim& from = (*c.shape(0))[axis];
  const OptDim& to = (*ResultShape(c, 0))[axis];
  if (!from || !to) return 0;
  double scale = 0;
  if (by_size) {
    const OptDim ratio = DivideExact(*to, *from);
    if (!ratio || !ratio->is_constant()) return 0;
    scale = static_cast<double>(ratio->constant());
  } else {
    const shape_rules::Scales scales =
        shape_rules::FindScales(c, c.shape(0)->size());
    if (!scales || position >= scales->size() || !(*scales)[position]) return 0;
    scale = *(*scales)[position];
  }
  if (!(scale >= 1) || scale > static_cast<double>(kMaxScale)) return 0;
  const auto whole = static_cast<int64_t>(scale);
  const bool exact = static_cast<double>(whole) == scale &&
                     SameExtent(to, shape_rules::Times(from, Dim(whole)));
  return exact ? whole : 0;
}

}  // namespace

Ways Resize(const ShapeContext& c) {
  Ways ways;
  const Shape* x = c.shape(0);
  const Shape* result = ResultShape(c, 0);
  if (x == nullptr || result == nullptr || x->size() != result->size() ||
      StringAttribute(c.node, "coordinate_transformation_mode", "") ==
          "tf_crop_and_resize") {
    return ways;
  }
  const bool by_size = c.node.op_type == "Resize" && HasOperand(c, 3) &&
                       !shape_rules::IsEmptyList(c, 3);
  if (by_size && StringAttribute(c.node, "keep_aspect_ratio_policy",
                                 "stretch") != "stretch") {
    return ways;
  }
  std::vector<size_t> axes;
  if (const std::vector<int64_t>* listed = IntsAttribute(c.node, "axes")) {
    const auto normalized = NormalizeAxes(*listed, x->size());
    if (!normalized) return ways;
    axes = *normalized;
  } else {
    for (size_t i = 0; i < x->size(); ++i) axes.push_back(i);
  }
  const std::optional<Mode> mode = ModeOf(c);
  for (size_t axis = 0; axis < x->size(); ++axis) {
    std::optional<SplitWay> way = WayAlong(c, axis);
    if (!way) continue;
    const auto listed = std::find(axes.begin(), axes.end(), axis);
    const auto position = static_cast<size_t>(listed - axes.begin());
    const int64_t scale =
        listed == axes.end() ? 1 : ScaleOf(c, by_size, axis, position);
    // Batch and channels, if they are not scaled, are copied in every mode.
    if (scale == 0 || (!mode && (axis >= 2 || scale != 1))) continue;
    way->operands[0] = {.axis = static_cast<int>(axis), .den = Dim(scale)};
    if (scale == 1 && !SplitOperand(c, *way, 0, axis)) continue;
    if (scale != 1) {
      const std::optional<Halo> halo = HaloOf(*mode, scale);
      if (!halo) continue;
      way->operands[0].before = halo->before;
      way->operands[0].after = halo->after;
      way->grain = Dim(scale);
      way->windowed = halo->before != 0 || halo->after != 0;
    }
    if (by_size && listed != axes.end()) {
      way->edits.push_back(
          {.operand = 3, .element = static_cast<int>(position)});
    }
    ways.push_back(*std::move(way));
  }
  return ways;
}

}  // namespace onnx_memopt::ir::flow_rules
