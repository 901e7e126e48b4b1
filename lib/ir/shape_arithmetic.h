// What elementwise ops compute on single known elements.
#ifndef ONNX_MEMOPT_LIB_IR_SHAPE_ARITHMETIC_H_
#define ONNX_MEMOPT_LIB_IR_SHAPE_ARITHMETIC_H_

#include "absl/strings/string_view.h"
#include "onnx_memopt/ir/contents.h"
#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::ir::shape_rules {

struct BinaryOp {
  absl::string_view name;  // Add Sub Mul Div Mod Pow Min Max Sum
  bool fmod = false;       // of Mod: the result has the dividend's sign
};

// On elements of `type`; an unknown element where the result is not certain.
Element ComputeBinary(const BinaryOp& op, ElementType type, const Element& a,
                      const Element& b);
// Neg Abs Sign Floor Ceil Round Sqrt Reciprocal Not.
Element ComputeUnary(absl::string_view op, ElementType type, const Element& a);
// Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor: 0 or 1.
Element Compare(absl::string_view op, const Element& a, const Element& b);
// Cast.
Element ConvertElement(const Element& a, ElementType from, ElementType to);

}  // namespace onnx_memopt::ir::shape_rules

#endif  // ONNX_MEMOPT_LIB_IR_SHAPE_ARITHMETIC_H_
