#include "onnx_memopt/ir/type.h"

#include "absl/strings/str_cat.h"

namespace onnx_memopt::ir {
namespace {

// Types nest as deeply as a file says; text stops here.
constexpr int kMaxNestingInText = 16;

struct ElementInfo {
  absl::string_view name;
  int bits;
};

// Bits 0: not an element type.
ElementInfo Info(ElementType type) {
  switch (type) {
    case ElementType::kUndefined:
      break;
    case ElementType::kFloat:
      return {"float", 32};
    case ElementType::kUint8:
      return {"uint8", 8};
    case ElementType::kInt8:
      return {"int8", 8};
    case ElementType::kUint16:
      return {"uint16", 16};
    case ElementType::kInt16:
      return {"int16", 16};
    case ElementType::kInt32:
      return {"int32", 32};
    case ElementType::kInt64:
      return {"int64", 64};
    case ElementType::kString:
      return {"string", 8 * 32};
    case ElementType::kBool:
      return {"bool", 8};
    case ElementType::kFloat16:
      return {"float16", 16};
    case ElementType::kDouble:
      return {"double", 64};
    case ElementType::kUint32:
      return {"uint32", 32};
    case ElementType::kUint64:
      return {"uint64", 64};
    case ElementType::kComplex64:
      return {"complex64", 64};
    case ElementType::kComplex128:
      return {"complex128", 128};
    case ElementType::kBfloat16:
      return {"bfloat16", 16};
    case ElementType::kFloat8E4M3FN:
      return {"float8e4m3fn", 8};
    case ElementType::kFloat8E4M3FNUZ:
      return {"float8e4m3fnuz", 8};
    case ElementType::kFloat8E5M2:
      return {"float8e5m2", 8};
    case ElementType::kFloat8E5M2FNUZ:
      return {"float8e5m2fnuz", 8};
    case ElementType::kUint4:
      return {"uint4", 4};
    case ElementType::kInt4:
      return {"int4", 4};
    case ElementType::kFloat4E2M1:
      return {"float4e2m1", 4};
    case ElementType::kFloat8E8M0:
      return {"float8e8m0", 8};
    case ElementType::kUint2:
      return {"uint2", 2};
    case ElementType::kInt2:
      return {"int2", 2};
    case ElementType::kFloat6E2M3:
      return {"float6e2m3", 6};
    case ElementType::kFloat6E3M2:
      return {"float6e3m2", 6};
  }
  return {"undefined", 0};
}

std::string ToText(const Type& type, int depth);

std::string NestedText(const Type& type, int depth) {
  return type.nested == nullptr ? "?" : ToText(*type.nested, depth + 1);
}

std::string ToText(const Type& type, int depth) {
  if (depth > kMaxNestingInText) return "...";
  switch (type.kind) {
    case TypeKind::kUnknown:
      return "?";
    case TypeKind::kTensor:
    case TypeKind::kSparseTensor:
      return absl::StrCat(
          type.kind == TypeKind::kSparseTensor ? "sparse_" : "",
          type.element == ElementType::kUndefined ? "?" : Name(type.element),
          type.shape ? ToString(*type.shape) : "[...]");
    case TypeKind::kSequence:
      return absl::StrCat("seq(", NestedText(type, depth), ")");
    case TypeKind::kOptional:
      return absl::StrCat("optional(", NestedText(type, depth), ")");
    case TypeKind::kMap:
      return absl::StrCat("map(", Name(type.element), ", ",
                          NestedText(type, depth), ")");
    case TypeKind::kOpaque:
      return "opaque";
  }
  return "?";
}

}  // namespace

std::optional<int> BitWidth(ElementType type) {
  const int bits = Info(type).bits;
  if (bits == 0) return std::nullopt;
  return bits;
}

absl::string_view Name(ElementType type) { return Info(type).name; }

Type Type::Tensor(ElementType element, std::optional<Shape> shape) {
  Type type;
  type.kind = TypeKind::kTensor;
  type.element = element;
  type.shape = std::move(shape);
  return type;
}

std::optional<Dim> NumElements(const Shape& shape) {
  bool empty = false;
  for (const std::optional<Dim>& dim : shape) {
    if (!dim) return std::nullopt;
    if (!dim->is_constant()) continue;
    if (dim->constant() < 0) return std::nullopt;
    empty |= dim->constant() == 0;
  }
  // Whatever the other dims are, and even if their product would overflow.
  if (empty) return Dim(0);
  std::optional<Dim> product = Dim(1);
  for (const std::optional<Dim>& dim : shape) {
    product = Mul(*product, *dim);
    if (!product) return std::nullopt;
  }
  return product;
}

std::optional<Dim> SizeBytes(ElementType element, const Dim& num_elements) {
  const std::optional<int> bits = BitWidth(element);
  if (!bits) return std::nullopt;
  if (*bits >= 8) return Mul(num_elements, Dim(*bits / 8));
  return CeilDiv(num_elements, Dim(8 / *bits));
}

std::optional<Dim> SizeBytes(const Type& type) {
  const Type* held = &type;
  while (held->kind == TypeKind::kOptional && held->nested != nullptr) {
    held = held->nested.get();
  }
  if (!held->is_tensor() || !held->shape) return std::nullopt;
  const std::optional<Dim> count = NumElements(*held->shape);
  return count ? SizeBytes(held->element, *count) : std::nullopt;
}

std::string ToString(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    absl::StrAppend(&out, i == 0 ? "" : ", ",
                    shape[i] ? shape[i]->ToString() : "?");
  }
  out.push_back(']');
  return out;
}

std::string ToString(const Type& type) { return ToText(type, 0); }

}  // namespace onnx_memopt::ir
