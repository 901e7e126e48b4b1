#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::ir {

std::optional<int> BitWidth(ElementType type) {
  switch (type) {
    case ElementType::kUndefined:
      return std::nullopt;
    case ElementType::kUint2:
    case ElementType::kInt2:
      return 2;
    case ElementType::kUint4:
    case ElementType::kInt4:
    case ElementType::kFloat4E2M1:
      return 4;
    case ElementType::kFloat6E2M3:
    case ElementType::kFloat6E3M2:
      return 6;
    case ElementType::kUint8:
    case ElementType::kInt8:
    case ElementType::kBool:
    case ElementType::kFloat8E4M3FN:
    case ElementType::kFloat8E4M3FNUZ:
    case ElementType::kFloat8E5M2:
    case ElementType::kFloat8E5M2FNUZ:
    case ElementType::kFloat8E8M0:
      return 8;
    case ElementType::kUint16:
    case ElementType::kInt16:
    case ElementType::kFloat16:
    case ElementType::kBfloat16:
      return 16;
    case ElementType::kFloat:
    case ElementType::kInt32:
    case ElementType::kUint32:
      return 32;
    case ElementType::kInt64:
    case ElementType::kUint64:
    case ElementType::kDouble:
    case ElementType::kComplex64:
      return 64;
    case ElementType::kComplex128:
      return 128;
    case ElementType::kString:
      return 32 * 8;
  }
  return std::nullopt;
}

absl::string_view Name(ElementType type) {
  switch (type) {
    case ElementType::kUndefined:
      return "undefined";
    case ElementType::kFloat:
      return "float";
    case ElementType::kUint8:
      return "uint8";
    case ElementType::kInt8:
      return "int8";
    case ElementType::kUint16:
      return "uint16";
    case ElementType::kInt16:
      return "int16";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kString:
      return "string";
    case ElementType::kBool:
      return "bool";
    case ElementType::kFloat16:
      return "float16";
    case ElementType::kDouble:
      return "double";
    case ElementType::kUint32:
      return "uint32";
    case ElementType::kUint64:
      return "uint64";
    case ElementType::kComplex64:
      return "complex64";
    case ElementType::kComplex128:
      return "complex128";
    case ElementType::kBfloat16:
      return "bfloat16";
    case ElementType::kFloat8E4M3FN:
      return "float8e4m3fn";
    case ElementType::kFloat8E4M3FNUZ:
      return "float8e4m3fnuz";
    case ElementType::kFloat8E5M2:
      return "float8e5m2";
    case ElementType::kFloat8E5M2FNUZ:
      return "float8e5m2fnuz";
    case ElementType::kUint4:
      return "uint4";
    case ElementType::kInt4:
      return "int4";
    case ElementType::kFloat4E2M1:
      return "float4e2m1";
    case ElementType::kFloat8E8M0:
      return "float8e8m0";
    case ElementType::kUint2:
      return "uint2";
    case ElementType::kInt2:
      return "int2";
    case ElementType::kFloat6E2M3:
      return "float6e2m3";
    case ElementType::kFloat6E3M2:
      return "float6e3m2";
  }
  return "unknown";
}

}  // namespace onnx_memopt::ir
