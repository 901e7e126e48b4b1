#include "rewrite/split_boundary.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::BlockId;
using ir::Dim;
using ir::Shape;
using ir::Type;
using ir::ValueId;
using Place = BoundaryNodes::Place;

bool AllConstant(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const auto& dim) {
    return dim.has_value() && dim->is_constant();
  });
}

std::vector<int64_t> Numbers(const Shape& shape) {
  std::vector<int64_t> numbers;
  for (const auto& dim : shape) numbers.push_back(dim->constant());
  return numbers;
}

Type WithShape(const Type& type, Shape shape) {
  return Type::Tensor(type.element, std::move(shape));
}

}  // namespace

absl::StatusOr<SplitBoundary::Form> SplitBoundary::FormOf(
    const Type& type, int axis, const Dim& part) const {
  if (!CanBuildWith(type.element)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "elements of type ", Name(type.element), " are not sliced"));
  }
  if (!part.is_constant()) {
    return absl::FailedPreconditionError(
        absl::StrCat("a part has ", part.ToString(), " elements"));
  }
  const Shape& shape = *type.shape;
  // In Reshape's operand a 0 stands for something else.
  if (std::find(shape.begin(), shape.end(), std::optional<Dim>(Dim(0))) !=
      shape.end()) {
    return absl::FailedPreconditionError("a tensor is empty");
  }
  const bool leading_ones = std::all_of(
      shape.begin(), shape.begin() + axis,
      [](const auto& dim) { return dim.has_value() && *dim == Dim(1); });
  if (!leading_ones) return Form::kSliced;
  if (part == Dim(1)) return Form::kItem;
  return AllConstant(shape) && parts_.is_constant() ? Form::kStacked
                                                    : Form::kSliced;
}

// How Squeeze and Unsqueeze are told their axes: an operand since version 13.
std::pair<std::vector<ValueId>, std::vector<ir::Attribute>>
SplitBoundary::WithAxes(BlockId block, ValueId value, absl::string_view base,
                        const std::vector<int64_t>& axes) {
  if (builder_.opset() < 13) return {{value}, {{"axes", axes}}};
  return {{value, builder_.Int64s(block, absl::StrCat(base, "/axes"), axes)},
          {}};
}

// Adds or removes the first `axes` axes, each of extent 1.
ValueId SplitBoundary::Unsqueeze(Place place, ValueId value, int axes,
                                 const Type& type, bool squeeze) {
  std::vector<int64_t> numbers(static_cast<size_t>(axes));
  std::iota(numbers.begin(), numbers.end(), 0);
  const absl::string_view op = squeeze ? "Squeeze" : "Unsqueeze";
  const std::string base = builder_.graph().value(value).name;
  auto [operands, attributes] =
      WithAxes(nodes_.block(place), value, base, numbers);
  return nodes_.Add(place, op, operands, type, base, std::move(attributes));
}

absl::StatusOr<ValueId> SplitBoundary::Input(ValueId whole, int axis) {
  ir::Graph& graph = builder_.graph();
  const Type type = graph.value(whole).type;
  const std::string name = graph.value(whole).name;
  const std::optional<Dim> part = DivideExact(*(*type.shape)[axis], parts_);
  if (!part.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("\"", Printable(name), "\" has no whole parts"));
  }
  ASSIGN_OR_RETURN(const Form form, FormOf(type, axis, *part));
  Shape part_shape = *type.shape;
  part_shape[axis] = *part;
  const Type part_type = WithShape(type, part_shape);
  switch (form) {
    case Form::kItem: {
      const Shape item(type.shape->begin() + axis + 1, type.shape->end());
      ValueId source = whole;
      if (axis > 0) {
        source = Unsqueeze(Place::kBefore, whole, axis,
                           WithShape(type, Shape(type.shape->begin() + axis,
                                                 type.shape->end())),
                           /*squeeze=*/true);
      }
      const ValueId param = nodes_.ScanOver(source, WithShape(type, item),
                                            absl::StrCat(name, "/item"));
      return Unsqueeze(Place::kBodyBegin, param, axis + 1, part_type,
                       /*squeeze=*/false);
    }
    case Form::kStacked: {
      Shape stacked = part_shape;
      stacked.insert(stacked.begin(), parts_);
      const ValueId shape = builder_.Int64s(
          outer_, absl::StrCat(name, "/stacked_shape"), Numbers(stacked));
      const ValueId source =
          nodes_.Add(Place::kBefore, "Reshape", {whole, shape},
                     WithShape(type, stacked), absl::StrCat(name, "/stacked"));
      return nodes_.ScanOver(source, part_type, absl::StrCat(name, "/part"));
    }
    case Form::kSliced: {
      ASSIGN_OR_RETURN(const ValueId start,
                       Start(whole, axis, part->constant()));
      const ValueId length = builder_.Int64s(
          body_, absl::StrCat(name, "/length"), {part->constant()});
      const Type index = graph.value(length).type;
      const ValueId end = nodes_.Add(Place::kBodyBegin, "Add", {start, length},
                                     index, absl::StrCat(name, "/end"));
      const ValueId axes =
          builder_.Int64s(body_, absl::StrCat(name, "/axis"), {axis});
      return nodes_.Add(Place::kBodyBegin, "Slice", {whole, start, end, axes},
                        part_type, absl::StrCat(name, "/part"));
    }
  }
  return absl::InternalError("unknown form");
}

absl::StatusOr<ValueId> SplitBoundary::Start(ValueId whole, int axis,
                                             int64_t part) {
  for (const auto& [extent, start] : starts_) {
    if (extent == part) return start;
  }
  ir::Graph& graph = builder_.graph();
  const Type column =
      Type::Tensor(ir::ElementType::kInt64, Shape{parts_, Dim(1)});
  ValueId all = ir::kNoValue;
  if (parts_.is_constant()) {
    std::vector<int64_t> numbers(static_cast<size_t>(parts_.constant()));
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<int64_t>(i) * part;
    }
    all = builder_.Int64Column(outer_, "split/starts", numbers);
  } else {
    // 0, part, 2 * part, ... below the extent of the axis.
    const Type list = Type::Tensor(
        ir::ElementType::kInt64, Shape{Dim(static_cast<int64_t>(
                                     graph.value(whole).type.shape->size()))});
    const Type scalar = Type::Tensor(ir::ElementType::kInt64, Shape{});
    const ValueId shape =
        nodes_.Add(Place::kBefore, "Shape", {whole}, list, "split/shape");
    const ValueId index = builder_.Int64(outer_, "split/axis", axis);
    const ValueId extent = nodes_.Add(Place::kBefore, "Gather", {shape, index},
                                      scalar, "split/extent");
    const ValueId zero = builder_.Int64(outer_, "split/zero", 0);
    const ValueId step = builder_.Int64(outer_, "split/step", part);
    const ValueId range = nodes_.Add(
        Place::kBefore, "Range", {zero, extent, step},
        Type::Tensor(ir::ElementType::kInt64, Shape{parts_}), "split/range");
    const ValueId rows = builder_.Int64s(outer_, "split/column", {-1, 1});
    all = nodes_.Add(Place::kBefore, "Reshape", {range, rows}, column,
                     "split/starts");
  }
  const ValueId start = nodes_.ScanOver(
      all, Type::Tensor(ir::ElementType::kInt64, Shape{Dim(1)}), "split/start");
  starts_.emplace_back(part, start);
  return start;
}

absl::Status SplitBoundary::EnsureInput() {
  if (!nodes_.operands().empty()) return absl::OkStatus();
  if (!parts_.is_constant()) {
    return absl::FailedPreconditionError(
        "nothing that is split comes in, and the number of parts is not known");
  }
  return Start(ir::kNoValue, 0, 1).status();
}

absl::Status SplitBoundary::Output(ValueId part, ValueId whole, int axis) {
  ir::Graph& graph = builder_.graph();
  const Type type = graph.value(whole).type;
  const Type part_type = graph.value(part).type;
  const std::string name = graph.value(whole).name;
  const Dim extent = *(*part_type.shape)[axis];
  ASSIGN_OR_RETURN(const Form form, FormOf(type, axis, extent));
  // The values between the body's result and `whole`: what the Scan gives, then
  // what each node after it gives; the last one is `whole` itself.
  const auto finish = [&](absl::string_view op,
                          const std::vector<ValueId>& operands,
                          std::vector<ir::Attribute> attributes) {
    nodes_.Define(whole, op, operands, absl::StrCat(name, "/", op),
                  std::move(attributes));
  };
  const auto scanned = [&](ValueId inner, const Shape& shape) {
    const ValueId value = builder_.Value(outer_, WithShape(type, shape),
                                         absl::StrCat(name, "/parts"));
    nodes_.Return(inner, value);
    return value;
  };
  const int rank = static_cast<int>(type.shape->size());

  if (form == Form::kItem) {
    const Shape item(type.shape->begin() + axis + 1, type.shape->end());
    const ValueId inner =
        Unsqueeze(Place::kBodyEnd, part, axis + 1, WithShape(type, item),
                  /*squeeze=*/true);
    if (axis == 0) {
      nodes_.Return(inner, whole);
      return absl::OkStatus();
    }
    const Shape items(type.shape->begin() + axis, type.shape->end());
    std::vector<int64_t> axes(static_cast<size_t>(axis));
    std::iota(axes.begin(), axes.end(), 0);
    const ValueId source = scanned(inner, items);
    auto [operands, attributes] = WithAxes(outer_, source, name, axes);
    finish("Unsqueeze", operands, std::move(attributes));
    return absl::OkStatus();
  }

  Shape stacked = *part_type.shape;
  stacked.insert(stacked.begin(), parts_);
  if (form == Form::kStacked) {
    finish("Reshape",
           {scanned(part, stacked),
            builder_.Int64s(outer_, absl::StrCat(name, "/shape"),
                            Numbers(*type.shape))},
           {});
    return absl::OkStatus();
  }

  // Sliced: the parts come first, and have to go before the axis.
  std::vector<int64_t> permutation(static_cast<size_t>(axis));
  std::iota(permutation.begin(), permutation.end(), 1);
  permutation.push_back(0);
  if (extent == Dim(1)) {
    // Without the axis: [parts, before..., after...].
    Shape item = *part_type.shape;
    item.erase(item.begin() + axis);
    auto [operands, attributes] = WithAxes(body_, part, name, {axis});
    const ValueId inner =
        nodes_.Add(Place::kBodyEnd, "Squeeze", operands, WithShape(type, item),
                   name, std::move(attributes));
    for (int i = axis + 1; i < rank; ++i) permutation.push_back(i);
    item.insert(item.begin(), parts_);
    finish("Transpose", {scanned(inner, item)}, {{"perm", permutation}});
    return absl::OkStatus();
  }
  if (!AllConstant(*type.shape)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", Printable(name), "\" cannot be joined: its shape is ",
        ToString(*type.shape)));
  }
  for (int i = axis; i < rank; ++i) permutation.push_back(i + 1);
  Shape transposed;
  for (int64_t from : permutation) transposed.push_back(stacked[from]);
  const ValueId ordered =
      nodes_.Add(Place::kAfter, "Transpose", {scanned(part, stacked)},
                 WithShape(type, transposed), absl::StrCat(name, "/ordered"),
                 {{"perm", permutation}});
  finish("Reshape",
         {ordered, builder_.Int64s(outer_, absl::StrCat(name, "/shape"),
                                   Numbers(*type.shape))},
         {});
  return absl::OkStatus();
}

}  // namespace onnx_memopt::rewrite
