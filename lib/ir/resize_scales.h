// Where Resize and Upsample of each opset have their factors.
#ifndef ONNX_MEMOPT_LIB_IR_RESIZE_SCALES_H_
#define ONNX_MEMOPT_LIB_IR_RESIZE_SCALES_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "ir/shape_rule_util.h"

namespace onnx_memopt::ir::shape_rules {

// nullopt: none are given, or they are not known.
using Scales = std::optional<std::vector<std::optional<double>>>;

// The factors, one for each axis that is resized.
Scales FindScales(const ShapeContext& c, size_t rank);
// Is operand `operand` a list without elements?
bool IsEmptyList(const ShapeContext& c, size_t operand);

}  // namespace onnx_memopt::ir::shape_rules

#endif  // ONNX_MEMOPT_LIB_IR_RESIZE_SCALES_H_
