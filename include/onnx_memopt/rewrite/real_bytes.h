// Floating-point numbers as raw_data holds them.
//
//   AppendReal(ir::ElementType::kFloat16, 0.5, &bytes);  // 00 38
#ifndef ONNX_MEMOPT_REWRITE_REAL_BYTES_H_
#define ONNX_MEMOPT_REWRITE_REAL_BYTES_H_

#include <string>

#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::rewrite {

// Appends a number of type float, double, float16 or bfloat16.
void AppendReal(ir::ElementType element, double value, std::string* bytes);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_REAL_BYTES_H_
