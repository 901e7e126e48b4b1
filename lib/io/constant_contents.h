// Elements of constants, for shape arithmetic.
#ifndef ONNX_MEMOPT_LIB_IO_CONSTANT_CONTENTS_H_
#define ONNX_MEMOPT_LIB_IO_CONSTANT_CONTENTS_H_

#include <memory>

#include "onnx_memopt/ir/attribute.h"
#include "onnx_memopt/ir/contents.h"
#include "onnx_memopt/ir/weight.h"

namespace onnx_memopt::io {

// Null for large tensors, external ones, and types that shapes do not use.
std::shared_ptr<const ir::Contents> ContentsOf(const ir::Weight& weight);

// Of Constant's value_int, value_ints, value_float and value_floats; null for
// other attributes.
std::shared_ptr<const ir::Contents> ContentsOf(const ir::AttributeValue& value);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_LIB_IO_CONSTANT_CONTENTS_H_
