#include "ir/windows.h"

#include <string>
#include <utility>

namespace onnx_memopt::ir::shape_rules {

std::optional<std::vector<int64_t>> AxisList(const Node& node,
                                             absl::string_view name, size_t n,
                                             int64_t fallback, int64_t least) {
  const std::vector<int64_t>* listed = IntsAttribute(node, name);
  if (listed == nullptr) return std::vector<int64_t>(n, fallback);
  if (listed->size() != n) return std::nullopt;
  for (const int64_t value : *listed) {
    if (value < least) return std::nullopt;
  }
  return *listed;
}

namespace {

AutoPad ParseAutoPad(const Node& node) {
  const std::string mode = StringAttribute(node, "auto_pad", "NOTSET");
  if (mode == "VALID") return AutoPad::kValid;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") return AutoPad::kExplicit;
  // Runtimes disagree on which of the two wins.
  return HasAttribute(node, "pads") ? AutoPad::kUnclear : AutoPad::kSame;
}

}  // namespace

std::optional<Windows> ParseWindows(const ShapeContext& c, size_t n,
                                    std::optional<Shape> kernel) {
  Windows windows;
  const auto strides = AxisList(c.node, "strides", n, 1, 1);
  const auto dilations = AxisList(c.node, "dilations", n, 1, 1);
  const auto pads = AxisList(c.node, "pads", 2 * n, 0, 0);
  if (IntsAttribute(c.node, "kernel_shape") != nullptr) {
    const auto listed = AxisList(c.node, "kernel_shape", n, 1, 1);
    if (!listed) return std::nullopt;
    kernel = Shape(listed->begin(), listed->end());
  }
  if (!strides || !dilations || !pads || !kernel || kernel->size() != n) {
    return std::nullopt;
  }
  windows.auto_pad = ParseAutoPad(c.node);
  windows.strides = *strides;
  for (size_t i = 0; i < n; ++i) {
    const OptDim span =
        Times(Minus((*kernel)[i], Dim(1)), Dim((*dilations)[i]));
    windows.reach.push_back(Plus(span, Dim(1)));
    const bool valid = windows.auto_pad == AutoPad::kValid;
    windows.pads_begin.push_back(valid ? 0 : (*pads)[i]);
    windows.pads_end.push_back(valid ? 0 : (*pads)[n + i]);
  }
  return windows;
}

}  // namespace onnx_memopt::ir::shape_rules
