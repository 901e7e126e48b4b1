// The gradient of Resize: along each axis it is a matrix of weights, which is
// made here and applied transposed. Where every element was repeated the same
// number of times, the sum of its copies is taken instead.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "grad/rule_list.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad::rules {
namespace {

// A bound on the constants that are made.
constexpr int64_t kMaxMatrixElements = 1 << 24;

struct AxisResize {
  int64_t in = 0;
  int64_t out = 0;
  float scale = 1;
};

struct Interpolation {
  std::string mode;
  std::string coordinates;
  std::string nearest;
  float cubic = -0.75F;
  bool exclude_outside = false;
};

// Where result element `at` lies in the operand. In float, as runtimes do it.
float Position(const AxisResize& r, const Interpolation& how, int64_t at) {
  const auto x = static_cast<float>(at);
  const float half_pixel = (x + 0.5F) / r.scale - 0.5F;
  if (how.coordinates == "asymmetric") return x / r.scale;
  if (how.coordinates == "align_corners") {
    return r.out == 1 ? 0
                      : x * static_cast<float>(r.in - 1) /
                            static_cast<float>(r.out - 1);
  }
  if (how.coordinates == "pytorch_half_pixel")
    return r.out > 1 ? half_pixel : 0;
  if (how.coordinates == "half_pixel_symmetric") {
    const float adjustment =
        static_cast<float>(r.out) / (r.scale * static_cast<float>(r.in));
    return static_cast<float>(r.in) / 2 * (1 - adjustment) + half_pixel;
  }
  return half_pixel;
}

int64_t Nearest(const Interpolation& how, float position) {
  const float floor = std::floor(position);
  const bool half = position - floor == 0.5F;
  if (how.nearest == "floor") return static_cast<int64_t>(floor);
  if (how.nearest == "ceil") return static_cast<int64_t>(std::ceil(position));
  if (half && how.nearest != "round_prefer_ceil") {
    return static_cast<int64_t>(floor);
  }
  return static_cast<int64_t>(std::floor(position + 0.5F));
}

// Weights of operand elements, one (position, weight) each.
std::vector<std::pair<int64_t, double>> Weights(const AxisResize& r,
                                                const Interpolation& how,
                                                int64_t at) {
  const float position = Position(r, how, at);
  if (how.mode == "nearest") return {{Nearest(how, position), 1}};
  const auto first = static_cast<int64_t>(std::floor(position));
  const double t = position - std::floor(position);
  if (how.mode == "linear") return {{first, 1 - t}, {first + 1, t}};
  const double a = how.cubic;
  const auto near = [a](double d) {
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  };
  const auto far = [a](double d) {
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  };
  std::vector<std::pair<int64_t, double>> weights = {{first - 1, far(1 + t)},
                                                     {first, near(t)},
                                                     {first + 1, near(1 - t)},
                                                     {first + 2, far(2 - t)}};
  if (how.exclude_outside) {
    double sum = 0;
    for (auto& [index, weight] : weights) {
      if (index < 0 || index >= r.in) weight = 0;
      sum += weight;
    }
    for (auto& [index, weight] : weights) weight /= sum;
  }
  return weights;
}

// [in, out]: how much of each result element comes from each operand element.
std::vector<double> Transposed(const AxisResize& r, const Interpolation& how) {
  std::vector<double> matrix(static_cast<size_t>(r.in * r.out), 0);
  for (int64_t at = 0; at < r.out; ++at) {
    for (const auto& [index, weight] : Weights(r, how, at)) {
      const int64_t row = std::clamp<int64_t>(index, 0, r.in - 1);
      matrix[static_cast<size_t>(row * r.out + at)] += weight;
    }
  }
  return matrix;
}

// Each element of the operand is repeated out / in times, in order.
bool IsRepetition(const AxisResize& r, const std::vector<double>& matrix) {
  if (r.in == 0 || r.out % r.in != 0) return false;
  const int64_t factor = r.out / r.in;
  for (int64_t i = 0; i < r.in; ++i) {
    for (int64_t o = 0; o < r.out; ++o) {
      const double expected = o / factor == i ? 1 : 0;
      if (matrix[static_cast<size_t>(i * r.out + o)] != expected) return false;
    }
  }
  return true;
}

absl::StatusOr<std::optional<std::vector<float>>> Scales(const RuleContext& c,
                                                         Emitter& e) {
  constexpr size_t kScales = 2;
  if (!c.has(kScales)) return std::optional<std::vector<float>>();
  const ir::Value& value = e.graph().value(c.x_id(kScales));
  if (value.type.shape && value.type.shape->size() == 1 &&
      (*value.type.shape)[0] == ir::Dim(0)) {
    return std::optional<std::vector<float>>();
  }
  std::vector<float> scales;
  if (value.contents != nullptr) {
    for (const ir::Element& element : value.contents->elements) {
      if (element.real) scales.push_back(static_cast<float>(*element.real));
    }
  }
  if (value.contents != nullptr &&
      scales.size() == value.contents->elements.size()) {
    return std::optional<std::vector<float>>(std::move(scales));
  }
  // Not read, or not known: they follow from the extents where these divide.
  ASSIGN_OR_RETURN(const Numbers in, c.StaticShape());
  ASSIGN_OR_RETURN(const Numbers out, c.StaticResultShape());
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] < 1 || out[i] < 1 ||
        (out[i] % in[i] != 0 && in[i] % out[i] != 0)) {
      return c.Error("its scales are not known before the run");
    }
  }
  return std::optional<std::vector<float>>();
}

}  // namespace

absl::Status Resize(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const Numbers in, c.StaticShape());
  ASSIGN_OR_RETURN(const Numbers out, c.StaticResultShape());
  const Interpolation how = {
      .mode = c.String("mode", "nearest"),
      .coordinates = c.String("coordinate_transformation_mode", "half_pixel"),
      .nearest = c.String("nearest_mode", "round_prefer_floor"),
      .cubic = c.Float("cubic_coeff_a", -0.75F),
      .exclude_outside = c.Int("exclude_outside", 0) != 0};
  if (c.Int("antialias", 0) != 0 || how.coordinates == "tf_crop_and_resize" ||
      c.String("keep_aspect_ratio_policy", "stretch") != "stretch") {
    return c.Error(
        "the gradient with antialias, tf_crop_and_resize or a policy that "
        "keeps the aspect ratio is not known");
  }
  ASSIGN_OR_RETURN(const std::optional<std::vector<float>> scales,
                   Scales(c, e));
  Numbers axes;
  if (const Numbers* given = c.Ints("axes")) {
    for (int64_t axis : *given) {
      ASSIGN_OR_RETURN(const int64_t positive, c.Axis(axis, in.size()));
      axes.push_back(positive);
    }
  } else {
    for (size_t i = 0; i < in.size(); ++i) {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (scales && scales->size() != axes.size()) {
    return c.Error("it has another number of scales than axes");
  }
  ValueId gradient = c.dy();
  Numbers shape = out;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto at = static_cast<size_t>(axes[i]);
    AxisResize r = {.in = in[at], .out = out[at]};
    r.scale = scales ? (*scales)[i]
                     : static_cast<float>(r.out) / static_cast<float>(r.in);
    if (r.in == r.out && r.scale == 1) continue;
    if (r.in < 1 || r.out < 1 || r.in > kMaxMatrixElements / r.out) {
      return c.Error("an axis is too long, or empty");
    }
    const std::vector<double> matrix = Transposed(r, how);
    Numbers view(shape.begin(), shape.begin() + axes[i]);
    if (IsRepetition(r, matrix)) {
      view.push_back(r.in);
      view.push_back(r.out / r.in);
      view.insert(view.end(), shape.begin() + axes[i] + 1, shape.end());
      gradient = e.ReduceSum(e.Reshape(gradient, view), {axes[i] + 1},
                             /*keep_dims=*/false);
      shape[at] = r.in;
      continue;
    }
    // [before, out, after], the axes after the resized one as one.
    int64_t after = 1;
    for (size_t k = at + 1; k < shape.size(); ++k) after *= shape[k];
    view.push_back(r.out);
    view.push_back(after);
    const ValueId weights =
        e.builder().Reals(ir::kMainBlock, "memopt/weights", c.x_type().element,
                          {r.in, r.out}, matrix);
    shape[at] = r.in;
    gradient = e.Reshape(e.MatMul(weights, e.Reshape(gradient, view)), shape);
  }
  return c.Give(0, gradient);
}

}  // namespace onnx_memopt::grad::rules
