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
using ir::NodeId;
using ir::Shape;
using ir::Type;
using ir::ValueId;

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

ValueId SplitBoundary::Add(std::vector<NodeId>* list, BlockId block,
                           absl::string_view op_type,
                           absl::Span<const ValueId> operands, Type type,
                           absl::string_view base,
                           std::vector<ir::Attribute> attributes) {
  const ValueId result = builder_.Op(block, op_type, operands, std::move(type),
                                     base, std::move(attributes));
  list->push_back(builder_.graph().value(result).producer);
  return result;
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
ValueId SplitBoundary::Unsqueeze(std::vector<NodeId>* list, BlockId block,
                                 ValueId value, int axes, const Type& type,
                                 bool squeeze) {
  std::vector<int64_t> numbers(static_cast<size_t>(axes));
  std::iota(numbers.begin(), numbers.end(), 0);
  const absl::string_view op = squeeze ? "Squeeze" : "Unsqueeze";
  const std::string base = builder_.graph().value(value).name;
  auto [operands, attributes] = WithAxes(block, value, base, numbers);
  return Add(list, block, op, operands, type, base, std::move(attributes));
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
        source = Unsqueeze(&before_, outer_, whole, axis,
                           WithShape(type, Shape(type.shape->begin() + axis,
                                                 type.shape->end())),
                           /*squeeze=*/true);
      }
      const ValueId param = builder_.Value(body_, WithShape(type, item),
                                           absl::StrCat(name, "/item"),
                                           ir::ValueKind::kBlockParam);
      operands_.push_back(source);
      params_.push_back(param);
      return Unsqueeze(&body_begin_, body_, param, axis + 1, part_type,
                       /*squeeze=*/false);
    }
    case Form::kStacked: {
      Shape stacked = part_shape;
      stacked.insert(stacked.begin(), parts_);
      const ValueId shape = builder_.Int64s(
          outer_, absl::StrCat(name, "/stacked_shape"), Numbers(stacked));
      operands_.push_back(Add(&before_, outer_, "Reshape", {whole, shape},
                              WithShape(type, stacked),
                              absl::StrCat(name, "/stacked")));
      params_.push_back(builder_.Value(body_, part_type,
                                       absl::StrCat(name, "/part"),
                                       ir::ValueKind::kBlockParam));
      return params_.back();
    }
    case Form::kSliced: {
      ASSIGN_OR_RETURN(const ValueId start,
                       Start(whole, axis, part->constant()));
      const ValueId length = builder_.Int64s(
          body_, absl::StrCat(name, "/length"), {part->constant()});
      const Type index = graph.value(length).type;
      const ValueId end = Add(&body_begin_, body_, "Add", {start, length},
                              index, absl::StrCat(name, "/end"));
      const ValueId axes =
          builder_.Int64s(body_, absl::StrCat(name, "/axis"), {axis});
      return Add(&body_begin_, body_, "Slice", {whole, start, end, axes},
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
        Add(&before_, outer_, "Shape", {whole}, list, "split/shape");
    const ValueId index = builder_.Int64(outer_, "split/axis", axis);
    const ValueId extent =
        Add(&before_, outer_, "Gather", {shape, index}, scalar, "split/extent");
    const ValueId zero = builder_.Int64(outer_, "split/zero", 0);
    const ValueId step = builder_.Int64(outer_, "split/step", part);
    const ValueId range = Add(
        &before_, outer_, "Range", {zero, extent, step},
        Type::Tensor(ir::ElementType::kInt64, Shape{parts_}), "split/range");
    const ValueId rows = builder_.Int64s(outer_, "split/column", {-1, 1});
    all =
        Add(&before_, outer_, "Reshape", {range, rows}, column, "split/starts");
  }
  operands_.push_back(all);
  params_.push_back(builder_.Value(
      body_, Type::Tensor(ir::ElementType::kInt64, Shape{Dim(1)}),
      "split/start", ir::ValueKind::kBlockParam));
  starts_.emplace_back(part, params_.back());
  return params_.back();
}

absl::Status SplitBoundary::EnsureInput() {
  if (!operands_.empty()) return absl::OkStatus();
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
    after_.push_back(builder_.Node(outer_, op, operands, {whole},
                                   absl::StrCat(name, "/", op),
                                   std::move(attributes)));
  };
  const auto scanned = [&](const Shape& shape) {
    const ValueId value = builder_.Value(outer_, WithShape(type, shape),
                                         absl::StrCat(name, "/parts"));
    results_.push_back(value);
    return value;
  };
  const int rank = static_cast<int>(type.shape->size());

  if (form == Form::kItem) {
    const Shape item(type.shape->begin() + axis + 1, type.shape->end());
    body_results_.push_back(Unsqueeze(&body_end_, body_, part, axis + 1,
                                      WithShape(type, item),
                                      /*squeeze=*/true));
    if (axis == 0) {
      results_.push_back(whole);
      return absl::OkStatus();
    }
    const Shape items(type.shape->begin() + axis, type.shape->end());
    std::vector<int64_t> axes(static_cast<size_t>(axis));
    std::iota(axes.begin(), axes.end(), 0);
    const ValueId source = scanned(items);
    auto [operands, attributes] = WithAxes(outer_, source, name, axes);
    finish("Unsqueeze", operands, std::move(attributes));
    return absl::OkStatus();
  }

  Shape stacked = *part_type.shape;
  stacked.insert(stacked.begin(), parts_);
  if (form == Form::kStacked) {
    body_results_.push_back(part);
    finish(
        "Reshape",
        {scanned(stacked), builder_.Int64s(outer_, absl::StrCat(name, "/shape"),
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
    body_results_.push_back(Add(&body_end_, body_, "Squeeze", operands,
                                WithShape(type, item), name,
                                std::move(attributes)));
    for (int i = axis + 1; i < rank; ++i) permutation.push_back(i);
    item.insert(item.begin(), parts_);
    finish("Transpose", {scanned(item)}, {{"perm", permutation}});
    return absl::OkStatus();
  }
  if (!AllConstant(*type.shape)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", Printable(name), "\" cannot be joined: its shape is ",
        ToString(*type.shape)));
  }
  for (int i = axis; i < rank; ++i) permutation.push_back(i + 1);
  body_results_.push_back(part);
  Shape transposed;
  for (int64_t from : permutation) transposed.push_back(stacked[from]);
  const ValueId ordered =
      Add(&after_, outer_, "Transpose", {scanned(stacked)},
          WithShape(type, transposed), absl::StrCat(name, "/ordered"),
          {{"perm", permutation}});
  finish("Reshape",
         {ordered, builder_.Int64s(outer_, absl::StrCat(name, "/shape"),
                                   Numbers(*type.shape))},
         {});
  return absl::OkStatus();
}

absl::StatusOr<ValueId> SplitBoundary::PartShape(
    ValueId shape, const std::vector<Replacement>& replacements) {
  ir::Graph& graph = builder_.graph();
  const std::string name = graph.value(shape).name;
  const Type type = graph.value(shape).type;
  if (!type.is_tensor() || type.element != ir::ElementType::kInt64 ||
      !type.shape || type.shape->size() != 1 || !(*type.shape)[0] ||
      !(*type.shape)[0]->is_constant()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", Printable(name), "\" is no list of extents that can be edited"));
  }
  const auto& contents = graph.value(shape).contents;
  const auto count = static_cast<int>((*type.shape)[0]->constant());
  std::vector<std::optional<Dim>> elements(static_cast<size_t>(count));
  if (contents != nullptr) {
    for (int i = 0; i < count; ++i) elements[i] = contents->elements[i].integer;
  }
  for (const Replacement& r : replacements) elements[r.element] = r.extent;
  if (AllConstant(Shape(elements.begin(), elements.end()))) {
    return builder_.Int64s(body_, absl::StrCat(name, "/part"),
                           Numbers(Shape(elements.begin(), elements.end())));
  }
  // Elements that are not replaced are read when the model runs.
  std::vector<ValueId> pieces;
  const auto read = [&](int begin, int end) {
    if (begin == end) return;
    const Type list =
        Type::Tensor(ir::ElementType::kInt64, Shape{Dim(end - begin)});
    pieces.push_back(Add(
        &before_, outer_, "Slice",
        {shape, builder_.Int64s(outer_, absl::StrCat(name, "/begin"), {begin}),
         builder_.Int64s(outer_, absl::StrCat(name, "/end"), {end})},
        list, absl::StrCat(name, "/piece")));
  };
  std::vector<Replacement> sorted = replacements;
  std::sort(sorted.begin(), sorted.end(),
            [](const Replacement& a, const Replacement& b) {
              return a.element < b.element;
            });
  int next = 0;
  int inferred = 0;
  for (const Replacement& r : sorted) {
    read(next, r.element);
    next = r.element + 1;
    int64_t number = -1;
    if (r.extent.is_constant()) {
      number = r.extent.constant();
    } else if (++inferred > 1) {
      return absl::FailedPreconditionError(absl::StrCat(
          "\"", Printable(name), "\" has two extents that depend on the run"));
    }
    pieces.push_back(
        builder_.Int64s(outer_, absl::StrCat(name, "/extent"), {number}));
  }
  read(next, count);
  if (inferred > 0) {
    for (int i = 0; i < count; ++i) {
      // Another -1 would make it ambiguous; an unknown element may be one.
      if (!elements[i].has_value() || *elements[i] == Dim(-1)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "\"", Printable(name), "\" may have another extent to infer"));
      }
    }
  }
  return Add(&before_, outer_, "Concat", pieces, type,
             absl::StrCat(name, "/part"), {{"axis", int64_t{0}}});
}

}  // namespace onnx_memopt::rewrite
