#include "grad/window_rule.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

std::optional<Numbers> Spatial(const ir::Shape* shape, size_t axes) {
  if (shape == nullptr || shape->size() != axes + 2) return std::nullopt;
  Numbers extents;
  for (size_t i = 0; i < axes; ++i) {
    const std::optional<ir::Dim>& dim = (*shape)[i + 2];
    if (!dim || !dim->is_constant()) return std::nullopt;
    extents.push_back(dim->constant());
  }
  return extents;
}

Numbers Joined(const Numbers& a, const Numbers& b) {
  Numbers both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

Emitter::Attributes ConvAttributes(const Numbers& strides,
                                   const Numbers& dilations,
                                   const Numbers& pads, int64_t group) {
  return {Attr("strides", strides), Attr("dilations", dilations),
          Attr("pads", pads), Attr("group", group)};
}

bool AllOnes(const Numbers& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](int64_t n) { return n == 1; });
}
bool AllZero(const Numbers& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](int64_t n) { return n == 0; });
}

// Whether the weight of a pointwise convolution is much larger than an image:
// then a product for each image takes more than it is worth.
bool IsSmallImage(const Numbers& extents, int64_t outputs, int64_t inputs) {
  double pixels = 1;
  for (const int64_t extent : extents) pixels *= static_cast<double>(extent);
  const auto m = static_cast<double>(outputs);
  const auto c = static_cast<double>(inputs);
  return m * c > 2 * pixels * (m + c);
}

}  // namespace

absl::StatusOr<WindowRule> WindowRule::Of(const RuleContext& c, Numbers kernel,
                                          const ir::Shape* wide,
                                          const ir::Shape* narrow) {
  WindowRule w;
  w.kernel = std::move(kernel);
  const size_t n = w.axes();
  w.wide = Spatial(wide, n);
  w.narrow = Spatial(narrow, n);
  const auto list = [&](absl::string_view name, size_t size,
                        int64_t fallback) -> absl::StatusOr<Numbers> {
    const Numbers* given = c.Ints(name);
    if (given == nullptr) return Numbers(size, fallback);
    if (given->size() != size) {
      return c.Error(absl::StrCat("attribute ", name, " has ", given->size(),
                                  " numbers, not ", size));
    }
    return *given;
  };
  ASSIGN_OR_RETURN(w.strides, list("strides", n, 1));
  ASSIGN_OR_RETURN(w.dilations, list("dilations", n, 1));
  ASSIGN_OR_RETURN(const Numbers pads, list("pads", 2 * n, 0));
  for (const Numbers* numbers : {&w.strides, &w.dilations, &w.kernel}) {
    if (std::any_of(numbers->begin(), numbers->end(),
                    [](int64_t x) { return x < 1; })) {
      return c.Error("a stride, dilation or kernel extent is not positive");
    }
  }
  const std::string auto_pad = c.String("auto_pad", "NOTSET");
  w.pads_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(n));
  w.pads_end.assign(pads.begin() + static_cast<int64_t>(n), pads.end());
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    if (!w.wide || !w.narrow) {
      return c.Error(
          "with auto_pad its gradient needs the spatial extents in numbers");
    }
    for (size_t i = 0; i < n; ++i) {
      const int64_t reach = w.dilations[i] * (w.kernel[i] - 1) + 1;
      const int64_t total = std::max<int64_t>(
          0, ((*w.narrow)[i] - 1) * w.strides[i] + reach - (*w.wide)[i]);
      const int64_t half = total / 2;
      w.pads_begin[i] = auto_pad == "SAME_UPPER" ? half : total - half;
      w.pads_end[i] = total - w.pads_begin[i];
    }
  } else if (auto_pad == "VALID") {
    w.pads_begin.assign(n, 0);
    w.pads_end.assign(n, 0);
  }
  return w;
}

absl::StatusOr<ValueId> FromWindows(RuleContext& c, const WindowRule& w,
                                    ValueId narrow, ValueId weight,
                                    int64_t group) {
  Emitter& e = c.e();
  const size_t n = w.axes();
  Numbers pads_end = w.pads_end;
  Numbers output_padding(n, 0);
  if (w.wide && w.narrow) {
    for (size_t i = 0; i < n; ++i) {
      // What the windows cover; what lies beyond the last one is no part of it,
      // and with ceil_mode it reaches further than the padding.
      const int64_t covered = ((*w.narrow)[i] - 1) * w.strides[i] +
                              w.dilations[i] * (w.kernel[i] - 1) + 1;
      const int64_t excess = covered - w.pads_begin[i] - (*w.wide)[i];
      pads_end[i] = std::max<int64_t>(excess, 0);
      output_padding[i] = std::max<int64_t>(-excess, 0);
    }
  } else if (!AllOnes(w.strides)) {
    return c.Error(
        "with a stride its gradient needs the spatial extents in numbers; give "
        "sizes with --dim");
  }
  // Beyond a stride it is more than runtimes add; the rest is zeros.
  Numbers rest(n, 0);
  for (size_t i = 0; i < n; ++i) {
    const int64_t most = std::max(w.strides[i], w.dilations[i]) - 1;
    rest[i] = std::max<int64_t>(output_padding[i] - most, 0);
    output_padding[i] -= rest[i];
  }
  Emitter::Attributes attributes = ConvAttributes(
      w.strides, w.dilations, Joined(w.pads_begin, pads_end), group);
  if (!AllZero(output_padding)) {
    attributes.push_back(Attr("output_padding", output_padding));
  }
  ValueId wide = e.Op("ConvTranspose", {narrow, weight}, std::move(attributes));
  if (!AllZero(rest)) {
    Numbers pads(2 * (n + 2), 0);
    std::copy(rest.begin(), rest.end(),
              pads.begin() + static_cast<int64_t>(n + 4));
    wide = e.Pad(wide, pads);
  }
  return wide;
}

absl::StatusOr<ValueId> WeightGradient(RuleContext& c, const WindowRule& w,
                                       ValueId wide, ValueId narrow,
                                       ValueId weight_like, int64_t group) {
  Emitter& e = c.e();
  const size_t n = w.axes();
  const ir::Shape* shape = e.shape(weight_like);
  if (shape == nullptr || shape->size() != n + 2 || !(*shape)[0] ||
      !(*shape)[0]->is_constant() || !(*shape)[1] ||
      !(*shape)[1]->is_constant()) {
    return c.Error("its gradient needs the weight's shape in numbers");
  }
  const int64_t outputs = (*shape)[0]->constant();
  const int64_t inputs = (*shape)[1]->constant();  // of one group
  const bool pointwise = AllOnes(w.kernel) && AllOnes(w.strides) &&
                         AllZero(w.pads_begin) && AllZero(w.pads_end);
  if (pointwise && group == 1) {
    const ValueId x =
        e.Transpose(e.Reshape(wide, Numbers{0, inputs, -1}), {0, 2, 1});
    const ValueId dy = e.Reshape(narrow, Numbers{0, outputs, -1});
    if (w.wide && IsSmallImage(*w.wide, outputs, inputs)) {
      // One product of all pixels of all images.
      const ValueId rows =
          e.Reshape(e.Transpose(dy, {0, 2, 1}), Numbers{-1, outputs});
      return e.ReshapeLike(
          e.Op("Gemm", {rows, e.Reshape(x, Numbers{-1, inputs})},
               {Attr("transA", int64_t{1})}),
          weight_like);
    }
    // One product an image, summed.
    const ValueId sum = e.ReduceSum(e.MatMul(dy, x), {0}, /*keep_dims=*/false);
    return e.ReshapeLike(sum, weight_like);
  }
  // A convolution over the batch: channels become the batch, the batch becomes
  // the channels, and the result's gradient is the kernel. Strides and
  // dilations change places.
  Numbers swap = {1, 0};
  for (size_t i = 0; i < n; ++i) swap.push_back(static_cast<int>(i) + 2);
  ValueId image;
  ValueId kernel;
  if (group == 1) {
    image = e.Transpose(wide, swap);
    kernel = e.Transpose(narrow, swap);
  } else {
    // Groups stay channels: [n, g, c, ...] -> [c, g * n, ...], and the kernel
    // [n, g * m, ...] -> [g * m, n, ...].
    if (!w.wide) {
      return c.Error(
          "with groups its gradient needs the spatial extents in numbers");
    }
    const ir::Shape* wide_shape = e.shape(wide);
    const std::optional<ir::Dim>& batch = (*wide_shape)[0];
    if (!batch || !batch->is_constant()) {
      return c.Error(
          "with groups its gradient needs the batch size in numbers; give it "
          "with --dim");
    }
    const int64_t images = batch->constant();
    Numbers split = {images, group, inputs};
    Numbers perm = {2, 1, 0};
    Numbers joined = {inputs, group * images};
    for (size_t i = 0; i < n; ++i) {
      split.push_back((*w.wide)[i]);
      perm.push_back(static_cast<int>(i) + 3);
      joined.push_back((*w.wide)[i]);
    }
    image = e.Reshape(e.Transpose(e.Reshape(wide, split), perm), joined);
    kernel = e.Transpose(narrow, swap);
  }
  ValueId result =
      e.Op("Conv", {image, kernel},
           ConvAttributes(w.dilations, w.strides,
                          Joined(w.pads_begin, w.pads_end), group));
  // [c, m, kernel...]; larger than the kernel where the last windows end short
  // of the image.
  bool exact = w.wide.has_value() && w.narrow.has_value();
  for (size_t i = 0; exact && i < n; ++i) {
    const int64_t extent = (*w.wide)[i] + w.pads_begin[i] + w.pads_end[i];
    const int64_t reach = ((*w.narrow)[i] - 1) * w.strides[i] + 1;
    exact = (extent - reach) / w.dilations[i] + 1 == w.kernel[i];
  }
  if (!exact) {
    Numbers axes;
    for (size_t i = 0; i < n; ++i) axes.push_back(static_cast<int>(i) + 2);
    result = e.Slice(result, axes, Numbers(n, 0), w.kernel);
  }
  return e.Transpose(result, swap);
}

}  // namespace onnx_memopt::grad
