#include "rewrite/window_boundary.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Dim;
using ir::ElementType;
using ir::NodeId;
using ir::Shape;
using ir::Type;
using ir::ValueId;
using Place = BoundaryNodes::Place;

// Min and Max of integers.
constexpr int kOpsetOfRunTimeExtents = 12;
constexpr int kOpsetOfAllowZero = 14;
// A table of indices is a weight; beyond this it is no small one.
constexpr int64_t kMaxTable = 1 << 20;

Type Int64List(Dim count) {
  return Type::Tensor(ElementType::kInt64, Shape{std::move(count)});
}

std::vector<int64_t> Count(int64_t n) {
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  return numbers;
}

absl::Status CheckElement(const Type& type) {
  if (CanBuildWith(type.element)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("elements of type ", Name(type.element), " are not sliced"));
}

bool AllKnown(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(),
                     [](const auto& dim) { return dim.has_value(); });
}

}  // namespace

absl::StatusOr<ValueId> WindowBoundary::Input(ValueId whole, int axis,
                                              int level) {
  std::vector<NodeId> order;
  ASSIGN_OR_RETURN(const ValueId range,
                   Take(whole, whole, axis, kOutside, level, &order));
  return range;
}

absl::StatusOr<ValueId> WindowBoundary::Cut(ValueId inner, ValueId whole,
                                            int axis, int from, int to,
                                            std::vector<NodeId>* order,
                                            int unit_axes) {
  const auto& levels = windows_.levels();
  if (levels[static_cast<size_t>(from)].length ==
          levels[static_cast<size_t>(to)].length &&
      levels[static_cast<size_t>(from)].before ==
          levels[static_cast<size_t>(to)].before &&
      (windows_.grain() == 1 || to != windows_.part_level()) &&
      windows_.deficit(whole, axis) == 0) {
    return inner;
  }
  return Take(inner, whole, axis, from, to, order, unit_axes);
}

absl::StatusOr<ValueId> WindowBoundary::Take(ValueId from_value, ValueId whole,
                                             int axis, int from, int to,
                                             std::vector<NodeId>* order,
                                             int unit_axes) {
  const ir::Graph& graph = builder_.graph();
  const Type type = graph.value(from_value).type;
  const std::string name = graph.value(whole).name;
  RETURN_IF_ERROR(CheckElement(type));
  const int64_t size = windows_.full_size(whole, axis, to);
  if (size > kMaxTable) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a part of \"", Printable(name), "\" has ", size, " elements"));
  }
  ASSIGN_OR_RETURN(const ValueId begin, OffsetParam(whole, axis, from, to));
  Shape shape = *type.shape;
  const std::string base = absl::StrCat(name, "/range");
  const Place place = from == kOutside ? Place::kBodyBegin : Place::kBodyEnd;
  const auto add = [&](absl::string_view op,
                       std::initializer_list<ValueId> operands, Type result,
                       absl::string_view what,
                       std::vector<ir::Attribute> attributes) {
    if (place == Place::kBodyBegin) {
      return nodes_.Add(place, op, operands, std::move(result), what,
                        std::move(attributes));
    }
    const ValueId value =
        builder_.Op(nodes_.body(), op, operands, std::move(result), what,
                    std::move(attributes));
    order->push_back(graph.value(value).producer);
    return value;
  };
  if (windows_.extent().is_constant()) {
    shape[axis] = Dim(size);
    auto indices = indices_.find(size);
    if (indices == indices_.end()) {
      indices =
          indices_
              .try_emplace(size, builder_.Int64s(nodes_.body(), "split/indices",
                                                 Count(size)))
              .first;
    }
    ValueId at = add("Add", {indices->second, begin}, Int64List(size),
                     absl::StrCat(name, "/at"), {});
    if (unit_axes > 0) {
      std::vector<int64_t> dims(static_cast<size_t>(unit_axes) + 1, 1);
      dims[0] = size;
      Shape index;
      for (const int64_t dim : dims) index.emplace_back(dim);
      shape.insert(shape.begin() + axis + 1, static_cast<size_t>(unit_axes),
                   std::optional<Dim>(1));
      const ValueId target = builder_.Int64s(
          nodes_.body(), absl::StrCat(name, "/index_shape"), dims);
      at =
          add("Reshape", {at, target}, Type::Tensor(ElementType::kInt64, index),
              absl::StrCat(name, "/index"), {});
    }
    return add("Gather", {from_value, at}, Type::Tensor(type.element, shape),
               base, {{"axis", int64_t{axis}}});
  }
  const std::optional<Dim> extent = (*graph.value(whole).type.shape)[axis];
  shape[axis] = Min(*extent, Dim(size)).value_or(Dim(size));
  const ValueId length =
      builder_.Int64s(nodes_.body(), absl::StrCat(name, "/length"), {size});
  const ValueId end =
      add("Add", {begin, length}, Int64List(1), absl::StrCat(name, "/end"), {});
  const ValueId axes =
      builder_.Int64s(nodes_.body(), absl::StrCat(name, "/axis"), {axis});
  return add("Slice", {from_value, begin, end, axes},
             Type::Tensor(type.element, shape), base, {});
}

absl::StatusOr<ValueId> WindowBoundary::OffsetParam(ValueId whole, int axis,
                                                    int from, int to) {
  const Ratio ratio = windows_.ratio(whole, axis);
  for (const Offset& known : offsets_) {
    if (known.from == from && known.to == to &&
        known.ratio.num * ratio.den == ratio.num * known.ratio.den) {
      return known.param;
    }
  }
  ValueId list = ir::kNoValue;
  if (windows_.extent().is_constant()) {
    const int64_t parts = windows_.parts().constant();
    if (parts > kMaxTable) {
      return absl::FailedPreconditionError("too many parts");
    }
    std::vector<int64_t> numbers = Count(parts);
    for (int64_t& number : numbers) {
      const int64_t step = number;
      number = windows_.Begin(to, step) -
               (from == kOutside ? 0 : windows_.Begin(from, step));
      number = number * ratio.num / ratio.den;
    }
    list = builder_.Int64Column(nodes_.outer(), "split/starts", numbers);
  } else {
    ASSIGN_OR_RETURN(list, OffsetsAtRunTime(whole, axis, from, to));
  }
  const ValueId param = nodes_.ScanOver(list, Int64List(1), "split/start");
  offsets_.push_back({.from = from, .to = to, .ratio = ratio, .param = param});
  return param;
}

ValueId WindowBoundary::Before(absl::string_view op, ValueId a, ValueId b) {
  const Type& of_a = builder_.graph().value(a).type;
  const Type& of_b = builder_.graph().value(b).type;
  // One of them has one element.
  const Type result = *of_a.shape == Shape{Dim(1)} ? of_b : of_a;
  return nodes_.Add(Place::kBefore, op, {a, b}, result, "split/extent");
}

ValueId WindowBoundary::Before(absl::string_view op, ValueId a, int64_t b) {
  return Before(op, a, builder_.Int64s(nodes_.outer(), "split/number", {b}));
}

ValueId WindowBoundary::Scalar(ValueId list) {
  const ValueId shape = builder_.Int64s(nodes_.outer(), "split/scalar", {});
  return nodes_.Add(Place::kBefore, "Reshape", {list, shape},
                    Type::Tensor(ElementType::kInt64, Shape{}), "split/extent");
}

ValueId WindowBoundary::ExtentAtRunTime(ValueId whole, int axis) {
  if (extent_ != ir::kNoValue) return extent_;
  const auto rank =
      static_cast<int64_t>(builder_.graph().value(whole).type.shape->size());
  const ValueId shape = nodes_.Add(Place::kBefore, "Shape", {whole},
                                   Int64List(rank), "split/shape");
  const ValueId index = builder_.Int64s(nodes_.outer(), "split/axis", {axis});
  extent_ = nodes_.Add(Place::kBefore, "Gather", {shape, index}, Int64List(1),
                       "split/extent");
  const Ratio ratio = windows_.ratio(whole, axis);
  const int64_t deficit = windows_.deficit(whole, axis);
  if (ratio.den != 1) extent_ = Before("Mul", extent_, ratio.den);
  if (deficit != 0) extent_ = Before("Add", extent_, deficit);
  if (ratio.num != 1) extent_ = Before("Div", extent_, ratio.num);
  return extent_;
}

ValueId WindowBoundary::BeginsAtRunTime(ValueId extent, int level) {
  for (const auto& [known, begins] : begins_) {
    if (known == level) return begins;
  }
  ValueId begins = ir::kNoValue;
  if (level == windows_.part_level()) {
    const ValueId zero = builder_.Int64(nodes_.outer(), "split/zero", 0);
    const ValueId step =
        builder_.Int64(nodes_.outer(), "split/step", windows_.part());
    // Runtimes do not go over nothing: an empty tensor is one empty part.
    const ValueId end = Scalar(Before("Max", extent, 1));
    const ValueId all = nodes_.Add(Place::kBefore, "Range", {zero, end, step},
                                   Int64List(windows_.parts()), "split/range");
    begins = Before(
        "Max", Before("Min", all, Before("Sub", extent, windows_.part())), 0);
  } else {
    const auto& at = windows_.levels()[static_cast<size_t>(level)];
    const ValueId parts = BeginsAtRunTime(extent, windows_.part_level());
    begins = Before("Max",
                    Before("Min", Before("Sub", parts, at.before),
                           Before("Sub", extent, at.length)),
                    0);
  }
  begins_.emplace_back(level, begins);
  return begins;
}

absl::StatusOr<ValueId> WindowBoundary::OffsetsAtRunTime(ValueId whole,
                                                         int axis, int from,
                                                         int to) {
  if (builder_.opset() < kOpsetOfRunTimeExtents) {
    return absl::FailedPreconditionError(absl::StrCat(
        "ranges of an extent with a name need opset ", kOpsetOfRunTimeExtents));
  }
  // Only what comes from outside has a shape before the Scan.
  if (from != kOutside && extent_ == ir::kNoValue) {
    return absl::FailedPreconditionError(
        "nothing that is split comes in, and the number of parts is not known");
  }
  const ValueId extent =
      from == kOutside ? ExtentAtRunTime(whole, axis) : extent_;
  ValueId begins = BeginsAtRunTime(extent, to);
  if (from != kOutside) {
    begins = Before("Sub", begins, BeginsAtRunTime(extent, from));
  }
  const Ratio ratio = windows_.ratio(whole, axis);
  if (ratio.num != 1) begins = Before("Mul", begins, ratio.num);
  if (ratio.den != 1) begins = Before("Div", begins, ratio.den);
  const ValueId column =
      builder_.Int64s(nodes_.outer(), "split/column", {-1, 1});
  return nodes_.Add(
      Place::kBefore, "Reshape", {begins, column},
      Type::Tensor(ElementType::kInt64, Shape{windows_.parts(), Dim(1)}),
      "split/starts");
}

ValueId WindowBoundary::KeptIndices(ValueId whole, int axis) {
  const int64_t scale = windows_.ratio(whole, axis).num;
  const Dim& extent = *(*builder_.graph().value(whole).type.shape)[axis];
  if (windows_.extent().is_constant()) {
    const int64_t rows = windows_.parts().constant() * windows_.part() * scale;
    std::vector<int64_t> kept = Count(extent.constant());
    const int64_t last = extent.constant() - windows_.part() * scale;
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i] >= last) kept[i] += rows - extent.constant();
    }
    return builder_.Int64s(nodes_.outer(), "split/kept", kept);
  }
  // All before the last part, then the last part, of as many as there are.
  const ValueId part = Before("Min", extent_, windows_.part());
  const auto scaled = [&](ValueId list) {
    return Scalar(scale == 1 ? list : Before("Mul", list, scale));
  };
  const ValueId rows = RowsAtRunTime();
  const ValueId zero = builder_.Int64(nodes_.outer(), "split/zero", 0);
  const ValueId one = builder_.Int64(nodes_.outer(), "split/one", 1);
  const Type unknown = Int64List(extent);
  const ValueId first =
      nodes_.Add(Place::kBefore, "Range",
                 {zero, scaled(Before("Sub", extent_, part)), one}, unknown,
                 "split/kept_first");
  const ValueId last =
      nodes_.Add(Place::kBefore, "Range",
                 {scaled(Before("Sub", rows, part)), scaled(rows), one},
                 unknown, "split/kept_last");
  return nodes_.Add(Place::kBefore, "Concat", {first, last}, unknown,
                    "split/kept", {{"axis", int64_t{0}}});
}

// The extents of `joined`, for a Reshape of `ordered`, in which the parts are
// an axis of their own before `axis`.
ValueId WindowBoundary::JoinedShape(ValueId ordered, const Shape& joined,
                                    int64_t rows_each, int axis) {
  std::vector<int64_t> numbers;
  for (const auto& dim : joined) {
    if (!dim->is_constant()) break;
    numbers.push_back(dim->constant());
  }
  if (numbers.size() == joined.size()) {
    return builder_.Int64s(nodes_.outer(), "split/joined", numbers);
  }
  const auto rank = static_cast<int64_t>(joined.size());
  const ValueId shape = nodes_.Add(Place::kAfter, "Shape", {ordered},
                                   Int64List(rank + 1), "split/shape");
  std::vector<ValueId> pieces;
  for (int64_t i = 0; i < rank; ++i) {
    const Dim& dim = *joined[static_cast<size_t>(i)];
    if (dim.is_constant()) {
      pieces.push_back(
          builder_.Int64s(nodes_.outer(), "split/extent", {dim.constant()}));
    } else if (i == axis) {
      const ValueId rows = RowsAtRunTime();
      pieces.push_back(rows_each == 1 ? rows : Before("Mul", rows, rows_each));
    } else {
      const ValueId index = builder_.Int64s(nodes_.outer(), "split/index",
                                            {i < axis ? i : i + 1});
      pieces.push_back(nodes_.Add(Place::kAfter, "Gather", {shape, index},
                                  Int64List(1), "split/extent"));
    }
  }
  return nodes_.Add(Place::kAfter, "Concat", pieces, Int64List(rank),
                    "split/joined", {{"axis", int64_t{0}}});
}

// Elements of all parts together, in those of `extent`.
ValueId WindowBoundary::RowsAtRunTime() {
  if (rows_ == ir::kNoValue) {
    const ValueId parts = Before(
        "Div", Before("Add", extent_, windows_.part() - 1), windows_.part());
    rows_ = Before("Mul", parts, Before("Min", extent_, windows_.part()));
  }
  return rows_;
}

absl::Status WindowBoundary::EnsureInput() {
  if (!nodes_.operands().empty()) return absl::OkStatus();
  if (!windows_.parts().is_constant()) {
    return absl::FailedPreconditionError(
        "nothing that is split comes in, and the number of parts is not known");
  }
  const ValueId list = builder_.Int64Column(nodes_.outer(), "split/starts",
                                            Count(windows_.parts().constant()));
  nodes_.ScanOver(list, Int64List(1), "split/start");
  return absl::OkStatus();
}

absl::Status WindowBoundary::Output(ValueId inner, ValueId whole, int axis,
                                    int level) {
  ir::Graph& graph = builder_.graph();
  const Type type = graph.value(whole).type;
  const std::string name = graph.value(whole).name;
  RETURN_IF_ERROR(CheckElement(type));
  if (!AllKnown(*type.shape)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", Printable(name), "\" cannot be joined: its shape is ",
        ToString(*type.shape)));
  }
  // In Reshape's operand a 0 stands for something else.
  if (std::find(type.shape->begin(), type.shape->end(),
                std::optional<Dim>(Dim(0))) != type.shape->end()) {
    return absl::FailedPreconditionError("a tensor is empty");
  }
  if (!windows_.extent().is_constant() && extent_ == ir::kNoValue) {
    return absl::FailedPreconditionError(
        "nothing that is split comes in, and the number of parts is not known");
  }
  std::vector<NodeId> order;
  ASSIGN_OR_RETURN(const ValueId part,
                   Cut(inner, whole, axis, level, windows_.part_level(), &order,
                       unit_axes_));
  for (const NodeId node : order) nodes_.Append(Place::kBodyEnd, node);
  Shape part_shape = *graph.value(part).type.shape;
  Shape stacked = part_shape;
  stacked.insert(stacked.begin(), windows_.parts());
  ValueId value =
      builder_.Value(nodes_.outer(), Type::Tensor(type.element, stacked),
                     absl::StrCat(name, "/parts"));
  nodes_.Return(part, value);
  const bool in_order =
      std::all_of(type.shape->begin(), type.shape->begin() + axis,
                  [](const auto& dim) { return *dim == Dim(1); });
  if (!in_order) {
    std::vector<int64_t> permutation = Count(axis + 1);
    std::rotate(permutation.begin(), permutation.begin() + 1,
                permutation.end());
    for (size_t i = static_cast<size_t>(axis) + 1; i < stacked.size(); ++i) {
      permutation.push_back(static_cast<int64_t>(i));
    }
    Shape transposed;
    for (const int64_t from : permutation) transposed.push_back(stacked[from]);
    value = nodes_.Add(Place::kAfter, "Transpose", {value},
                       Type::Tensor(type.element, transposed),
                       absl::StrCat(name, "/ordered"), {{"perm", permutation}});
  }
  // Without the axes of one element behind it.
  part_shape.erase(
      part_shape.begin() + axis + 1,
      part_shape.begin() + axis + 1 +
          static_cast<std::ptrdiff_t>(part_shape.size() - type.shape->size()));
  Shape joined = part_shape;
  const std::optional<Dim> rows = Mul(windows_.parts(), *part_shape[axis]);
  if (!rows.has_value()) {
    return absl::FailedPreconditionError("too many parts");
  }
  joined[axis] = windows_.IsExact() ? *(*type.shape)[axis] : *rows;
  std::vector<ir::Attribute> attributes;
  if (!std::all_of(joined.begin(), joined.end(),
                   [](const auto& dim) { return dim->is_constant(); })) {
    // Any of the others may be 0 when the model runs.
    if (builder_.opset() < kOpsetOfAllowZero) {
      return absl::FailedPreconditionError(absl::StrCat(
          "joining parts of unknown size needs opset ", kOpsetOfAllowZero));
    }
    attributes.push_back({"allowzero", int64_t{1}});
  }
  const ValueId shape =
      JoinedShape(value, joined, windows_.ratio(whole, axis).num, axis);
  const std::string reshape = absl::StrCat(name, "/Reshape");
  if (windows_.IsExact()) {
    nodes_.Define(whole, "Reshape", {value, shape}, reshape,
                  std::move(attributes));
    return absl::OkStatus();
  }
  const ValueId all =
      nodes_.Add(Place::kAfter, "Reshape", {value, shape},
                 Type::Tensor(type.element, joined),
                 absl::StrCat(name, "/joined"), std::move(attributes));
  nodes_.Define(whole, "Gather", {all, KeptIndices(whole, axis)},
                absl::StrCat(name, "/Gather"), {{"axis", int64_t{axis}}});
  return absl::OkStatus();
}

}  // namespace onnx_memopt::rewrite
