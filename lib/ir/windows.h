// The windows of convolutions and pooling, which slide over the spatial dims.
//
//        pad_begin          input           pad_end
//        |-----|--------------------------------|---|
//        [window]
//           [window]     a window every `stride`
//        output = floor((input + pads - reach) / stride) + 1
//        reach  = dilation * (kernel - 1) + 1
#ifndef ONNX_MEMOPT_LIB_IR_WINDOWS_H_
#define ONNX_MEMOPT_LIB_IR_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/shape_rule_util.h"

namespace onnx_memopt::ir::shape_rules {

enum class AutoPad { kExplicit, kSame, kValid, kUnclear };

struct Windows {
  AutoPad auto_pad = AutoPad::kExplicit;
  std::vector<OptDim> reach;
  std::vector<int64_t> strides;
  std::vector<int64_t> pads_begin;
  std::vector<int64_t> pads_end;
};

// The attribute's list; `fallback` n times where there is none; nullopt where
// it has another length or numbers below `least`.
std::optional<std::vector<int64_t>> AxisList(const Node& node,
                                             absl::string_view name, size_t n,
                                             int64_t fallback, int64_t least);

// `kernel`: the weight's spatial dims, if there is a weight.
std::optional<Windows> ParseWindows(const ShapeContext& c, size_t n,
                                    std::optional<Shape> kernel);

}  // namespace onnx_memopt::ir::shape_rules

#endif  // ONNX_MEMOPT_LIB_IR_WINDOWS_H_
