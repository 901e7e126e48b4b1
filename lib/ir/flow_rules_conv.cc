// Convolutions and pooling: batches and channels are independent, and so are
// the spatial axes but for the windows that reach across the border of a part.
// windows.h has the picture:
//
//   result o reads [o * stride - pad_begin, o * stride - pad_begin + reach)
#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "ir/flow_rule_util.h"
#include "ir/windows.h"

namespace onnx_memopt::ir::flow_rules {
namespace {

using shape_rules::AutoPad;
using shape_rules::ParseWindows;
using shape_rules::Windows;

// No window of a real model is as large; keeps arithmetic in range.
constexpr int64_t kMaxReach = int64_t{1} << 30;

void Append(Ways more, Ways* ways) {
  for (SplitWay& way : more) ways->push_back(std::move(way));
}

// Where a convolution has its operands.
struct ConvOperands {
  size_t weight = 1;
  size_t bias = 2;
  // One for all output channels or one for each, like the bias.
  llvm::SmallVector<size_t, 4> per_channel = {};
};

bool IsConvolution(const ShapeContext& c, const ConvOperands& at) {
  const Shape* x = c.shape(0);
  const Shape* w = c.shape(at.weight);
  const Shape* result = ResultShape(c, 0);
  return x != nullptr && w != nullptr && result != nullptr && x->size() >= 3 &&
         w->size() == x->size() && result->size() == x->size();
}

Ways BatchWay(const ShapeContext& c) {
  std::optional<SplitWay> way = WayAlong(c, 0);
  if (!way || !SplitOperand(c, *way, 0, 0)) return {};
  return {*std::move(way)};
}

// Bias and other operands that follow the output channels.
bool SplitChannelOperands(const ShapeContext& c, const ConvOperands& at,
                          SplitWay& way) {
  if (HasOperand(c, at.bias) && !SplitOperand(c, way, at.bias, 0)) return false;
  for (const size_t i : at.per_channel) {
    if (!HasOperand(c, i)) continue;
    if (!BroadcastOperand(c, way, i, 1, 0)) return false;
  }
  return true;
}

// Output channels in whole groups: each part has its channels of the input, and
// attribute group counts the part's. False where the groups are not clear.
bool SplitGroups(const ShapeContext& c, SplitWay& way) {
  const int64_t group = IntAttribute(c.node, "group", 1);
  const OptDim& inputs = (*c.shape(0))[1];
  if (group < 1 || !inputs || !inputs->is_constant() ||
      !way.extent.is_constant()) {
    return false;
  }
  const int64_t inputs_each = inputs->constant() / group;
  const int64_t outputs_each = way.extent.constant() / group;
  if (inputs_each < 1 || outputs_each < 1 ||
      inputs_each * group != inputs->constant() ||
      outputs_each * group != way.extent.constant()) {
    return false;
  }
  const int64_t common = std::gcd(inputs_each, outputs_each);
  way.operands[0] = {.axis = 1,
                     .num = Dim(inputs_each / common),
                     .den = Dim(outputs_each / common)};
  way.grain = Dim(outputs_each);
  way.attributes.push_back({.name = "group", .den = outputs_each});
  return true;
}

Ways ChannelWay(const ShapeContext& c, const ConvOperands& at) {
  std::optional<SplitWay> way = WayAlong(c, 1);
  if (!way || !SplitOperand(c, *way, at.weight, 0) ||
      !SplitChannelOperands(c, at, *way)) {
    return {};
  }
  if (IntAttribute(c.node, "group", 1) != 1 && !SplitGroups(c, *way)) return {};
  return {*std::move(way)};
}

// The weight of a ConvTranspose is [input channels, output channels of a group,
// kernel...].
Ways TransposedChannelWay(const ShapeContext& c, const ConvOperands& at) {
  std::optional<SplitWay> way = WayAlong(c, 1);
  if (!way || !SplitChannelOperands(c, at, *way)) return {};
  if (IntAttribute(c.node, "group", 1) == 1) {
    if (!SplitOperand(c, *way, at.weight, 1)) return {};
    return {*std::move(way)};
  }
  if (!SplitGroups(c, *way)) return {};
  way->operands[at.weight] = way->operands[0];
  way->operands[at.weight].axis = 0;
  return {*std::move(way)};
}

// The padding of each spatial axis as numbers; false where auto_pad makes it
// depend on a size that is not known.
bool MakePadsExplicit(const ShapeContext& c, Windows* windows) {
  if (windows->auto_pad == AutoPad::kUnclear) return false;
  if (windows->auto_pad != AutoPad::kSame) return true;
  const bool upper = StringAttribute(c.node, "auto_pad", "") == "SAME_UPPER";
  for (size_t i = 0; i < windows->strides.size(); ++i) {
    const int64_t stride = windows->strides[i];
    const OptDim& reach = windows->reach[i];
    const OptDim& size = (*c.shape(0))[2 + i];
    if (!reach || !reach->is_constant()) return false;
    // ceil(size / stride) windows, so that the last one fits.
    OptDim total = Dim(reach->constant() - 1);
    if (stride != 1) {
      const OptDim last =
          shape_rules::Minus(shape_rules::Ceiled(size, Dim(stride)), Dim(1));
      total = shape_rules::Minus(
          shape_rules::Plus(shape_rules::Times(last, Dim(stride)), reach),
          size);
    }
    if (!total || !total->is_constant()) return false;
    const int64_t pads = std::max<int64_t>(total->constant(), 0);
    windows->pads_begin[i] = upper ? pads / 2 : pads - pads / 2;
    windows->pads_end[i] = pads - windows->pads_begin[i];
  }
  return true;
}

// Are all windows of axis i of known size, and does each cover an element that
// is not padding?
bool IsUsable(const Windows& windows, size_t i) {
  const OptDim& reach = windows.reach[i];
  return reach && reach->is_constant() && reach->constant() < kMaxReach &&
         windows.strides[i] < kMaxReach &&
         windows.pads_begin[i] < reach->constant() &&
         windows.pads_end[i] < reach->constant();
}

Ways SpatialWays(const ShapeContext& c, std::optional<Windows> windows) {
  Ways ways;
  const Shape& x = *c.shape(0);
  if (!windows || !MakePadsExplicit(c, &*windows)) return ways;
  for (size_t i = 0; i < windows->strides.size(); ++i) {
    std::optional<SplitWay> way = WayAlong(c, 2 + i);
    if (!way || !x[2 + i] || !IsUsable(*windows, i)) continue;
    const int64_t stride = windows->strides[i];
    const int64_t reach = windows->reach[i]->constant();
    const int64_t before = windows->pads_begin[i];
    way->operands[0] = {.axis = static_cast<int>(2 + i),
                        .num = Dim(stride),
                        .before = before,
                        .after = reach - stride - before};
    // Without a halo too where the last elements are not read.
    way->windowed =
        before != 0 || windows->pads_end[i] != 0 || reach > stride ||
        !SameExtent(x[2 + i], shape_rules::Times(way->extent, Dim(stride)));
    if (windows->auto_pad == AutoPad::kSame) {
      way->pads = windows->pads_begin;
      way->pads.insert(way->pads.end(), windows->pads_end.begin(),
                       windows->pads_end.end());
    }
    ways.push_back(*std::move(way));
  }
  return ways;
}

std::optional<Shape> KernelOf(const ShapeContext& c, size_t weight) {
  const Shape* w = c.shape(weight);
  return Shape(w->begin() + 2, w->end());
}

Ways ConvWays(const ShapeContext& c, const ConvOperands& at) {
  if (!IsConvolution(c, at)) return {};
  Ways ways = BatchWay(c);
  Append(ChannelWay(c, at), &ways);
  const size_t n = c.shape(0)->size() - 2;
  Append(SpatialWays(c, ParseWindows(c, n, KernelOf(c, at.weight))), &ways);
  return ways;
}

int64_t CeilOf(int64_t a, int64_t b) {
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

}  // namespace

Ways Conv(const ShapeContext& c) {
  Ways ways = ConvWays(c, {});
  // Input channels: each part would add the bias.
  if (IsConvolution(c, {}) && !HasOperand(c, 2) &&
      IntAttribute(c.node, "group", 1) == 1) {
    std::optional<SplitWay> way = WayOver(c, (*c.shape(0))[1], Combine::kSum);
    if (way && SplitOperand(c, *way, 0, 1) && SplitOperand(c, *way, 1, 1)) {
      ways.push_back(*std::move(way));
    }
  }
  return ways;
}

Ways FusedConv(const ShapeContext& c) {
  Ways kept;
  for (SplitWay& way : ConvWays(c, {})) {
    // Operand 3 is added to the result, before anything is cut off.
    if (HasOperand(c, 3)) {
      const auto axis = static_cast<size_t>(way.result_axes[0]);
      if (axis >= 2 || !SplitOperand(c, way, 3, axis)) continue;
    }
    kept.push_back(std::move(way));
  }
  return kept;
}

Ways ConvInteger(const ShapeContext& c) {
  // x, w, x_zero_point, w_zero_point
  const Shape* zero_point = c.shape(2);
  if (HasOperand(c, 2) && (zero_point == nullptr || zero_point->size() > 1)) {
    return {};
  }
  return ConvWays(c, {.bias = 4, .per_channel = {3}});
}

Ways QLinearConv(const ShapeContext& c) {
  // x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point,
  // bias
  return ConvWays(c, {.weight = 3, .bias = 8, .per_channel = {4, 5}});
}

Ways ConvTranspose(const ShapeContext& c) {
  const ConvOperands at;
  if (!IsConvolution(c, at)) return {};
  Ways ways = BatchWay(c);
  Append(TransposedChannelWay(c, at), &ways);
  const Shape& x = *c.shape(0);
  const size_t n = x.size() - 2;
  const auto windows = ParseWindows(c, n, KernelOf(c, at.weight));
  const auto added = shape_rules::AxisList(c.node, "output_padding", n, 0, 0);
  if (!windows || !added || HasAttribute(c.node, "output_shape") ||
      windows->auto_pad == AutoPad::kSame ||
      windows->auto_pad == AutoPad::kUnclear) {
    return ways;
  }
  for (size_t i = 0; i < n; ++i) {
    std::optional<SplitWay> way = WayAlong(c, 2 + i);
    if (!way || !x[2 + i] || !IsUsable(*windows, i) ||
        (*added)[i] >= kMaxReach) {
      continue;
    }
    const int64_t stride = windows->strides[i];
    const int64_t reach = windows->reach[i]->constant();
    const int64_t begin = windows->pads_begin[i];
    const int64_t end = windows->pads_end[i];
    // Element x adds to [x * stride - begin, x * stride - begin + reach). The
    // result of a part ends `end` before its last window does, plus `added`,
    // and must reach to the end of the part.
    const int64_t after =
        std::max(CeilOf(begin, stride),
                 CeilOf(stride - reach - (*added)[i] + begin + end, stride));
    way->operands[0] = {.axis = static_cast<int>(2 + i),
                        .den = Dim(stride),
                        .before = CeilOf(reach - 1 - begin, stride),
                        .after = after};
    way->grain = Dim(stride);
    way->windowed =
        begin != 0 || end != 0 || (*added)[i] != 0 || reach != stride;
    if (!way->windowed) way->operands[0].before = way->operands[0].after = 0;
    ways.push_back(*std::move(way));
  }
  return ways;
}

Ways Pool(const ShapeContext& c) {
  const Shape* x = c.shape(0);
  const Shape* result = ResultShape(c, 0);
  // Result 1 of MaxPool counts positions in the whole operand.
  if (x == nullptr || result == nullptr || x->size() < 3 ||
      result->size() != x->size() || HasResult(c, 1)) {
    return {};
  }
  Ways ways = SameAxes(c, [](size_t a) { return a < 2; });
  Append(SpatialWays(c, ParseWindows(c, x->size() - 2, std::nullopt)), &ways);
  return ways;
}

}  // namespace onnx_memopt::ir::flow_rules
