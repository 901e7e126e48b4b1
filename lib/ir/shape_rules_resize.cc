// Resize and Upsample. The factors or sizes were attributes, then moved from
// operand to operand:
//
//   Upsample 1       attributes height_scale, width_scale (images only)
//   Upsample 7       attribute scales
//   Upsample 9, Resize 10    operand 1: scales
//   Resize 11        operand 2: scales, operand 3: sizes, one of them empty
//   Resize 18        and attributes axes, keep_aspect_ratio_policy
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ir/resize_scales.h"
#include "ir/shape_rule_util.h"

namespace onnx_memopt::ir::shape_rules {
namespace {

// Sizes of any tensor that fits memory are exact as doubles below this.
constexpr double kMaxResized = 1e15;

// floor(size * scale). Some read the formula in float, as ONNX Runtime does,
// some in double; where the two disagree the size is left open.
OptDim Scaled(const OptDim& size, const std::optional<double>& scale) {
  if (!size || !scale || !(*scale > 0)) return std::nullopt;
  if (*scale == 1) return size;
  if (size->is_constant()) {
    const auto value = static_cast<double>(size->constant());
    const double in_double = std::floor(value * *scale);
    const float in_float =
        std::floor(static_cast<float>(value) * static_cast<float>(*scale));
    if (!(in_double < kMaxResized) || in_double < 0 ||
        in_double != static_cast<double>(in_float)) {
      return std::nullopt;
    }
    return Dim(static_cast<int64_t>(in_double));
  }
  // A symbolic size is followed through factors like 2, 0.5 or 0.375 only:
  // these are exact.
  double numerator = *scale;
  int64_t denominator = 1;
  while (denominator < 1024 && std::trunc(numerator) != numerator) {
    numerator *= 2;
    denominator *= 2;
  }
  if (std::trunc(numerator) != numerator || numerator > 1e6) {
    return std::nullopt;
  }
  return Floored(Times(size, Dim(static_cast<int64_t>(numerator))),
                 Dim(denominator));
}

}  // namespace

Scales FindScales(const ShapeContext& c, size_t rank) {
  std::vector<std::optional<double>> scales;
  if (const std::vector<float>* listed = FloatsAttribute(c.node, "scales")) {
    for (const float scale : *listed) {
      scales.emplace_back(static_cast<double>(scale));
    }
    return scales;
  }
  if (HasAttribute(c.node, "height_scale") && rank == 4) {
    return {{1.0, 1.0,
             static_cast<double>(FloatAttribute(c.node, "height_scale", 0)),
             static_cast<double>(FloatAttribute(c.node, "width_scale", 0))}};
  }
  const bool second = c.node.op_type == "Upsample" || IsOnnxBefore(c.node, 11);
  const size_t operand = second ? 1 : 2;
  const Contents* contents = ContentsOf(c, operand);
  if (contents == nullptr) return std::nullopt;
  for (const Element& element : contents->elements) {
    scales.push_back(element.real);
  }
  return scales;
}

namespace {

// Sizes that keep the aspect ratio: one factor for all axes.
void KeepAspectRatio(const Shape& input, const std::vector<size_t>& axes,
                     bool not_larger, std::vector<OptDim>* sizes) {
  double factor = not_larger ? std::numeric_limits<double>::max()
                             : std::numeric_limits<double>::lowest();
  for (size_t i = 0; i < axes.size(); ++i) {
    const OptDim& from = input[axes[i]];
    const OptDim& to = (*sizes)[i];
    if (!from || !to || !from->is_constant() || !to->is_constant() ||
        from->constant() <= 0) {
      std::fill(sizes->begin(), sizes->end(), std::nullopt);
      return;
    }
    const double ratio = static_cast<double>(to->constant()) /
                         static_cast<double>(from->constant());
    factor = not_larger ? std::min(factor, ratio) : std::max(factor, ratio);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const double size =
        std::round(factor * static_cast<double>(input[axes[i]]->constant()));
    (*sizes)[i] = size >= 0 && size < kMaxResized
                      ? OptDim(Dim(static_cast<int64_t>(size)))
                      : std::nullopt;
  }
}

}  // namespace

bool IsEmptyList(const ShapeContext& c, size_t operand) {
  const Shape* shape = c.shape(operand);
  return shape != nullptr && shape->size() == 1 && (*shape)[0] == Dim(0);
}

bool Resize(ShapeContext& c) {
  const ElementType type = ElementOf(c, 0);
  SetResult(c, 0, type, std::nullopt);
  const Shape* input = c.shape(0);
  if (input == nullptr) return false;
  std::vector<size_t> axes;
  if (const std::vector<int64_t>* listed = IntsAttribute(c.node, "axes")) {
    const auto normalized = NormalizeAxes(*listed, input->size());
    if (!normalized) return false;
    axes = *normalized;
  } else {
    for (size_t i = 0; i < input->size(); ++i) axes.push_back(i);
  }
  std::vector<OptDim> sizes(axes.size());
  const bool by_size =
      c.node.op_type == "Resize" && HasOperand(c, 3) && !IsEmptyList(c, 3);
  if (by_size) {
    if (const auto listed = DimsOf(c, 3)) {
      if (listed->size() != axes.size()) return false;
      sizes = *listed;
    }
    const std::string policy =
        StringAttribute(c.node, "keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch") {
      KeepAspectRatio(*input, axes, policy == "not_larger", &sizes);
    }
  } else if (StringAttribute(c.node, "coordinate_transformation_mode", "") !=
             "tf_crop_and_resize") {
    // That mode scales a region, which an operand gives.
    if (const Scales scales = FindScales(c, input->size())) {
      if (scales->size() != axes.size()) return false;
      for (size_t i = 0; i < axes.size(); ++i) {
        sizes[i] = Scaled((*input)[axes[i]], (*scales)[i]);
      }
    }
  }
  Shape result = *input;
  for (size_t i = 0; i < axes.size(); ++i) result[axes[i]] = sizes[i];
  SetResult(c, 0, type, std::move(result));
  return Complete(c);
}

}  // namespace onnx_memopt::ir::shape_rules
