// Reductions, selections and normalisations.
#include <algorithm>
#include <utility>

#include "ir/shape_arithmetic.h"
#include "ir/shape_rule_util.h"

namespace onnx_memopt::ir::shape_rules {
namespace {

Shape Reduced(const Shape& shape, const std::vector<bool>& reduced,
              bool keep_dims) {
  Shape result;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!reduced[i]) {
      result.push_back(shape[i]);
    } else if (keep_dims) {
      result.push_back(Dim(1));
    }
  }
  return result;
}

// The op that combines two elements of a reduction.
absl::string_view Combiner(absl::string_view op) {
  if (op == "ReduceSum") return "Add";
  if (op == "ReduceProd") return "Mul";
  if (op == "ReduceMax") return "Max";
  if (op == "ReduceMin") return "Min";
  return "";
}

// The contents of a reduction over all axes.
void ReduceContents(ShapeContext& c, ElementType type) {
  const Contents* source = ContentsOf(c, 0);
  const absl::string_view combiner = Combiner(c.node.op_type);
  if (source == nullptr || combiner.empty() || source->elements.empty()) {
    return;
  }
  const auto dims = ResultDims(c);
  if (!dims || CountOf(*dims) != 1) return;
  if (source->elements.size() > kMaxSymbolicElements) return;
  Element total = source->elements[0];
  // The order of a floating-point sum is the runtime's own.
  const bool exact = !IsFloat(type) || combiner == "Max" || combiner == "Min" ||
                     source->elements.size() <= 2;
  if (!exact) return;
  for (size_t i = 1; i < source->elements.size(); ++i) {
    total = ComputeBinary({combiner}, type, total, source->elements[i]);
  }
  SetContents(c, 0, Contents{*dims, {total}});
}

}  // namespace

bool Reduce(ShapeContext& c) {
  const ElementType type = ElementOf(c, 0);
  SetResult(c, 0, type, std::nullopt);
  const Shape* shape = c.shape(0);
  const IntList axes = ListOf(c, "axes", 1);
  const bool keep_dims = IntAttribute(c.node, "keepdims", 1) != 0;
  const bool none_given = !axes.given || axes.size == 0;
  const bool no_op =
      none_given && IntAttribute(c.node, "noop_with_empty_axes", 0) != 0;
  if (shape == nullptr) {
    if (none_given && !no_op && !keep_dims) SetResult(c, 0, type, Shape{});
    return Complete(c);
  }
  if (no_op) {
    SetResult(c, 0, type, *shape);
    return Complete(c);
  }
  std::vector<bool> reduced(shape->size(), none_given);
  if (!none_given && !axes.values) {
    const auto rank = static_cast<int64_t>(shape->size());
    if (keep_dims) {
      // Each dim stays or becomes 1.
      Shape result = *shape;
      for (OptDim& dim : result) {
        if (dim != Dim(1)) dim.reset();
      }
      SetResult(c, 0, type, std::move(result));
    } else if (axes.size && *axes.size <= rank) {
      SetResult(c, 0, type, Shape(static_cast<size_t>(rank - *axes.size)));
    }
    return Complete(c);
  }
  if (!none_given) {
    const auto normalized = NormalizeAxes(*axes.values, shape->size());
    if (!normalized) return false;
    for (const size_t axis : *normalized) reduced[axis] = true;
  }
  SetResult(c, 0, type, Reduced(*shape, reduced, keep_dims));
  if (std::all_of(reduced.begin(), reduced.end(), [](bool r) { return r; })) {
    ReduceContents(c, type);
  }
  return Complete(c);
}

bool ArgReduce(ShapeContext& c) {
  SetResult(c, 0, ElementType::kInt64, std::nullopt);
  const Shape* shape = c.shape(0);
  if (shape == nullptr) return false;
  const auto axis =
      NormalizeAxis(IntAttribute(c.node, "axis", 0), shape->size());
  if (!axis) return false;
  std::vector<bool> reduced(shape->size(), false);
  reduced[*axis] = true;
  SetResult(c, 0, ElementType::kInt64,
            Reduced(*shape, reduced, IntAttribute(c.node, "keepdims", 1) != 0));
  return Complete(c);
}

bool TopK(ShapeContext& c) {
  std::optional<Shape> result;
  const Shape* shape = c.shape(0);
  if (shape != nullptr) {
    const auto axis =
        NormalizeAxis(IntAttribute(c.node, "axis", -1), shape->size());
    if (axis) {
      result = *shape;
      OptDim& dim = (*result)[*axis];
      if (HasAttribute(c.node, "k")) {
        dim = Dim(IntAttribute(c.node, "k", -1));
      } else {
        const std::optional<Element> k = ScalarOf(c, 1);
        dim = k ? AsInteger(*k) : std::nullopt;
      }
    }
  }
  SetResult(c, 0, ElementOf(c, 0), result);
  SetResult(c, 1, ElementType::kInt64, std::move(result));
  return Complete(c);
}

bool BatchNormalization(ShapeContext& c) {
  const Shape* x = c.shape(0);
  SetResult(c, 0, ElementOf(c, 0),
            x == nullptr ? std::nullopt : std::optional<Shape>(*x));
  // Running and, before opset 14, saved mean and variance: as the operands
  // mean and variance are.
  for (size_t i = 1; i < c.result_types.size() && i < 5; ++i) {
    const size_t statistic = i % 2 == 1 ? 3 : 4;
    std::optional<Shape> shape;
    if (const Shape* given = c.shape(statistic)) {
      shape = *given;
    } else if (const Shape* scale = c.shape(1)) {
      shape = *scale;
    } else if (x != nullptr && x->size() >= 2) {
      shape = Shape{(*x)[1]};
    }
    SetResult(c, i, ElementOf(c, IsOnnxBefore(c.node, 14) ? 0 : statistic),
              std::move(shape));
  }
  return Complete(c);
}

bool LayerNormalization(ShapeContext& c) {
  const Shape* x = c.shape(0);
  // The simplified form has the type of its scale.
  const bool simplified = c.node.op_type == "SimplifiedLayerNormalization" &&
                          ElementOf(c, 1) != ElementType::kUndefined;
  std::optional<Shape> statistics;
  if (x != nullptr) {
    const auto axis =
        NormalizeAxis(IntAttribute(c.node, "axis", -1), x->size());
    if (axis) {
      statistics = *x;
      for (size_t i = *axis; i < x->size(); ++i) (*statistics)[i] = Dim(1);
    }
  }
  SetResult(c, 0, ElementOf(c, simplified ? 1 : 0),
            x == nullptr ? std::nullopt : std::optional<Shape>(*x));
  // Mean and inverse standard deviation; the simplified form has the latter.
  const ElementType stash = HasAttribute(c.node, "stash_type")
                                ? RequestedType(c.node, "stash_type")
                                : ElementType::kFloat;
  for (size_t i = 1; i < c.result_types.size() && i < 3; ++i) {
    SetResult(c, i, stash, statistics);
  }
  return Complete(c);
}

bool SkipLayerNormalization(ShapeContext& c) {
  // output, mean, inv_std_var, input_skip_bias_sum
  const Shape* x = c.shape(0);
  std::optional<Shape> same;
  std::optional<Shape> statistics;
  if (x != nullptr) {
    same = *x;
    statistics = *x;
    if (!x->empty()) statistics->back() = Dim(1);
  }
  SetResult(c, 0, ElementOf(c, 0), same);
  SetResult(c, 1, ElementType::kFloat, statistics);
  SetResult(c, 2, ElementType::kFloat, statistics);
  SetResult(c, 3, ElementOf(c, 0), same);
  return Complete(c);
}

}  // namespace onnx_memopt::ir::shape_rules
