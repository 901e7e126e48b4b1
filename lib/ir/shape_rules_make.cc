// Ops that repeat, pad, fill or resize: their result's shape comes from the
// contents of an operand.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/shape_rule_util.h"

namespace onnx_memopt::ir::shape_rules {
namespace {

bool UnknownShape(ShapeContext& c) {
  SetResult(c, 0, ElementOf(c, 0), std::nullopt);
  return false;
}

bool IsNumber(const OptDim& dim) { return dim && dim->is_constant(); }

// A shape that an operand lists. Negative numbers are no dims.
std::optional<Shape> ListedShape(const ShapeContext& c, size_t operand) {
  const auto dims = DimsOf(c, operand);
  if (!dims) return std::nullopt;
  Shape shape(dims->begin(), dims->end());
  for (OptDim& dim : shape) {
    if (IsNumber(dim) && dim->constant() < 0) dim.reset();
  }
  return shape;
}

}  // namespace

bool Expand(ShapeContext& c) {
  const Shape* input = c.shape(0);
  const std::optional<Shape> target = ListedShape(c, 1);
  if (input == nullptr || !target) return UnknownShape(c);
  SetResult(c, 0, ElementOf(c, 0), Broadcast(*input, *target));
  const Contents* source = ContentsOf(c, 0);
  if (source != nullptr) {
    if (const auto dims = ResultDims(c)) {
      auto expanded = Expanded(*source, *dims);
      if (expanded) SetContents(c, 0, *std::move(expanded));
    }
  }
  return Complete(c);
}

bool Tile(ShapeContext& c) {
  const Shape* input = c.shape(0);
  // Opset 1 took one axis and one count.
  if (input == nullptr || IsOnnxBefore(c.node, 6)) return UnknownShape(c);
  const auto repeats = DimsOf(c, 1);
  if (repeats && repeats->size() != input->size()) return UnknownShape(c);
  Shape result(input->size());
  for (size_t i = 0; repeats && i < result.size(); ++i) {
    result[i] = Times((*input)[i], (*repeats)[i]);
  }
  SetResult(c, 0, ElementOf(c, 0), result);

  const Contents* source = ContentsOf(c, 0);
  const auto dims = ConstantDims(result);
  if (source == nullptr || !dims || CountOf(*dims) == 0 ||
      source->elements.empty() || ConstantDims(*input) != source->dims) {
    return Complete(c);
  }
  const std::vector<int64_t> strides = StridesOf(source->dims);
  const std::vector<int64_t> result_strides = StridesOf(*dims);
  Contents contents;
  contents.dims = *dims;
  for (size_t n = 0; n < CountOf(*dims); ++n) {
    int64_t at = 0;
    for (size_t i = 0; i < dims->size(); ++i) {
      if ((*dims)[i] == 1) continue;
      const int64_t index =
          static_cast<int64_t>(n) / result_strides[i] % (*dims)[i];
      at += index % source->dims[i] * strides[i];
    }
    contents.elements.push_back(source->elements[static_cast<size_t>(at)]);
  }
  SetContents(c, 0, std::move(contents));
  return Complete(c);
}

bool Pad(ShapeContext& c) {
  const Shape* input = c.shape(0);
  if (input == nullptr) return UnknownShape(c);
  std::optional<std::vector<OptDim>> pads;
  const std::vector<int64_t>* attribute = IntsAttribute(c.node, "pads");
  if (attribute == nullptr) attribute = IntsAttribute(c.node, "paddings");
  if (attribute != nullptr) {
    pads.emplace(attribute->begin(), attribute->end());
  } else {
    pads = DimsOf(c, 1);
  }
  std::vector<int64_t> all;
  all.reserve(input->size());
  for (size_t i = 0; i < input->size(); ++i) {
    all.push_back(static_cast<int64_t>(i));
  }
  std::optional<std::vector<int64_t>> which = all;
  if (HasOperand(c, 3)) which = ListOf(c, "", 3).values;
  if (!pads || !which) {
    SetResult(c, 0, ElementOf(c, 0), Shape(input->size()));
    return Complete(c);
  }
  const auto axes = NormalizeAxes(*which, input->size());
  if (!axes || pads->size() != 2 * axes->size()) return UnknownShape(c);
  Shape result = *input;
  for (size_t i = 0; i < axes->size(); ++i) {
    OptDim& dim = result[(*axes)[i]];
    dim = Plus(dim, Plus((*pads)[i], (*pads)[axes->size() + i]));
  }
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  return Complete(c);
}

bool ConstantOfShape(ShapeContext& c) {
  // The attribute `value` is a weight, which a rule cannot read. A caller that
  // can may pass it as if it were a second operand.
  const bool has_value = HasAttribute(c.node, "value") || HasOperand(c, 1);
  const ElementType type = has_value ? ElementOf(c, 1) : ElementType::kFloat;
  SetResult(c, 0, type, ListedShape(c, 0));
  std::optional<Element> fill;
  if (has_value) {
    fill = ScalarOf(c, 1);
  } else {
    fill = Element::Real(0);
  }
  if (fill) {
    if (const auto dims = ResultDims(c)) {
      Contents contents = UnknownContents(*dims);
      std::fill(contents.elements.begin(), contents.elements.end(), *fill);
      SetContents(c, 0, std::move(contents));
    }
  }
  return Complete(c);
}

namespace {

// How many elements from `start` to `limit`; nullopt where the sign of the step
// is not known.
OptDim RangeLength(const OptDim& start, const OptDim& limit,
                   const OptDim& delta) {
  if (!start || !limit || !delta) return std::nullopt;
  const OptDim negated = Mul(*delta, Dim(-1));
  OptDim distance;
  OptDim step = delta;
  if (KnownAtLeast(*delta, 1)) {
    distance = Minus(limit, start);
  } else if (negated && KnownAtLeast(*negated, 1)) {
    distance = Minus(start, limit);
    step = negated;
  }
  if (!distance) return std::nullopt;
  if (!KnownAtLeast(*distance, 0)) distance = Max(*distance, Dim(0));
  return Ceiled(distance, step);
}

OptDim RealRangeLength(const Element& start, const Element& limit,
                       const Element& delta) {
  if (!start.real || !limit.real || !delta.real || *delta.real == 0) {
    return std::nullopt;
  }
  const double length = std::ceil((*limit.real - *start.real) / *delta.real);
  if (!(std::abs(length) < 1e15)) return std::nullopt;
  return Dim(std::max<int64_t>(0, static_cast<int64_t>(length)));
}

}  // namespace

bool Range(ShapeContext& c) {
  const ElementType type = ElementOf(c, 0);
  SetResult(c, 0, type, Shape{std::nullopt});
  const auto start = ScalarOf(c, 0);
  const auto limit = ScalarOf(c, 1);
  const auto delta = ScalarOf(c, 2);
  if (!start || !limit || !delta) return false;
  const OptDim first = AsInteger(*start);
  const OptDim step = AsInteger(*delta);
  OptDim length = RangeLength(first, AsInteger(*limit), step);
  if (!length) length = RealRangeLength(*start, *limit, *delta);
  SetResult(c, 0, type, Shape{length});
  const auto dims = ConstantDims(Shape{length});
  if (!dims || !IsNumber(first) || !IsNumber(step)) return Complete(c);
  Contents contents = UnknownContents(*dims);
  OptDim value = first;
  for (Element& element : contents.elements) {
    element = MakeElement(type, value);
    value = Plus(value, step);
  }
  SetContents(c, 0, std::move(contents));
  return Complete(c);
}

bool OneHot(ShapeContext& c) {
  const Shape* indices = c.shape(0);
  const ElementType type = ElementOf(c, 2);
  SetResult(c, 0, type, std::nullopt);
  if (indices == nullptr) return false;
  const auto axis =
      NormalizeAxis(IntAttribute(c.node, "axis", -1), indices->size() + 1);
  if (!axis) return false;
  Shape result = *indices;
  const std::optional<Element> depth = ScalarOf(c, 1);
  result.insert(result.begin() + static_cast<ptrdiff_t>(*axis),
                depth ? AsInteger(*depth) : std::nullopt);
  SetResult(c, 0, type, std::move(result));
  return Complete(c);
}

}  // namespace onnx_memopt::ir::shape_rules
