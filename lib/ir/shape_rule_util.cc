#include "ir/shape_rule_util.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::ir::shape_rules {

OptDim Plus(const OptDim& a, const OptDim& b) {
  return a && b ? Add(*a, *b) : std::nullopt;
}
OptDim Minus(const OptDim& a, const OptDim& b) {
  return a && b ? Sub(*a, *b) : std::nullopt;
}
OptDim Times(const OptDim& a, const OptDim& b) {
  return a && b ? Mul(*a, *b) : std::nullopt;
}
OptDim Floored(const OptDim& a, const OptDim& b) {
  return a && b ? FloorDiv(*a, *b) : std::nullopt;
}
OptDim Ceiled(const OptDim& a, const OptDim& b) {
  return a && b ? CeilDiv(*a, *b) : std::nullopt;
}

bool IsOnnxBefore(const Node& node, int version) {
  return (node.domain.empty() || node.domain == "ai.onnx") && node.opset > 0 &&
         node.opset < version;
}

bool HasAttribute(const Node& node, absl::string_view name) {
  return std::any_of(node.attributes.begin(), node.attributes.end(),
                     [name](const Attribute& a) { return a.name == name; });
}

ElementType RequestedType(const Node& node, absl::string_view attribute) {
  const int64_t number = IntAttribute(node, attribute, 0);
  if (number <= 0 || number > 255) return ElementType::kUndefined;
  const auto type = static_cast<ElementType>(number);
  return BitWidth(type) ? type : ElementType::kUndefined;
}

bool IsInteger(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
    case ElementType::kInt8:
    case ElementType::kUint16:
    case ElementType::kInt16:
    case ElementType::kInt32:
    case ElementType::kInt64:
    case ElementType::kUint32:
    case ElementType::kUint64:
      return true;
    default:
      return false;
  }
}

bool IsFloat(ElementType type) {
  return type == ElementType::kFloat || type == ElementType::kDouble ||
         type == ElementType::kFloat16 || type == ElementType::kBfloat16;
}

bool Holds(ElementType type, int64_t value) {
  const auto within = [value](int64_t low, int64_t high) {
    return value >= low && value <= high;
  };
  switch (type) {
    case ElementType::kBool:
      return within(0, 1);
    case ElementType::kUint8:
      return within(0, UINT8_MAX);
    case ElementType::kInt8:
      return within(INT8_MIN, INT8_MAX);
    case ElementType::kUint16:
      return within(0, UINT16_MAX);
    case ElementType::kInt16:
      return within(INT16_MIN, INT16_MAX);
    case ElementType::kUint32:
      return within(0, UINT32_MAX);
    case ElementType::kInt32:
      return within(INT32_MIN, INT32_MAX);
    case ElementType::kUint64:
      return value >= 0;
    case ElementType::kInt64:
      return true;
    default:
      return false;
  }
}

std::optional<double> RoundTo(ElementType type, double value) {
  if (type == ElementType::kDouble) return value;
  if (type != ElementType::kFloat) return std::nullopt;
  if (std::abs(value) > std::numeric_limits<float>::max()) return std::nullopt;
  return static_cast<double>(static_cast<float>(value));
}

Element MakeElement(ElementType type, const OptDim& value) {
  if (!value) return {};
  if (IsFloat(type)) {
    if (!value->is_constant()) {
      // Exact as long as the size is below 2^24, or 2^53 for double. Narrower
      // types round sizes that do occur.
      if (type == ElementType::kFloat || type == ElementType::kDouble) {
        return Element::Integer(*value);
      }
      return {};
    }
    const std::optional<double> real =
        RoundTo(type, static_cast<double>(value->constant()));
    return real ? Element::Real(*real) : Element{};
  }
  if (value->is_constant()) {
    return Holds(type, value->constant()) ? Element::Integer(*value)
                                          : Element{};
  }
  // A size that does not fit 32 bits is no size; it may well exceed fewer.
  const bool wide = type == ElementType::kInt64 || type == ElementType::kInt32;
  return wide ? Element::Integer(*value) : Element{};
}

OptDim AsInteger(const Element& element) {
  if (element.integer) return element.integer;
  // Below 2^53 every integral double is that integer.
  if (element.real && std::abs(*element.real) < 9007199254740992.0 &&
      std::trunc(*element.real) == *element.real) {
    return Dim(static_cast<int64_t>(*element.real));
  }
  return std::nullopt;
}

std::optional<int64_t> AsConstant(const Element& element) {
  const OptDim dim = AsInteger(element);
  if (!dim || !dim->is_constant()) return std::nullopt;
  return dim->constant();
}

ElementType ElementOf(const ShapeContext& c, size_t i) {
  const Type* type = c.tensor(i);
  return type == nullptr ? ElementType::kUndefined : type->element;
}

bool HasOperand(const ShapeContext& c, size_t i) {
  return i < c.operand_types.size() && c.operand_types[i] != nullptr;
}

const Contents* ContentsOf(const ShapeContext& c, size_t i) {
  const Contents* contents = c.contents(i);
  if (contents == nullptr || contents->dims.size() > kMaxRank ||
      contents->elements.size() > kMaxContentsElements) {
    return nullptr;
  }
  bool empty = false;
  int64_t count = 1;
  for (const int64_t dim : contents->dims) {
    if (dim < 0) return nullptr;
    empty |= dim == 0;
    if (count <= kMaxContentsElements) {
      count *= std::min<int64_t>(dim, kMaxContentsElements + 1);
    }
  }
  const auto size = static_cast<int64_t>(contents->elements.size());
  return size == (empty ? 0 : count) ? contents : nullptr;
}

std::optional<Element> ScalarOf(const ShapeContext& c, size_t i) {
  const Contents* contents = ContentsOf(c, i);
  if (contents == nullptr || contents->elements.size() != 1 ||
      !contents->elements[0].known()) {
    return std::nullopt;
  }
  return contents->elements[0];
}

IntList ListOf(const ShapeContext& c, absl::string_view attribute,
               size_t operand) {
  IntList list;
  if (const auto* values = IntsAttribute(c.node, attribute)) {
    list.given = true;
    list.values = *values;
    list.size = static_cast<int64_t>(values->size());
    return list;
  }
  if (!HasOperand(c, operand)) return list;
  list.given = true;
  const Shape* shape = c.shape(operand);
  if (shape != nullptr && shape->size() == 1 && (*shape)[0] &&
      (*shape)[0]->is_constant() && (*shape)[0]->constant() >= 0) {
    list.size = (*shape)[0]->constant();
  }
  if (const Contents* contents = ContentsOf(c, operand)) {
    list.size = static_cast<int64_t>(contents->elements.size());
    std::vector<int64_t> values;
    for (const Element& element : contents->elements) {
      const std::optional<int64_t> value = AsConstant(element);
      if (!value) return list;
      values.push_back(*value);
    }
    list.values = std::move(values);
  }
  return list;
}

std::optional<std::vector<OptDim>> DimsOf(const ShapeContext& c,
                                          size_t operand) {
  std::vector<OptDim> dims;
  if (const Contents* contents = ContentsOf(c, operand)) {
    for (const Element& element : contents->elements) {
      dims.push_back(AsInteger(element));
    }
    return dims;
  }
  const Shape* shape = c.shape(operand);
  if (shape == nullptr || shape->size() != 1 || !(*shape)[0] ||
      !(*shape)[0]->is_constant()) {
    return std::nullopt;
  }
  const int64_t size = (*shape)[0]->constant();
  if (size < 0 || size > static_cast<int64_t>(kMaxRank)) return std::nullopt;
  dims.resize(static_cast<size_t>(size));
  return dims;
}

std::optional<size_t> NormalizeAxis(int64_t axis, size_t rank) {
  const auto signed_rank = static_cast<int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + signed_rank : axis);
}

std::optional<std::vector<size_t>> NormalizeAxes(absl::Span<const int64_t> axes,
                                                 size_t rank) {
  if (axes.size() > rank) return std::nullopt;
  std::vector<bool> seen(rank, false);
  std::vector<size_t> result;
  result.reserve(axes.size());
  for (const int64_t axis : axes) {
    const std::optional<size_t> normalized = NormalizeAxis(axis, rank);
    if (!normalized || seen[*normalized]) return std::nullopt;
    seen[*normalized] = true;
    result.push_back(*normalized);
  }
  return result;
}

OptDim MergeEqual(const OptDim& a, const OptDim& b, bool* conflict) {
  if (!a || !b) return a ? a : b;
  if (a->is_constant() && b->is_constant()) {
    if (*a != *b) *conflict = true;
    return a;
  }
  return b->is_constant() ? b : a;
}

namespace {

OptDim BroadcastDim(const OptDim& a, const OptDim& b, bool* conflict) {
  const auto is = [](const OptDim& dim, int64_t value) {
    return dim && dim->is_constant() && dim->constant() == value;
  };
  if (is(a, 1)) return b;
  if (is(b, 1)) return a;
  const bool a_constant = a && a->is_constant();
  const bool b_constant = b && b->is_constant();
  if (a_constant && b_constant) {
    if (*a != *b) *conflict = true;
    return a;
  }
  // Not 1: the other is equal or 1, and either gives this.
  if (a_constant) return a;
  if (b_constant) return b;
  if (a && KnownAtLeast(*a, 2)) return a;
  if (b && KnownAtLeast(*b, 2)) return b;
  if (!a || !b) return std::nullopt;
  return *a == *b ? a : Max(*a, *b);
}

}  // namespace

std::optional<Shape> Broadcast(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  const size_t extra = longer.size() - shorter.size();
  Shape result = longer;
  bool conflict = false;
  for (size_t i = 0; i < shorter.size(); ++i) {
    result[extra + i] = BroadcastDim(longer[extra + i], shorter[i], &conflict);
  }
  if (conflict) return std::nullopt;
  return result;
}

std::optional<Shape> BroadcastOperands(const ShapeContext& c, size_t begin,
                                       size_t end) {
  std::optional<Shape> result = Shape{};
  if (begin >= end) return std::nullopt;
  for (size_t i = begin; i < end; ++i) {
    const Shape* shape = c.shape(i);
    if (shape == nullptr) return std::nullopt;
    result = Broadcast(*result, *shape);
    if (!result) return std::nullopt;
  }
  return result;
}

OptDim Product(const Shape& shape, size_t begin, size_t end) {
  return NumElements(Shape(shape.begin() + static_cast<ptrdiff_t>(begin),
                           shape.begin() + static_cast<ptrdiff_t>(end)));
}

// --- Contents ---

std::optional<SmallDims> ConstantDims(const std::optional<Shape>& shape) {
  if (!shape) return std::nullopt;
  SmallDims dims;
  for (const OptDim& dim : *shape) {
    if (!dim || !dim->is_constant() || dim->constant() < 0) return std::nullopt;
    dims.push_back(dim->constant());
  }
  const OptDim count = NumElements(*shape);
  if (!count || count->constant() > kMaxContentsElements) return std::nullopt;
  return dims;
}

size_t CountOf(absl::Span<const int64_t> dims) {
  size_t count = 1;
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
  for (const int64_t dim : dims) count *= static_cast<size_t>(dim);
  return count;
}

std::vector<int64_t> StridesOf(absl::Span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 0);
  if (CountOf(dims) == 0) return strides;
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

Contents Strided(const Contents& source, SmallDims dims, int64_t offset,
                 absl::Span<const int64_t> strides) {
  Contents result;
  const size_t count = CountOf(dims);
  result.elements.reserve(count);
  // Dims of 1 never count up, so long ranks cost nothing.
  std::vector<size_t> counting;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1) counting.push_back(i);
  }
  std::vector<int64_t> index(dims.size(), 0);
  int64_t at = offset;
  for (size_t n = 0; n < count; ++n) {
    result.elements.push_back(source.elements[static_cast<size_t>(at)]);
    for (size_t k = counting.size(); k-- > 0;) {
      const size_t i = counting[k];
      at += strides[i];
      if (++index[i] < dims[i]) break;
      at -= strides[i] * dims[i];
      index[i] = 0;
    }
  }
  result.dims = std::move(dims);
  return result;
}

std::optional<Contents> Expanded(const Contents& source,
                                 const SmallDims& dims) {
  if (source.dims.size() > dims.size()) return std::nullopt;
  const size_t extra = dims.size() - source.dims.size();
  const std::vector<int64_t> strides = StridesOf(source.dims);
  std::vector<int64_t> expanded(dims.size(), 0);
  for (size_t i = 0; i < source.dims.size(); ++i) {
    if (source.dims[i] == dims[extra + i]) {
      expanded[extra + i] = strides[i];
    } else if (source.dims[i] != 1) {
      return std::nullopt;
    }
  }
  return Strided(source, dims, 0, expanded);
}

Contents UnknownContents(SmallDims dims) {
  Contents result;
  result.elements.resize(CountOf(dims));
  result.dims = std::move(dims);
  return result;
}

// --- Results ---

void SetResult(ShapeContext& c, size_t i, ElementType element,
               std::optional<Shape> shape) {
  if (i >= c.result_types.size()) return;
  if (shape && shape->size() > kMaxRank) shape.reset();
  if (shape) {
    for (OptDim& dim : *shape) {
      if (dim && dim->is_constant() && dim->constant() < 0) dim.reset();
    }
  }
  c.result_types[i] = Type::Tensor(element, std::move(shape));
}

void SetContents(ShapeContext& c, size_t i, Contents contents) {
  if (i >= c.result_contents.size() ||
      contents.elements.size() > kMaxContentsElements) {
    return;
  }
  const bool useful =
      contents.elements.empty() ||
      std::any_of(contents.elements.begin(), contents.elements.end(),
                  [](const Element& e) { return e.known(); });
  if (!useful) return;
  c.result_contents[i] = std::make_shared<const Contents>(std::move(contents));
}

std::optional<SmallDims> ResultDims(const ShapeContext& c) {
  if (c.result_types.empty()) return std::nullopt;
  return ConstantDims(c.result_types[0].shape);
}

void ReshapeContents(ShapeContext& c, size_t operand) {
  const Contents* source = ContentsOf(c, operand);
  if (source == nullptr) return;
  std::optional<SmallDims> dims = ResultDims(c);
  if (!dims || CountOf(*dims) != source->elements.size()) return;
  SetContents(c, 0, Contents{*std::move(dims), source->elements});
}

namespace {

bool IsComplete(const Type& type, int depth) {
  switch (type.kind) {
    case TypeKind::kTensor:
      return type.element != ElementType::kUndefined && type.shape &&
             std::all_of(type.shape->begin(), type.shape->end(),
                         [](const OptDim& dim) { return dim.has_value(); });
    case TypeKind::kSequence:
    case TypeKind::kOptional:
      return depth < 8 && type.nested != nullptr &&
             IsComplete(*type.nested, depth + 1);
    default:
      return false;
  }
}

}  // namespace

bool Complete(const ShapeContext& c) {
  for (size_t i = 0; i < c.result_types.size(); ++i) {
    if (i < c.node.results.size() && c.node.results[i] == kNoValue) continue;
    if (!IsComplete(c.result_types[i], 0)) return false;
  }
  return true;
}

}  // namespace onnx_memopt::ir::shape_rules
