// Convolutions and pooling: windows.h has the picture.
#include <utility>

#include "ir/shape_rule_util.h"
#include "ir/windows.h"

namespace onnx_memopt::ir::shape_rules {
namespace {

// The size of the output along spatial axis i.
OptDim Slide(const Windows& windows, size_t i, const OptDim& input,
             bool ceil_mode) {
  const Dim stride(windows.strides[i]);
  if (windows.auto_pad == AutoPad::kUnclear) return std::nullopt;
  if (windows.auto_pad == AutoPad::kSame) return Ceiled(input, stride);
  const OptDim padded_begin = Plus(input, Dim(windows.pads_begin[i]));
  const OptDim padded = Plus(padded_begin, Dim(windows.pads_end[i]));
  const OptDim room = Minus(padded, windows.reach[i]);
  if (!ceil_mode) return Plus(Floored(room, stride), Dim(1));
  // A last window that would begin in the padding behind the input is left out.
  const OptDim last = Ceiled(room, stride);
  const OptDim limit = Floored(Minus(padded_begin, Dim(1)), stride);
  return Plus(last && limit ? Min(*last, *limit) : std::nullopt, Dim(1));
}

bool ConvWith(ShapeContext& c, size_t weight, ElementType type) {
  SetResult(c, 0, type, std::nullopt);
  const Shape* x = c.shape(0);
  const Shape* w = c.shape(weight);
  if (x == nullptr || x->size() < 2) return false;
  if (w != nullptr && w->size() != x->size()) return false;
  const size_t n = x->size() - 2;
  Shape result(x->size());
  result[0] = (*x)[0];
  std::optional<Shape> kernel;
  if (w != nullptr) {
    result[1] = (*w)[0];
    kernel = Shape(w->begin() + 2, w->end());
  }
  if (const auto windows = ParseWindows(c, n, std::move(kernel))) {
    for (size_t i = 0; i < n; ++i) {
      result[2 + i] = Slide(*windows, i, (*x)[2 + i], false);
    }
  }
  SetResult(c, 0, type, std::move(result));
  return Complete(c);
}

}  // namespace

bool Conv(ShapeContext& c) { return ConvWith(c, 1, ElementOf(c, 0)); }

bool ConvInteger(ShapeContext& c) {
  return ConvWith(c, 1, ElementType::kInt32);
}

bool QLinearConv(ShapeContext& c) {
  // x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point
  return ConvWith(c, 3, ElementOf(c, 7));
}

bool ConvTranspose(ShapeContext& c) {
  const ElementType type = ElementOf(c, 0);
  SetResult(c, 0, type, std::nullopt);
  const Shape* x = c.shape(0);
  const Shape* w = c.shape(1);
  if (x == nullptr || x->size() < 2) return false;
  if (w != nullptr && w->size() != x->size()) return false;
  const size_t n = x->size() - 2;
  Shape result(x->size());
  result[0] = (*x)[0];
  std::optional<Shape> kernel;
  const int64_t group = IntAttribute(c.node, "group", 1);
  if (w != nullptr) {
    if (group > 0) result[1] = Times((*w)[1], Dim(group));
    kernel = Shape(w->begin() + 2, w->end());
  }
  if (const auto* listed = IntsAttribute(c.node, "output_shape")) {
    // Some exporters list all dims.
    const size_t skip = listed->size() == x->size() ? 2 : 0;
    if (listed->size() == n + skip) {
      for (size_t i = 0; i < n; ++i) result[2 + i] = Dim((*listed)[skip + i]);
    }
    SetResult(c, 0, type, std::move(result));
    return Complete(c);
  }
  const auto extra = AxisList(c.node, "output_padding", n, 0, 0);
  const auto windows = ParseWindows(c, n, std::move(kernel));
  for (size_t i = 0; windows && extra && i < n; ++i) {
    const Dim stride(windows->strides[i]);
    const OptDim& input = (*x)[2 + i];
    const OptDim& reach = windows->reach[i];
    if (windows->auto_pad == AutoPad::kUnclear) continue;
    if (windows->auto_pad == AutoPad::kSame) {
      // Windows that leave gaps, and added rows, are read in different ways.
      const OptDim overlap = Minus(reach, stride);
      if (overlap && KnownAtLeast(*overlap, 0) && (*extra)[i] == 0) {
        result[2 + i] = Times(input, stride);
      }
      continue;
    }
    const OptDim span = Plus(Times(Minus(input, Dim(1)), stride), reach);
    const OptDim pads =
        Plus(Dim(windows->pads_begin[i]), Dim(windows->pads_end[i]));
    result[2 + i] = Minus(Plus(span, Dim((*extra)[i])), pads);
  }
  SetResult(c, 0, type, std::move(result));
  return Complete(c);
}

bool Pool(ShapeContext& c) {
  const ElementType type = ElementOf(c, 0);
  const Shape* x = c.shape(0);
  std::optional<Shape> result;
  if (x != nullptr && x->size() >= 2) {
    const size_t n = x->size() - 2;
    result.emplace(x->size());
    (*result)[0] = (*x)[0];
    (*result)[1] = (*x)[1];
    const bool ceil_mode = IntAttribute(c.node, "ceil_mode", 0) != 0;
    if (const auto windows = ParseWindows(c, n, std::nullopt)) {
      for (size_t i = 0; i < n; ++i) {
        (*result)[2 + i] = Slide(*windows, i, (*x)[2 + i], ceil_mode);
      }
    }
  }
  SetResult(c, 0, type, result);
  // MaxPool's indices.
  SetResult(c, 1, ElementType::kInt64, std::move(result));
  return Complete(c);
}

bool GlobalPool(ShapeContext& c) {
  const Shape* x = c.shape(0);
  std::optional<Shape> result;
  if (x != nullptr && x->size() >= 2) {
    result = *x;
    for (size_t i = 2; i < result->size(); ++i) (*result)[i] = Dim(1);
  }
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  return Complete(c);
}

// Blocks hold 8 or 16 channels, as the machine has it. The last is filled up,
// and the number of channels with it: known where both sizes agree.
bool NchwcReorderInput(ShapeContext& c) {
  const Shape* x = c.shape(0);
  std::optional<Shape> result;
  if (x != nullptr && x->size() == 4) {
    result = *x;
    if (IntAttribute(c.node, "channels_last", 0) != 0) {
      result = Shape{(*x)[0], (*x)[3], (*x)[1], (*x)[2]};
    }
    const OptDim by_8 = Times(Ceiled((*result)[1], Dim(8)), Dim(8));
    const OptDim by_16 = Times(Ceiled((*result)[1], Dim(16)), Dim(16));
    (*result)[1] = by_8 && by_16 && *by_8 == *by_16 ? by_8 : std::nullopt;
  }
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  return Complete(c);
}

bool NchwcReorderOutput(ShapeContext& c) {
  const Shape* x = c.shape(0);
  const int64_t channels = IntAttribute(c.node, "channels", 0);
  std::optional<Shape> result;
  if (x != nullptr && x->size() == 4 && channels > 0) {
    result = Shape{(*x)[0], Dim(channels), (*x)[2], (*x)[3]};
    if (IntAttribute(c.node, "channels_last", 0) != 0) {
      result = Shape{(*x)[0], (*x)[2], (*x)[3], Dim(channels)};
    }
  }
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  return Complete(c);
}

bool NchwcUpsample(ShapeContext& c) {
  const Shape* x = c.shape(0);
  const std::vector<int64_t>* scales = IntsAttribute(c.node, "scales");
  std::optional<Shape> result;
  if (x != nullptr && scales != nullptr && scales->size() == x->size()) {
    result = *x;
    for (size_t i = 0; i < x->size(); ++i) {
      (*result)[i] = Times((*x)[i], Dim((*scales)[i]));
    }
  }
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  return Complete(c);
}

}  // namespace onnx_memopt::ir::shape_rules
