// Ops that pick, cut and join parts of tensors.
#include <algorithm>
#include <limits>
#include <utility>

#include "ir/shape_rule_util.h"
#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::ir::shape_rules {
namespace {

bool UnknownShape(ShapeContext& c) {
  SetResult(c, 0, ElementOf(c, 0), std::nullopt);
  return false;
}

// Exporters write "to the end" as the largest int32 or int64. No symbolic size
// is as large.
constexpr int64_t kToTheEnd = std::numeric_limits<int32_t>::max();

bool IsNumber(const OptDim& dim) { return dim && dim->is_constant(); }

// One axis of a Slice whose numbers are all known.
struct Cut {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
};

std::optional<Cut> CutNumbers(int64_t size, int64_t start, int64_t end,
                              int64_t step) {
  if (size < 0 || step == 0) return std::nullopt;
  if (size == 0) return Cut{0, step, 0};
  if (start < 0) start += size;
  if (end < 0) end += size;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, size);
    end = std::clamp<int64_t>(end, 0, size);
    return Cut{start, step, end > start ? (end - start - 1) / step + 1 : 0};
  }
  start = std::clamp<int64_t>(start, 0, size - 1);
  end = std::clamp<int64_t>(end, -1, size - 1);
  if (end >= start) return Cut{start, step, 0};
  // The smallest step has no positive counterpart.
  const int64_t jumps = step == std::numeric_limits<int64_t>::min()
                            ? 0
                            : (start - end - 1) / -step;
  return Cut{start, step, jumps + 1};
}

// A Slice's start or end counted from the front and clamped to [lowest, last].
OptDim FromFront(const OptDim& position, const Dim& size, int64_t lowest,
                 const OptDim& last) {
  if (!position || !last) return std::nullopt;
  if (position->is_constant()) {
    if (position->constant() >= kToTheEnd) return last;
    if (position->constant() <= -kToTheEnd) return Dim(lowest);
  }
  if (KnownAtLeast(*position, 0)) return Min(*position, *last);
  const OptDim negated = Mul(*position, Dim(-1));
  if (!negated || !KnownAtLeast(*negated, 1)) return std::nullopt;
  const OptDim counted = Add(*position, size);
  return counted ? Max(*counted, Dim(lowest)) : std::nullopt;
}

OptDim CutLength(const OptDim& size, const OptDim& start, const OptDim& end,
                 const OptDim& step) {
  if (!size || !IsNumber(step) || step->constant() == 0) return std::nullopt;
  if (IsNumber(size) && IsNumber(start) && IsNumber(end)) {
    const std::optional<Cut> cut = CutNumbers(
        size->constant(), start->constant(), end->constant(), step->constant());
    return cut ? OptDim(Dim(cut->count)) : std::nullopt;
  }
  const bool forward = step->constant() > 0;
  const OptDim last = forward ? size : Sub(*size, Dim(1));
  const OptDim first = FromFront(start, *size, 0, last);
  const OptDim stop = FromFront(end, *size, forward ? 0 : -1, last);
  OptDim length = forward ? Minus(stop, first) : Minus(first, stop);
  if (!length) return std::nullopt;
  if (!KnownAtLeast(*length, 0)) length = Max(*length, Dim(0));
  return Ceiled(length, forward ? step : Mul(*step, Dim(-1)));
}

// A list that was an attribute before opset 10.
std::optional<std::vector<OptDim>> CutList(const ShapeContext& c,
                                           absl::string_view attribute,
                                           size_t operand) {
  if (const auto* values = IntsAttribute(c.node, attribute)) {
    return std::vector<OptDim>(values->begin(), values->end());
  }
  return DimsOf(c, operand);
}

void CutContents(ShapeContext& c, const std::vector<std::optional<Cut>>& cuts) {
  const Contents* source = ContentsOf(c, 0);
  if (source == nullptr || source->dims.size() != cuts.size()) return;
  std::vector<int64_t> strides = StridesOf(source->dims);
  SmallDims dims;
  int64_t offset = 0;
  for (size_t i = 0; i < cuts.size(); ++i) {
    if (!cuts[i]) return;
    const Cut& cut = *cuts[i];
    dims.push_back(cut.count);
    if (cut.count > 0) offset += cut.start * strides[i];
    // With a single element no step is taken, however long it is.
    strides[i] = cut.count > 1 ? strides[i] * cut.step : 0;
  }
  if (source->elements.empty()) {
    SetContents(c, 0, UnknownContents(std::move(dims)));
    return;
  }
  SetContents(c, 0, Strided(*source, std::move(dims), offset, strides));
}

}  // namespace

bool Gather(ShapeContext& c) {
  const Shape* data = c.shape(0);
  const Shape* indices = c.shape(1);
  if (data == nullptr || indices == nullptr) return UnknownShape(c);
  const auto axis =
      NormalizeAxis(IntAttribute(c.node, "axis", 0), data->size());
  if (!axis) return UnknownShape(c);
  const auto at = static_cast<ptrdiff_t>(*axis);
  Shape result(data->begin(), data->begin() + at);
  result.append(indices->begin(), indices->end());
  result.append(data->begin() + at + 1, data->end());
  SetResult(c, 0, ElementOf(c, 0), std::move(result));

  const Contents* source = ContentsOf(c, 0);
  const Contents* picked = ContentsOf(c, 1);
  if (source == nullptr || picked == nullptr || source->elements.empty() ||
      source->dims.size() != data->size()) {
    return Complete(c);
  }
  SmallDims dims(source->dims.begin(), source->dims.begin() + at);
  const auto outer = static_cast<int64_t>(CountOf(dims));
  dims.append(picked->dims.begin(), picked->dims.end());
  const SmallDims tail(source->dims.begin() + at + 1, source->dims.end());
  const auto inner = static_cast<int64_t>(CountOf(tail));
  dims.append(tail.begin(), tail.end());
  // Three numbers of at most kMaxContentsElements each.
  const auto picks = static_cast<int64_t>(picked->elements.size());
  if (outer * picks * inner > kMaxContentsElements) return Complete(c);
  const int64_t size = source->dims[*axis];
  Contents contents;
  contents.dims = std::move(dims);
  for (int64_t o = 0; o < outer; ++o) {
    for (const Element& pick : picked->elements) {
      const std::optional<int64_t> index = AsConstant(pick);
      const auto position =
          index ? NormalizeAxis(*index, static_cast<size_t>(size))
                : std::nullopt;
      for (int64_t i = 0; i < inner; ++i) {
        if (!position) {
          contents.elements.emplace_back();
          continue;
        }
        const int64_t row = o * size + static_cast<int64_t>(*position);
        contents.elements.push_back(
            source->elements[static_cast<size_t>(row * inner + i)]);
      }
    }
  }
  SetContents(c, 0, std::move(contents));
  return Complete(c);
}

bool GatherElements(ShapeContext& c) {
  const Shape* indices = c.shape(1);
  if (indices == nullptr) return UnknownShape(c);
  SetResult(c, 0, ElementOf(c, 0), *indices);
  return Complete(c);
}

bool GatherNd(ShapeContext& c) {
  const Shape* data = c.shape(0);
  const Shape* indices = c.shape(1);
  if (data == nullptr || indices == nullptr || indices->empty() ||
      !IsNumber(indices->back())) {
    return UnknownShape(c);
  }
  const auto rank = static_cast<int64_t>(data->size());
  const int64_t depth = indices->back()->constant();
  const int64_t batch = IntAttribute(c.node, "batch_dims", 0);
  if (batch < 0 || depth < 1 || batch > rank || depth > rank - batch) {
    return UnknownShape(c);
  }
  Shape result(indices->begin(), indices->end() - 1);
  result.append(data->begin() + batch + depth, data->end());
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  return Complete(c);
}

bool Concat(ShapeContext& c) {
  ElementType type = ElementType::kUndefined;
  const size_t count = c.operand_types.size();
  for (size_t i = 0; i < count && type == ElementType::kUndefined; ++i) {
    type = ElementOf(c, i);
  }
  SetResult(c, 0, type, std::nullopt);
  const Shape* first = c.shape(0);
  if (first == nullptr) return false;
  const int64_t default_axis = IsOnnxBefore(c.node, 4) ? 1 : 0;
  const auto axis =
      NormalizeAxis(IntAttribute(c.node, "axis", default_axis), first->size());
  if (!axis) return false;
  Shape result = *first;
  bool conflict = false;
  bool small = true;
  for (size_t i = 1; i < count; ++i) {
    const Shape* shape = c.shape(i);
    if (shape == nullptr || shape->size() != first->size()) return false;
    for (size_t k = 0; k < result.size(); ++k) {
      result[k] = k == *axis ? Plus(result[k], (*shape)[k])
                             : MergeEqual(result[k], (*shape)[k], &conflict);
    }
  }
  if (conflict) return false;
  SetResult(c, 0, type, result);

  const std::optional<SmallDims> dims = ResultDims(c);
  if (!dims) return Complete(c);
  std::vector<Contents> parts;
  for (size_t i = 0; small && i < count; ++i) {
    if (const Contents* known = ContentsOf(c, i)) {
      parts.push_back(*known);
    } else if (const auto part = ConstantDims(*c.shape(i))) {
      parts.push_back(UnknownContents(*part));
    } else {
      small = false;
      break;
    }
    SmallDims expected = *dims;
    if (parts.back().dims.size() != dims->size()) return Complete(c);
    expected[*axis] = parts.back().dims[*axis];
    small = parts.back().dims == expected;
  }
  if (!small) return Complete(c);
  const auto outer = CountOf(absl::MakeConstSpan(dims->data(), *axis));
  Contents joined;
  joined.dims = *dims;
  for (size_t o = 0; o < outer && CountOf(*dims) > 0; ++o) {
    for (const Contents& part : parts) {
      const size_t rows = part.elements.size() / outer;
      for (size_t n = 0; n < rows; ++n) {
        joined.elements.push_back(part.elements[o * rows + n]);
      }
    }
  }
  // Contents may disagree with the types that came with them.
  if (joined.elements.size() == CountOf(*dims)) {
    SetContents(c, 0, std::move(joined));
  }
  return Complete(c);
}

bool Slice(ShapeContext& c) {
  const Shape* data = c.shape(0);
  if (data == nullptr) return UnknownShape(c);
  const auto starts = CutList(c, "starts", 1);
  const auto ends = CutList(c, "ends", 2);
  const IntList axes = ListOf(c, "axes", 3);
  Shape result = *data;
  if (!starts || !ends || (axes.given && !axes.values)) {
    // Any axis may be cut.
    SetResult(c, 0, ElementOf(c, 0), Shape(data->size()));
    return Complete(c);
  }
  if (starts->size() != ends->size()) return UnknownShape(c);
  std::vector<int64_t> which;
  if (axes.values) {
    which = *axes.values;
  } else {
    for (size_t i = 0; i < starts->size(); ++i) {
      which.push_back(static_cast<int64_t>(i));
    }
  }
  const auto normalized = NormalizeAxes(which, data->size());
  if (!normalized || normalized->size() != starts->size()) {
    return UnknownShape(c);
  }
  std::vector<OptDim> steps(starts->size(), Dim(1));
  if (HasOperand(c, 4)) {
    const auto given = DimsOf(c, 4);
    steps = given ? *given : std::vector<OptDim>(starts->size());
    if (steps.size() != starts->size()) return UnknownShape(c);
  }
  std::vector<std::optional<Cut>> cuts(data->size());
  for (size_t i = 0; i < data->size(); ++i) {
    if (IsNumber((*data)[i])) cuts[i] = Cut{0, 1, (*data)[i]->constant()};
  }
  for (size_t i = 0; i < normalized->size(); ++i) {
    const size_t axis = (*normalized)[i];
    const OptDim& size = (*data)[axis];
    result[axis] = CutLength(size, (*starts)[i], (*ends)[i], steps[i]);
    const bool numbers = IsNumber(size) && IsNumber((*starts)[i]) &&
                         IsNumber((*ends)[i]) && IsNumber(steps[i]);
    cuts[axis] = numbers
                     ? CutNumbers(size->constant(), (*starts)[i]->constant(),
                                  (*ends)[i]->constant(), steps[i]->constant())
                     : std::nullopt;
  }
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  const Contents* source = ContentsOf(c, 0);
  const auto dims = ConstantDims(*data);
  if (source != nullptr && dims && source->dims == *dims) CutContents(c, cuts);
  return Complete(c);
}

bool Split(ShapeContext& c) {
  const Shape* data = c.shape(0);
  const size_t parts = c.result_types.size();
  const ElementType type = ElementOf(c, 0);
  for (size_t i = 0; i < parts; ++i) SetResult(c, i, type, std::nullopt);
  if (data == nullptr || parts == 0) return false;
  const auto axis =
      NormalizeAxis(IntAttribute(c.node, "axis", 0), data->size());
  if (!axis) return false;
  const OptDim& whole = (*data)[*axis];
  std::vector<OptDim> sizes(parts);
  const auto listed = CutList(c, "split", 1);
  if (HasOperand(c, 1) || HasAttribute(c.node, "split")) {
    if (listed && listed->size() != parts) return false;
    if (listed) sizes = *listed;
  } else if (whole) {
    const auto last = static_cast<int64_t>(parts) - 1;
    const Dim count(last + 1);
    if (const OptDim exact = DivideExact(*whole, count)) {
      std::fill(sizes.begin(), sizes.end(), exact);
    } else if (HasAttribute(c.node, "num_outputs")) {
      // Since opset 18 the last part may be smaller.
      const OptDim chunk = Ceiled(whole, count);
      std::fill(sizes.begin(), sizes.end(), chunk);
      sizes.back() = Minus(whole, Times(chunk, Dim(last)));
    } else if (!whole->is_constant()) {
      std::fill(sizes.begin(), sizes.end(), Floored(whole, count));
    }
  }
  const Contents* source = ContentsOf(c, 0);
  const auto dims = ConstantDims(*data);
  if (source != nullptr && (!dims || source->dims != *dims)) source = nullptr;
  int64_t offset = 0;
  for (size_t i = 0; i < parts; ++i) {
    Shape shape = *data;
    shape[*axis] = sizes[i];
    SetResult(c, i, type, std::move(shape));
    if (source == nullptr) continue;
    const int64_t total = (*dims)[*axis];
    if (!IsNumber(sizes[i]) || sizes[i]->constant() < 0 ||
        sizes[i]->constant() > total - offset) {
      source = nullptr;
      continue;
    }
    SmallDims part = *dims;
    part[*axis] = sizes[i]->constant();
    const std::vector<int64_t> strides = StridesOf(*dims);
    const int64_t begin = offset < total ? offset * strides[*axis] : 0;
    SetContents(c, i, Strided(*source, std::move(part), begin, strides));
    offset += sizes[i]->constant();
  }
  return Complete(c);
}

}  // namespace onnx_memopt::ir::shape_rules
