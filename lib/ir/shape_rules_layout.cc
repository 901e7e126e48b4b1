// Ops that give the same elements another shape, and those that ask for the
// shape.
#include <algorithm>
#include <utility>

#include "ir/shape_rule_util.h"

namespace onnx_memopt::ir::shape_rules {
namespace {

// The result has operand 0's element type; nothing is known of its shape.
bool UnknownShape(ShapeContext& c) {
  SetResult(c, 0, ElementOf(c, 0), std::nullopt);
  return false;
}

// The target of a Reshape, which was an attribute before opset 5.
std::optional<std::vector<OptDim>> ReshapeTarget(const ShapeContext& c) {
  if (!IsOnnxBefore(c.node, 5)) return DimsOf(c, 1);
  const std::vector<int64_t>* shape = IntsAttribute(c.node, "shape");
  if (shape == nullptr || shape->size() > kMaxRank) return std::nullopt;
  return std::vector<OptDim>(shape->begin(), shape->end());
}

// The one dim of a Reshape's result that the others determine. `copied[i]`:
// dim i is input dim i, whatever that is.
OptDim InferDim(const Shape& input, const Shape& result,
                const std::vector<bool>& copied, size_t inferred) {
  std::vector<bool> cancelled(input.size(), false);
  for (size_t i = 0; i < result.size(); ++i) {
    if (copied[i]) cancelled[i] = true;
    // 0 = 0 * n tells nothing about n.
    if (i != inferred && result[i] && *result[i] == Dim(0)) return std::nullopt;
  }
  // Dims on both sides cancel before they are multiplied: they may be unknown
  // in the product, or overflow it.
  Shape divisors;
  for (size_t i = 0; i < result.size(); ++i) {
    if (i == inferred || copied[i]) continue;
    size_t match = 0;
    while (match < input.size() &&
           (cancelled[match] || !result[i] || input[match] != result[i])) {
      ++match;
    }
    if (match < input.size()) {
      cancelled[match] = true;
    } else {
      divisors.push_back(result[i]);
    }
  }
  Shape factors;
  for (size_t i = 0; i < input.size(); ++i) {
    if (!cancelled[i]) factors.push_back(input[i]);
  }
  const OptDim total = NumElements(factors);
  const OptDim known = NumElements(divisors);
  if (!total || !known) return std::nullopt;
  if (OptDim exact = DivideExact(*total, *known)) return exact;
  // Numbers that do not divide are an error. A formula that does not divide as
  // a polynomial divides all the same at run time.
  if (total->is_constant() && known->is_constant()) return std::nullopt;
  return FloorDiv(*total, *known);
}

}  // namespace

bool ShapeOf(ShapeContext& c) {
  const Shape* shape = c.shape(0);
  if (shape == nullptr) {
    SetResult(c, 0, ElementType::kInt64, Shape{std::nullopt});
    return false;
  }
  const auto rank = static_cast<int64_t>(shape->size());
  const auto clamp = [rank](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const int64_t begin = clamp(IntAttribute(c.node, "start", 0));
  const int64_t end = std::max(begin, clamp(IntAttribute(c.node, "end", rank)));
  SetResult(c, 0, ElementType::kInt64, Shape{Dim(end - begin)});
  if (end - begin > kMaxContentsElements) return Complete(c);
  Contents contents = UnknownContents({end - begin});
  for (int64_t i = begin; i < end; ++i) {
    contents.elements[static_cast<size_t>(i - begin)].integer =
        (*shape)[static_cast<size_t>(i)];
  }
  SetContents(c, 0, std::move(contents));
  return Complete(c);
}

bool Size(ShapeContext& c) {
  SetResult(c, 0, ElementType::kInt64, Shape{});
  const Shape* shape = c.shape(0);
  Contents contents = UnknownContents({});
  if (shape != nullptr) contents.elements[0].integer = NumElements(*shape);
  SetContents(c, 0, std::move(contents));
  return Complete(c);
}

bool Reshape(ShapeContext& c) {
  const std::optional<std::vector<OptDim>> target = ReshapeTarget(c);
  if (!target) return UnknownShape(c);
  const Shape* input = c.shape(0);
  const bool allow_zero = IntAttribute(c.node, "allowzero", 0) != 0;
  Shape result(target->size());
  std::vector<bool> copied(target->size(), false);
  // Elements that are not known count as -1: if there is only one, then the
  // others determine its dim, whatever it is.
  std::vector<size_t> inferred;
  int minus_ones = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    const OptDim& dim = (*target)[i];
    if (!dim) {
      inferred.push_back(i);
      continue;
    }
    if (!dim->is_constant() || dim->constant() > 0 ||
        (dim->constant() == 0 && allow_zero)) {
      result[i] = dim;
      continue;
    }
    if (dim->constant() == -1) {
      if (++minus_ones > 1) return UnknownShape(c);
      inferred.push_back(i);
    } else if (dim->constant() == 0) {
      if (input == nullptr) continue;
      if (i >= input->size()) return UnknownShape(c);
      result[i] = (*input)[i];
      copied[i] = true;
    } else {
      return UnknownShape(c);
    }
  }
  if (inferred.size() == 1 && input != nullptr) {
    result[inferred[0]] = InferDim(*input, result, copied, inferred[0]);
  }
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  ReshapeContents(c, 0);
  return Complete(c);
}

bool Flatten(ShapeContext& c) {
  const Shape* shape = c.shape(0);
  if (shape == nullptr) {
    SetResult(c, 0, ElementOf(c, 0), Shape(2));
    return false;
  }
  const auto rank = static_cast<int64_t>(shape->size());
  const int64_t axis = IntAttribute(c.node, "axis", 1);
  if (axis < -rank || axis > rank) return UnknownShape(c);
  const auto split = static_cast<size_t>(axis < 0 ? axis + rank : axis);
  SetResult(
      c, 0, ElementOf(c, 0),
      Shape{Product(*shape, 0, split), Product(*shape, split, shape->size())});
  ReshapeContents(c, 0);
  return Complete(c);
}

bool Squeeze(ShapeContext& c) {
  const Shape* shape = c.shape(0);
  if (shape == nullptr) return UnknownShape(c);
  const IntList axes = ListOf(c, "axes", 1);
  std::vector<bool> removed(shape->size(), false);
  if (!axes.given) {
    for (size_t i = 0; i < shape->size(); ++i) {
      const OptDim& dim = (*shape)[i];
      if (!dim) return UnknownShape(c);
      removed[i] = *dim == Dim(1);
      // A size that may be 1 at run time: the rank is not known.
      if (!dim->is_constant() && !KnownAtLeast(*dim, 2)) return UnknownShape(c);
    }
  } else if (!axes.values) {
    const auto rank = static_cast<int64_t>(shape->size());
    if (!axes.size || *axes.size > rank) return UnknownShape(c);
    SetResult(c, 0, ElementOf(c, 0),
              Shape(static_cast<size_t>(rank - *axes.size)));
    return Complete(c);
  } else {
    const auto normalized = NormalizeAxes(*axes.values, shape->size());
    if (!normalized) return UnknownShape(c);
    for (const size_t axis : *normalized) {
      const OptDim& dim = (*shape)[axis];
      if (dim && dim->is_constant() && *dim != Dim(1)) return UnknownShape(c);
      removed[axis] = true;
    }
  }
  Shape result;
  for (size_t i = 0; i < shape->size(); ++i) {
    if (!removed[i]) result.push_back((*shape)[i]);
  }
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  ReshapeContents(c, 0);
  return Complete(c);
}

bool Unsqueeze(ShapeContext& c) {
  const Shape* shape = c.shape(0);
  const IntList axes = ListOf(c, "axes", 1);
  if (shape == nullptr || !axes.size ||
      *axes.size > static_cast<int64_t>(kMaxRank)) {
    return UnknownShape(c);
  }
  const size_t rank = shape->size() + static_cast<size_t>(*axes.size);
  Shape result(rank);
  if (axes.values) {
    const auto normalized = NormalizeAxes(*axes.values, rank);
    if (!normalized) return UnknownShape(c);
    for (const size_t axis : *normalized) result[axis] = Dim(1);
    std::vector<bool> inserted(rank, false);
    for (const size_t axis : *normalized) inserted[axis] = true;
    size_t next = 0;
    for (size_t i = 0; i < rank; ++i) {
      if (!inserted[i]) result[i] = (*shape)[next++];
    }
  }
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  ReshapeContents(c, 0);
  return Complete(c);
}

bool Transpose(ShapeContext& c) {
  const Shape* shape = c.shape(0);
  if (shape == nullptr) return UnknownShape(c);
  std::vector<size_t> permutation(shape->size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    permutation[i] = permutation.size() - 1 - i;
  }
  if (const std::vector<int64_t>* perm = IntsAttribute(c.node, "perm")) {
    const auto normalized = NormalizeAxes(*perm, shape->size());
    if (!normalized || normalized->size() != shape->size()) {
      return UnknownShape(c);
    }
    permutation = *normalized;
  }
  Shape result;
  for (const size_t axis : permutation) result.push_back((*shape)[axis]);
  SetResult(c, 0, ElementOf(c, 0), std::move(result));
  const Contents* source = ContentsOf(c, 0);
  if (source != nullptr && source->dims.size() == permutation.size()) {
    const std::vector<int64_t> strides = StridesOf(source->dims);
    SmallDims dims;
    std::vector<int64_t> permuted;
    for (const size_t axis : permutation) {
      dims.push_back(source->dims[axis]);
      permuted.push_back(strides[axis]);
    }
    SetContents(c, 0, Strided(*source, std::move(dims), 0, permuted));
  }
  return Complete(c);
}

bool DepthToSpace(ShapeContext& c) {
  const Shape* shape = c.shape(0);
  const int64_t block = IntAttribute(c.node, "blocksize", 0);
  const OptDim area = Times(Dim(block), Dim(block));
  if (shape == nullptr || shape->size() != 4 || block <= 0 || !area) {
    return UnknownShape(c);
  }
  SetResult(
      c, 0, ElementOf(c, 0),
      Shape{(*shape)[0], Floored((*shape)[1], area),
            Times((*shape)[2], Dim(block)), Times((*shape)[3], Dim(block))});
  return Complete(c);
}

bool SpaceToDepth(ShapeContext& c) {
  const Shape* shape = c.shape(0);
  const int64_t block = IntAttribute(c.node, "blocksize", 0);
  const OptDim area = Times(Dim(block), Dim(block));
  if (shape == nullptr || shape->size() != 4 || block <= 0 || !area) {
    return UnknownShape(c);
  }
  SetResult(c, 0, ElementOf(c, 0),
            Shape{(*shape)[0], Times((*shape)[1], area),
                  Floored((*shape)[2], Dim(block)),
                  Floored((*shape)[3], Dim(block))});
  return Complete(c);
}

}  // namespace onnx_memopt::ir::shape_rules
