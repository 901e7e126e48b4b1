// ResolveTensor and ResolveSparseTensor of loaded_model.h.

#include <algorithm>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "io/external_data.h"
#include "io/tensor_fields.h"
#include "io/type_proto.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

using ir::ElementType;
using ir::Weight;
using ir::WeightStorage;
using Dims = google::protobuf::RepeatedField<int64_t>;

std::string DimsText(const Dims& dims) {
  constexpr int kShown = 8;
  const int shown = std::min(dims.size(), kShown);
  return absl::StrCat("[",
                      absl::StrJoin(dims.begin(), dims.begin() + shown, ", "),
                      dims.size() > kShown ? ", ..]" : "]");
}

// Elements of a shape; checks dims and their product.
absl::StatusOr<int64_t> CountElements(const Dims& dims) {
  if (dims.size() > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("has ", dims.size(),
                                                   " dimensions, at most ",
                                                   kMaxRank, " are allowed"));
  }
  bool empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("has a negative dimension in ", DimsText(dims)));
    }
    empty = empty || dim == 0;
  }
  if (empty) return 0;
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    const std::optional<int64_t> product = CheckedMul(elements, dim);
    if (!product.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("is too large: shape ", DimsText(dims)));
    }
    elements = *product;
  }
  return elements;
}

absl::StatusOr<ElementType> CheckElementType(int32_t data_type) {
  if (data_type == onnx::TensorProto::UNDEFINED) {
    return absl::InvalidArgumentError("has no element type");
  }
  if (data_type > 0 && data_type <= UINT8_MAX) {
    const ElementType type = static_cast<ElementType>(data_type);
    if (ir::BitWidth(type).has_value()) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("has unknown element type ", data_type));
}

absl::Status ResolveExternal(const LoadedModel& model,
                             const onnx::TensorProto& tensor, Weight* weight) {
  if (weight->element == ElementType::kString) {
    return absl::InvalidArgumentError("strings cannot be external data");
  }
  ASSIGN_OR_RETURN(const ExternalEntry entry, ParseExternalEntry(tensor));
  ASSIGN_OR_RETURN(const ExternalFile file,
                   LocateExternalFile(model.directory(), entry.location));
  const int64_t size = weight->size_bytes;
  if (entry.length_bytes.value_or(size) != size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "external data has length ", *entry.length_bytes, ", shape ",
        DimsText(tensor.dims()), " needs ", size, " bytes"));
  }
  const std::optional<int64_t> end = CheckedAdd(entry.offset_bytes, size);
  if (!end.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "external data offset ", entry.offset_bytes, " is too large"));
  }
  if (file.size_bytes.has_value() && *end > *file.size_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "external data ends at byte ", *end, ", but \"",
        Printable(entry.location), "\" has ", *file.size_bytes, " bytes"));
  }
  weight->storage = WeightStorage::kExternal;
  weight->external = {.path = file.path,
                      .offset_bytes = entry.offset_bytes,
                      .length_bytes = size};
  return absl::OkStatus();
}

absl::Status ResolveInline(const LoadedModel& model,
                           const onnx::TensorProto& tensor, int64_t elements,
                           Weight* weight) {
  ASSIGN_OR_RETURN(const TensorField field,
                   FindTensorField(tensor, model.payloads()));
  if (field.number == 0 && elements > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("has no data; shape ", DimsText(tensor.dims()), " needs ",
                     elements, " elements"));
  }
  if (field.number != 0) {
    const std::optional<int64_t> needed =
        EntriesFor(weight->element, elements, field.number);
    if (!needed.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("has elements of type ", ir::Name(weight->element),
                       " in ", FieldName(field.number)));
    }
    if (*needed != field.entries) {
      const bool raw = field.number == onnx::TensorProto::kRawDataFieldNumber;
      return absl::InvalidArgumentError(
          absl::StrCat("has ", field.entries, raw ? " bytes" : " entries",
                       " in ", FieldName(field.number), ", shape ",
                       DimsText(tensor.dims()), " needs ", *needed));
    }
  }
  const std::optional<absl::string_view> bytes =
      ElementBytes(tensor, weight->element, field);
  if (bytes.has_value()) {
    weight->storage = WeightStorage::kRaw;
    weight->bytes = *bytes;
    return absl::OkStatus();
  }
  weight->storage = WeightStorage::kTyped;
  weight->bytes = field.payload != nullptr
                      ? field.payload->bytes
                      : model.Intern(EncodeField(tensor, field.number));
  return absl::OkStatus();
}

absl::StatusOr<Weight> Resolve(const LoadedModel& model,
                               const onnx::TensorProto& tensor) {
  Weight weight;
  if (tensor.has_segment()) {
    return absl::InvalidArgumentError(
        "is one segment of a tensor, which is not supported");
  }
  ASSIGN_OR_RETURN(weight.element, CheckElementType(tensor.data_type()));
  ASSIGN_OR_RETURN(const int64_t elements, CountElements(tensor.dims()));
  const std::optional<int64_t> bits =
      CheckedMul(elements, *ir::BitWidth(weight.element));
  if (!bits.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("is too large: ", ir::Name(weight.element), " ",
                     DimsText(tensor.dims())));
  }
  weight.dims.assign(tensor.dims().begin(), tensor.dims().end());
  weight.size_bytes = CeilDiv(*bits, 8);
  RETURN_IF_ERROR(IsExternal(tensor)
                      ? ResolveExternal(model, tensor, &weight)
                      : ResolveInline(model, tensor, elements, &weight));
  return weight;
}

absl::StatusOr<Weight> ResolveSparse(const LoadedModel& model,
                                     const onnx::SparseTensorProto& tensor) {
  if (!tensor.has_values() || !tensor.has_indices()) {
    return absl::InvalidArgumentError(
        "is sparse and lacks its values or indices");
  }
  ASSIGN_OR_RETURN(const Weight values, Resolve(model, tensor.values()));
  ASSIGN_OR_RETURN(const Weight indices, Resolve(model, tensor.indices()));
  RETURN_IF_ERROR(CountElements(tensor.dims()).status());
  if (values.dims.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is sparse and has values of shape ", DimsText(tensor.values().dims()),
        ", expected one "
        "dimension"));
  }
  const auto& shape = indices.dims;
  const int64_t rank = tensor.dims_size();
  const bool linear = shape.size() == 1;
  const bool tuples = shape.size() == 2 && shape[1] == rank;
  if (indices.element != ElementType::kInt64 || !(linear || tuples) ||
      shape[0] != values.dims[0]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is sparse and has indices ", ir::Name(indices.element), " ",
        DimsText(tensor.indices().dims()), ", expected int64 [", values.dims[0],
        "] or [", values.dims[0], ", ", rank, "]"));
  }
  Weight weight;
  weight.element = values.element;
  weight.dims.assign(tensor.dims().begin(), tensor.dims().end());
  weight.storage = WeightStorage::kSparse;
  const std::optional<int64_t> size =
      CheckedAdd(values.size_bytes, indices.size_bytes);
  if (!size.has_value()) return absl::InvalidArgumentError("is too large");
  weight.size_bytes = *size;
  return weight;
}

absl::StatusOr<Weight> Named(absl::StatusOr<Weight> weight,
                             absl::string_view name) {
  if (!weight.ok()) {
    return absl::Status(weight.status().code(),
                        absl::StrCat("tensor \"", Printable(name), "\" ",
                                     weight.status().message()));
  }
  weight->name = std::string(name);
  return weight;
}

}  // namespace

absl::StatusOr<Weight> ResolveTensor(const LoadedModel& model,
                                     const onnx::TensorProto& tensor,
                                     absl::string_view name) {
  return Named(Resolve(model, tensor), name);
}

absl::StatusOr<Weight> ResolveSparseTensor(
    const LoadedModel& model, const onnx::SparseTensorProto& tensor,
    absl::string_view name) {
  return Named(ResolveSparse(model, tensor), name);
}

}  // namespace onnx_memopt::io
