#include "grad/scatter.h"

#include <string>
#include <vector>

namespace onnx_memopt::grad {

ValueId ScatterAdd(Emitter& e, ValueId dims, ValueId indices, ValueId updates,
                   int64_t axis) {
  // Runtimes add 32 and 64 bit numbers only.
  const ir::ElementType element = e.element(updates);
  const bool small = element == ir::ElementType::kFloat16 ||
                     element == ir::ElementType::kBfloat16;
  const ir::ElementType sum = small ? ir::ElementType::kFloat : element;
  const ValueId result = e.Op(
      "ScatterElements", {e.Zeros(sum, dims), indices, e.Cast(updates, sum)},
      {Attr("axis", axis), Attr("reduction", std::string("add"))});
  return e.Cast(result, element);
}

ValueId ScatterAlongAxis(Emitter& e, ValueId updates, int64_t axis,
                         ValueId positions, ValueId extent, size_t rank) {
  // The positions, repeated over the other axes.
  Emitter::Axes others;
  for (size_t i = 0; i < rank; ++i) {
    if (static_cast<int64_t>(i) != axis) others.push_back(static_cast<int>(i));
  }
  const ValueId shape = e.ShapeOf(updates);
  const ValueId indices = e.Expand(e.Unsqueeze(positions, others), shape);
  std::vector<ValueId> dims;
  const auto n = static_cast<int64_t>(rank);
  if (axis > 0) dims.push_back(e.Slice(shape, {0}, {0}, {axis}));
  dims.push_back(extent);
  if (axis + 1 < n) dims.push_back(e.Slice(shape, {0}, {axis + 1}, {n}));
  return ScatterAdd(e, e.Concat(dims, 0), indices, updates, axis);
}

}  // namespace onnx_memopt::grad
