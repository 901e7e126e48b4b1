// What is known of a value: element type and shape of a tensor, or the nested
// type of a sequence, optional or map.
//
//   Type t = Type::Tensor(ElementType::kFloat, {Dim(8), Dim::Symbol("seq")});
//   SizeBytes(t)->ToString();   // "32*seq"
//   ToString(t);                // "float[8, seq]"
#ifndef ONNX_MEMOPT_IR_TYPE_H_
#define ONNX_MEMOPT_IR_TYPE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "llvm/ADT/SmallVector.h"
#include "onnx_memopt/ir/dim.h"

namespace onnx_memopt::ir {

// The numbers are those of onnx.TensorProto.DataType.
enum class ElementType : uint8_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
  kFloat6E2M3 = 27,
  kFloat6E3M2 = 28,
};

// Bits of one element; nullopt for kUndefined and for numbers that a newer ONNX
// may bring. A string element counts as the 32 bytes of its std::string header;
// its characters cannot be known before the run.
std::optional<int> BitWidth(ElementType type);
// The name in ONNX's text syntax, for example "float", "int64", "bfloat16".
absl::string_view Name(ElementType type);

// nullopt: this dimension is unknown.
using Shape = llvm::SmallVector<std::optional<Dim>, 4>;

enum class TypeKind : uint8_t {
  kUnknown,
  kTensor,
  kSparseTensor,
  kSequence,
  kOptional,
  kMap,
  kOpaque,
};

struct Type {
  TypeKind kind = TypeKind::kUnknown;
  ElementType element = ElementType::kUndefined;  // map: the key's type
  std::optional<Shape> shape;                     // nullopt: rank unknown
  std::shared_ptr<const Type> nested;  // of a sequence, an optional, a map

  Type() = default;
  Type(const Type&) = default;
  Type& operator=(const Type&) = default;
  // A vector that grows moves its elements only if that cannot fail;
  // SmallVector does not say so.
  Type(Type&&) noexcept = default;
  Type& operator=(Type&&) noexcept = default;

  static Type Tensor(ElementType element, std::optional<Shape> shape);

  bool is_tensor() const { return kind == TypeKind::kTensor; }
};

// Elements of a shape; nullopt if a dimension is unknown, or on overflow.
std::optional<Dim> NumElements(const Shape& shape);
// Dense bytes, sub-byte elements packed and rounded up to a byte. An optional
// counts as what it holds. nullopt where unknown: sequences, maps, opaque and
// sparse values, unknown dims or element types, and on overflow.
std::optional<Dim> SizeBytes(const Type& type);
std::optional<Dim> SizeBytes(ElementType element, const Dim& num_elements);

// For example "float[8, seq]", "int64[?]", "float[...]" (rank unknown),
// "seq(float[2])", "?".
std::string ToString(const Type& type);
std::string ToString(const Shape& shape);

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_TYPE_H_
