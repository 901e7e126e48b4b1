#include "estimate/torch_layout.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::estimate {

Layout LayoutAfter(const ir::Node& view, Layout layout) {
  if (view.op_type == "Expand") return Layout::kPermuted;
  if (view.op_type != "Transpose") return layout;
  const std::vector<int64_t>* perm = ir::IntsAttribute(view, "perm");
  const bool swaps_heads =
      perm != nullptr && *perm == std::vector<int64_t>{0, 2, 1, 3};
  return layout == Layout::kTokensFirst && swaps_heads ? Layout::kContiguous
                                                       : Layout::kPermuted;
}

bool MergesDims(const ir::Graph& graph, const ValueSizes& sizes,
                ir::ValueId source, ir::ValueId result) {
  const ir::Type& from = graph.value(source).type;
  const ir::Type& to = graph.value(result).type;
  if (!from.shape || !to.shape) return true;
  // Every dim of the source but ones must be a product of dims of the result.
  size_t next = 0;
  for (const auto& dim : *from.shape) {
    if (!dim) return true;
    const int64_t size = sizes.Evaluate(*dim).value_or(0);
    if (size == 1) continue;
    int64_t product = 1;
    while (next < to.shape->size() && product < size) {
      const auto& part = (*to.shape)[next];
      const int64_t factor = part ? sizes.Evaluate(*part).value_or(0) : 0;
      product = CheckedMul(product, factor).value_or(INT64_MAX);
      ++next;
      if (product == 0) return true;
    }
    if (product != size) return true;
  }
  return false;
}

}  // namespace onnx_memopt::estimate
