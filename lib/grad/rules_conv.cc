// Gradients of convolutions and pools, and of local response normalization.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grad/rule_list.h"
#include "grad/scatter.h"
#include "grad/window_rule.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad::rules {
namespace {

// More elements than any real window has; a bound on hostile input.
constexpr int64_t kMaxKernelElements = 1 << 20;
constexpr int64_t kMaxCountElements = 1 << 22;

absl::StatusOr<Numbers> KernelOfWeight(RuleContext& c) {
  ASSIGN_OR_RETURN(const Numbers shape, c.StaticShape(1));
  if (shape.size() < 3) return c.Error("the weight has fewer than 3 dims");
  return Numbers(shape.begin() + 2, shape.end());
}

// Over the batch and all positions.
absl::Status GiveBias(RuleContext& c) {
  if (!c.wants(2)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  Emitter::Axes axes = {0};
  for (size_t i = 2; i < rank; ++i) axes.push_back(static_cast<int>(i));
  return c.Give(2, c.e().ReduceSum(c.dy(), axes, /*keep_dims=*/false));
}

int64_t Product(const Numbers& numbers) {
  int64_t product = 1;
  for (int64_t n : numbers) {
    if (__builtin_mul_overflow(product, n, &product)) return INT64_MAX;
  }
  return product;
}

// How many elements of the image (not of the padding) each window has.
absl::StatusOr<ValueId> WindowCounts(RuleContext& c, const WindowRule& w,
                                     bool count_padding) {
  const size_t n = w.axes();
  std::vector<std::vector<double>> per_axis(n);
  for (size_t i = 0; i < n; ++i) {
    const int64_t begin = count_padding ? -w.pads_begin[i] : 0;
    const int64_t end = (*w.wide)[i] + (count_padding ? w.pads_end[i] : 0);
    for (int64_t at = 0; at < (*w.narrow)[i]; ++at) {
      int64_t inside = 0;
      for (int64_t k = 0; k < w.kernel[i]; ++k) {
        const int64_t position =
            at * w.strides[i] - w.pads_begin[i] + k * w.dilations[i];
        if (position >= begin && position < end) ++inside;
      }
      per_axis[i].push_back(static_cast<double>(inside));
    }
  }
  const bool uniform =
      std::all_of(per_axis.begin(), per_axis.end(), [](const auto& counts) {
        return std::adjacent_find(counts.begin(), counts.end(),
                                  std::not_equal_to<>()) == counts.end();
      });
  std::vector<double> counts = {1};
  for (const std::vector<double>& axis : per_axis) {
    std::vector<double> outer;
    const size_t used =
        uniform ? std::min<size_t>(axis.size(), 1) : axis.size();
    for (double a : counts) {
      for (size_t k = 0; k < used; ++k) outer.push_back(a * axis[k]);
    }
    counts = std::move(outer);
  }
  const ir::ElementType element = c.x_type().element;
  if (uniform) return c.e().Real(counts.empty() ? 1 : counts[0], element);
  Numbers dims = {1, 1};
  dims.insert(dims.end(), w.narrow->begin(), w.narrow->end());
  return c.e().builder().Reals(ir::kMainBlock, "memopt/counts", element, dims,
                               counts);
}

absl::StatusOr<WindowRule> PoolWindows(RuleContext& c) {
  const Numbers* kernel = c.Ints("kernel_shape");
  if (kernel == nullptr) return c.Error("it has no kernel_shape");
  ASSIGN_OR_RETURN(WindowRule w,
                   WindowRule::Of(c, *kernel, c.x_shape(), c.y_shape()));
  if (!w.wide || !w.narrow) {
    return c.Error(
        "its gradient needs the spatial extents in numbers; give sizes with "
        "--dim");
  }
  if (Product(w.kernel) > kMaxKernelElements ||
      Product(*w.narrow) > kMaxCountElements) {
    return c.Error("its windows are too large");
  }
  return w;
}

// Without the first axes if windows are single elements there.
WindowRule DropPointwiseAxes(WindowRule w) {
  while (w.axes() > 1 && w.kernel[0] == 1 && w.strides[0] == 1 &&
         w.pads_begin[0] == 0 && w.pads_end[0] == 0) {
    for (Numbers* axes : {&w.kernel, &w.strides, &w.dilations, &w.pads_begin,
                          &w.pads_end, &*w.wide, &*w.narrow}) {
      axes->erase(axes->begin());
    }
  }
  return w;
}

// Each result's share, to all of its window.
absl::StatusOr<ValueId> ToWindows(RuleContext& c, const WindowRule& windows,
                                  ValueId share) {
  Emitter& e = c.e();
  const WindowRule w = DropPointwiseAxes(windows);
  // Channels are images of their own, so that one small kernel of ones does.
  Numbers single = {-1, 1};
  single.insert(single.end(), w.narrow->begin(), w.narrow->end());
  share = e.Reshape(share, single);
  Numbers dims = {1, 1};
  dims.insert(dims.end(), w.kernel.begin(), w.kernel.end());
  const std::vector<double> ones(static_cast<size_t>(Product(w.kernel)), 1.0);
  const ValueId weight = e.builder().Reals(ir::kMainBlock, "memopt/ones",
                                           c.x_type().element, dims, ones);
  ASSIGN_OR_RETURN(const ValueId wide, FromWindows(c, w, share, weight, 1));
  return e.Reshape(wide, e.ShapeOf(c.x_id()));
}

// sign(x) |x|^(p - 1), the slope of |x|^p over p.
ValueId SlopeOfPower(Emitter& e, ValueId x, int64_t p) {
  if (p == 2) return x;
  const ValueId sign = e.Op("Sign", {x});
  if (p == 1) return sign;
  return e.Mul(sign, e.Op("Pow", {e.Op("Abs", {x}),
                                  e.RealLike(static_cast<double>(p - 1), x)}));
}

// y^(1 - p); a norm of zero has no slope: zero is one of its subgradients.
ValueId OneOverPower(Emitter& e, ValueId y, int64_t p) {
  const ValueId power =
      e.Op("Pow", {y, e.RealLike(static_cast<double>(1 - p), y)});
  return e.Keep(e.Greater(y, 0), power);
}

}  // namespace

absl::Status Conv(RuleContext& c) {
  ASSIGN_OR_RETURN(Numbers kernel, KernelOfWeight(c));
  ASSIGN_OR_RETURN(
      const WindowRule w,
      WindowRule::Of(c, std::move(kernel), c.x_shape(), c.y_shape()));
  const int64_t group = c.Int("group", 1);
  if (c.wants(1)) {
    ASSIGN_OR_RETURN(const ValueId dw,
                     WeightGradient(c, w, c.x(0), c.dy(), c.x_id(1), group));
    RETURN_IF_ERROR(c.Give(1, dw));
  }
  RETURN_IF_ERROR(GiveBias(c));
  if (!c.wants(0)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ValueId dx, FromWindows(c, w, c.dy(), c.x(1), group));
  return c.Give(0, dx);
}

absl::Status ConvTranspose(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(Numbers kernel, KernelOfWeight(c));
  // The result is the side with windows here.
  ASSIGN_OR_RETURN(WindowRule w, WindowRule::Of(c, std::move(kernel),
                                                c.y_shape(), c.x_shape()));
  if (!w.wide || !w.narrow) {
    return c.Error(
        "its gradient needs the spatial extents in numbers; give sizes with "
        "--dim");
  }
  const int64_t group = c.Int("group", 1);
  const Numbers* output_padding = c.Ints("output_padding");
  const size_t n = w.axes();
  // Given pads are kept; what output_padding or output_shape add is no window.
  Numbers pads = w.pads_begin;
  const bool has_output_shape = c.Ints("output_shape") != nullptr;
  const std::string auto_pad = c.String("auto_pad", "NOTSET");
  for (size_t i = 0; i < n; ++i) {
    const int64_t covered = ((*w.narrow)[i] - 1) * w.strides[i] +
                            w.dilations[i] * (w.kernel[i] - 1) + 1;
    const int64_t added =
        output_padding != nullptr && i < output_padding->size()
            ? (*output_padding)[i]
            : 0;
    if (has_output_shape || auto_pad == "SAME_UPPER" ||
        auto_pad == "SAME_LOWER") {
      const int64_t total =
          std::max<int64_t>(0, covered + added - (*w.wide)[i]);
      const int64_t half = total / 2;
      w.pads_begin[i] = auto_pad == "SAME_UPPER" ? half : total - half;
    }
    // The pads with which a convolution of the result has the operand's extent.
    w.pads_end[i] =
        std::max<int64_t>(0, covered - w.pads_begin[i] - (*w.wide)[i]);
  }
  if (c.wants(1)) {
    ASSIGN_OR_RETURN(const ValueId dw,
                     WeightGradient(c, w, c.dy(), c.x(0), c.x_id(1), group));
    RETURN_IF_ERROR(c.Give(1, dw));
  }
  RETURN_IF_ERROR(GiveBias(c));
  if (!c.wants(0)) return absl::OkStatus();
  Numbers both = w.pads_begin;
  both.insert(both.end(), w.pads_end.begin(), w.pads_end.end());
  ValueId dx = e.Op("Conv", {c.dy(), c.x(1)},
                    {Attr("strides", w.strides), Attr("dilations", w.dilations),
                     Attr("pads", both), Attr("group", group)});
  bool exact = true;
  Numbers axes;
  for (size_t i = 0; i < n; ++i) {
    const int64_t reach = w.dilations[i] * (w.kernel[i] - 1) + 1;
    const int64_t extent =
        ((*w.wide)[i] + w.pads_begin[i] + w.pads_end[i] - reach) /
            w.strides[i] +
        1;
    exact = exact && extent == (*w.narrow)[i];
    axes.push_back(static_cast<int>(i) + 2);
  }
  if (!exact) dx = e.Slice(dx, axes, Numbers(n, 0), *w.narrow);
  return c.Give(0, dx);
}

absl::Status AveragePool(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const WindowRule w, PoolWindows(c));
  ASSIGN_OR_RETURN(const ValueId counts,
                   WindowCounts(c, w, c.Int("count_include_pad", 0) != 0));
  ASSIGN_OR_RETURN(const ValueId dx, ToWindows(c, w, e.Div(c.dy(), counts)));
  return c.Give(0, dx);
}

// y^p is the sum of |x|^p.
absl::Status LpPool(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const WindowRule w, PoolWindows(c));
  const int64_t p = c.Int("p", 2);
  ASSIGN_OR_RETURN(const ValueId sum,
                   ToWindows(c, w, e.Mul(c.dy(), OneOverPower(e, c.y(), p))));
  return c.Give(0, e.Mul(SlopeOfPower(e, c.x(), p), sum));
}

absl::Status GlobalLpPool(RuleContext& c) {
  Emitter& e = c.e();
  const int64_t p = c.Int("p", 2);
  const ValueId share = e.Mul(c.dy(), OneOverPower(e, c.y(), p));
  return c.Give(0, e.Mul(SlopeOfPower(e, c.x(), p), share));
}

// The positions are asked of the forward pass: they take the place of the
// operand, which need not be kept.
absl::Status MaxPool(RuleContext& c) {
  Emitter& e = c.e();
  if (c.Int("storage_order", 0) != 0) {
    return c.Error("the gradient of storage_order=1 is not known");
  }
  ir::Type positions = ir::Type::Tensor(ir::ElementType::kInt64, std::nullopt);
  positions.shape = e.type(c.y_id()).shape;
  const ValueId indices = c.AskFor(1, positions);
  const ValueId dims = e.ShapeOf(c.x_id());
  const ValueId count =
      e.Op("ReduceProd", {dims}, {Attr("keepdims", int64_t{1})});
  const ValueId flat = ScatterAdd(e, count, e.Reshape(indices, Numbers{-1}),
                                  e.Reshape(c.dy(), Numbers{-1}), 0);
  return c.Give(0, e.Reshape(flat, dims));
}

absl::Status GlobalAveragePool(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  const ir::Shape shape = *c.x_shape();
  double count = 1;
  std::optional<ValueId> symbolic;
  for (size_t i = 2; i < rank; ++i) {
    if (shape[i] && shape[i]->is_constant()) {
      count *= static_cast<double>(shape[i]->constant());
      continue;
    }
    const std::optional<ValueId> extent =
        shape[i] ? e.DimValue(*shape[i]) : std::optional<ValueId>();
    if (!extent) {
      return c.Error("its gradient needs the spatial extents");
    }
    symbolic = symbolic ? e.Mul(*symbolic, *extent) : *extent;
  }
  ValueId share = e.Mul(c.dy(), 1 / count);
  if (symbolic) {
    share = e.Div(share, e.Cast(*symbolic, c.x_type().element));
  }
  return c.Give(0, e.Expand(share, e.ShapeOf(c.x_id())));
}

absl::Status GlobalMaxPool(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  Emitter::Axes axes;
  for (size_t i = 2; i < rank; ++i) axes.push_back(static_cast<int>(i));
  const ValueId hits =
      e.Cast(e.Op("Equal", {c.x(), c.y()}), c.x_type().element);
  const ValueId share = e.Div(c.dy(), e.ReduceSum(hits, axes));
  return c.Give(0, e.Mul(share, hits));
}

// y = x / s^beta, s = bias + alpha / size * (squares in a window of channels):
// dx = dy / s^beta - 2 alpha beta / size * x * (dy y / s over the windows that
// x is in).
absl::Status Lrn(RuleContext& c) {
  Emitter& e = c.e();
  ASSIGN_OR_RETURN(const size_t rank, c.Rank());
  const std::optional<ir::Dim> channels =
      rank > 2 ? (*c.x_shape())[1] : std::optional<ir::Dim>();
  if (!channels || !channels->is_constant()) {
    return c.Error("its gradient needs the number of channels");
  }
  const int64_t size = c.Int("size", 1);
  if (size < 1 || size > kMaxKernelElements) {
    return c.Error("its window is too large");
  }
  const double alpha = c.Float("alpha", 1e-4F);
  const double beta = c.Float("beta", 0.75F);
  const int64_t below = (size - 1) / 2;
  const int64_t above = size - 1 - below;
  // The mean over `before` channels, this one and `after` channels.
  const auto window = [&](ValueId value, int64_t before, int64_t after) {
    const ValueId image =
        e.Reshape(value, Numbers{0, 1, channels->constant(), -1});
    const ValueId mean = e.Op("AveragePool", {image},
                              {Attr("kernel_shape", Numbers{size, 1}),
                               Attr("pads", Numbers{before, 0, after, 0}),
                               Attr("count_include_pad", int64_t{1})});
    return e.ReshapeLike(mean, c.x_id());
  };
  const ValueId s = e.Add(e.Mul(window(e.Square(c.x()), below, above), alpha),
                          c.Float("bias", 1));
  const ValueId inner = window(e.Div(e.Mul(c.dy(), c.y()), s), above, below);
  const ValueId direct = e.Mul(c.dy(), e.Op("Pow", {s, e.RealLike(-beta, s)}));
  return c.Give(0, e.Sub(direct, e.Mul(e.Mul(c.x(), inner), 2 * alpha * beta)));
}

}  // namespace onnx_memopt::grad::rules
