#include "io/type_proto.h"

#include <memory>
#include <optional>
#include <utility>

namespace onnx_memopt::io {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::Shape;
using ir::Type;
using ir::TypeKind;

ElementType FromElementType(int32_t number) {
  return number >= 0 && number <= 255 ? static_cast<ElementType>(number)
                                      : ElementType::kUndefined;
}

std::optional<Shape> FromShapeProto(const onnx::TensorShapeProto& proto,
                                    const NamedDims& names) {
  if (proto.dim_size() > kMaxRank) return std::nullopt;
  Shape shape;
  for (const auto& dim : proto.dim()) {
    std::optional<Dim> known;
    if (dim.has_dim_value()) {
      if (dim.dim_value() >= 0) known = Dim(dim.dim_value());
    } else if (dim.has_dim_param()) {
      const auto it = names.find(dim.dim_param());
      if (it != names.end()) known = it->second;
    }
    shape.push_back(std::move(known));
  }
  return shape;
}

template <typename TensorProtoType>
void FromTensorType(const TensorProtoType& proto, const NamedDims& names,
                    Type* type) {
  type->element = FromElementType(proto.elem_type());
  if (proto.has_shape()) type->shape = FromShapeProto(proto.shape(), names);
}

template <typename TensorProtoType>
void ToTensorType(const Type& type, NamedDims* names, TensorProtoType* proto) {
  proto->set_elem_type(static_cast<int32_t>(type.element));
  if (!type.shape) return;
  auto* shape = proto->mutable_shape();
  for (const std::optional<Dim>& dim : *type.shape) {
    auto* out = shape->add_dim();
    if (!dim) continue;
    if (dim->is_constant()) {
      out->set_dim_value(dim->constant());
      continue;
    }
    std::string text = dim->ToString();
    out->set_dim_param(text);
    names->try_emplace(std::move(text), *dim);
  }
}

std::shared_ptr<const Type> Nested(const onnx::TypeProto& proto,
                                   const NamedDims& names) {
  return std::make_shared<const Type>(FromTypeProto(proto, names));
}

}  // namespace

Type FromTypeProto(const onnx::TypeProto& proto, const NamedDims& names) {
  Type type;
  switch (proto.value_case()) {
    case onnx::TypeProto::kTensorType:
      type.kind = TypeKind::kTensor;
      FromTensorType(proto.tensor_type(), names, &type);
      break;
    case onnx::TypeProto::kSparseTensorType:
      type.kind = TypeKind::kSparseTensor;
      FromTensorType(proto.sparse_tensor_type(), names, &type);
      break;
    case onnx::TypeProto::kSequenceType:
      type.kind = TypeKind::kSequence;
      type.nested = Nested(proto.sequence_type().elem_type(), names);
      break;
    case onnx::TypeProto::kOptionalType:
      type.kind = TypeKind::kOptional;
      type.nested = Nested(proto.optional_type().elem_type(), names);
      break;
    case onnx::TypeProto::kMapType:
      type.kind = TypeKind::kMap;
      type.element = FromElementType(proto.map_type().key_type());
      type.nested = Nested(proto.map_type().value_type(), names);
      break;
    case onnx::TypeProto::kOpaqueType:
      type.kind = TypeKind::kOpaque;
      break;
    case onnx::TypeProto::VALUE_NOT_SET:
      break;
  }
  return type;
}

onnx::TypeProto ToTypeProto(const Type& type, NamedDims* names) {
  onnx::TypeProto proto;
  const auto nested = [&] {
    return type.nested ? ToTypeProto(*type.nested, names) : onnx::TypeProto();
  };
  switch (type.kind) {
    case TypeKind::kTensor:
      ToTensorType(type, names, proto.mutable_tensor_type());
      break;
    case TypeKind::kSparseTensor:
      ToTensorType(type, names, proto.mutable_sparse_tensor_type());
      break;
    case TypeKind::kSequence:
      *proto.mutable_sequence_type()->mutable_elem_type() = nested();
      break;
    case TypeKind::kOptional:
      *proto.mutable_optional_type()->mutable_elem_type() = nested();
      break;
    case TypeKind::kMap:
      proto.mutable_map_type()->set_key_type(
          static_cast<int32_t>(type.element));
      *proto.mutable_map_type()->mutable_value_type() = nested();
      break;
    case TypeKind::kOpaque:
      proto.mutable_opaque_type();
      break;
    case TypeKind::kUnknown:
      break;
  }
  return proto;
}

bool MergeType(const Type& other, Type* type) {
  if (other.kind == TypeKind::kUnknown) return true;
  if (type->kind == TypeKind::kUnknown) {
    *type = other;
    return true;
  }
  if (type->kind != other.kind) return false;
  bool agree = true;
  if (type->element == ElementType::kUndefined) {
    type->element = other.element;
  } else if (other.element != ElementType::kUndefined) {
    agree = type->element == other.element;
  }
  if (!type->shape) {
    type->shape = other.shape;
  } else if (other.shape) {
    if (type->shape->size() != other.shape->size()) return false;
    for (size_t i = 0; i < type->shape->size(); ++i) {
      std::optional<Dim>& mine = (*type->shape)[i];
      const std::optional<Dim>& theirs = (*other.shape)[i];
      if (!mine) {
        mine = theirs;
      } else if (theirs && mine->is_constant() && theirs->is_constant()) {
        agree = agree && *mine == *theirs;
      }
    }
  }
  if (!type->nested) {
    type->nested = other.nested;
  } else if (other.nested) {
    Type nested = *type->nested;
    agree = MergeType(*other.nested, &nested) && agree;
    type->nested = std::make_shared<const Type>(std::move(nested));
  }
  return agree;
}

Type JoinTypes(const Type& a, const Type& b) {
  if (a.kind != b.kind) return Type();
  Type joined = a;
  if (a.element != b.element) joined.element = ElementType::kUndefined;
  if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) {
    joined.shape.reset();
  } else {
    for (size_t i = 0; i < a.shape->size(); ++i) {
      if ((*a.shape)[i] != (*b.shape)[i]) (*joined.shape)[i].reset();
    }
  }
  if (a.nested && b.nested) {
    joined.nested =
        std::make_shared<const Type>(JoinTypes(*a.nested, *b.nested));
  } else {
    joined.nested = nullptr;
  }
  return joined;
}

bool IsComplete(const Type& type) {
  switch (type.kind) {
    case TypeKind::kUnknown:
      return false;
    case TypeKind::kTensor:
    case TypeKind::kSparseTensor:
      if (type.element == ElementType::kUndefined || !type.shape) return false;
      for (const std::optional<Dim>& dim : *type.shape) {
        if (!dim) return false;
      }
      return true;
    case TypeKind::kSequence:
    case TypeKind::kOptional:
    case TypeKind::kMap:
      return type.nested != nullptr;
    case TypeKind::kOpaque:
      return true;
  }
  return false;
}

}  // namespace onnx_memopt::io
