// Weights in external files are mapped, not read. Kernels that repack a weight
// when the session is made (a constant matrix of MatMul or Gemm) read it then,
// and the mapping is dropped. Others read it where it is, when they run: its
// pages then become resident, and stay.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "analysis/runtime_block.h"
#include "onnx_memopt/ir/weight.h"

namespace onnx_memopt::analysis {
namespace {

constexpr int64_t kPageBytes = 4096;

bool Is(const ir::Node& node, absl::string_view domain,
        absl::string_view name) {
  return node.domain == domain && node.op_type == name;
}

// The kernel keeps a packed copy of this operand, and the original goes.
bool Packs(const RuntimeContext& context, const ir::Node& node,
           size_t operand) {
  if (operand == 1 &&
      (Is(node, "", "MatMul") || Is(node, "", "Gemm") ||
       Is(node, "", "ConvTranspose") ||
       Is(node, "com.microsoft", "FusedMatMul") ||
       Is(node, "com.microsoft", "FusedGemm") ||
       Is(node, "com.microsoft", "Attention"))) {
    const std::optional<ConcreteShape> shape =
        context.OperandShape(node, operand);
    if (Is(node, "", "ConvTranspose")) {
      return IntAttribute(node, "group", 1) == 1;
    }
    // Stacks of matrices are not packed.
    return shape && shape->size() == 2;
  }
  return (operand == 1 || operand == 2) &&
         (Is(node, "", "LSTM") || Is(node, "", "GRU"));
}

}  // namespace

int64_t ReadsInPlace(const RuntimeContext& context, const ir::Node& node,
                     size_t operand) {
  const ir::ValueId value = node.operands[operand];
  const ir::Weight& weight =
      context.graph.weight(context.graph.value(value).weight);
  if (weight.storage != ir::WeightStorage::kExternal) return 0;
  if (Packs(context, node, operand)) return 0;
  const int64_t pages =
      (weight.size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (operand == 0 && Is(node, "", "Gather")) {
    // Rows that are picked: at most as many pages as the result takes, and one
    // more for each row.
    const std::optional<ConcreteShape> data = context.OperandShape(node, 0);
    const std::optional<ConcreteShape> rows = context.OperandShape(node, 1);
    if (data && rows && !data->empty() && data->front() > 0) {
      int64_t count = 1;
      for (int64_t dim : *rows) {
        count = std::min<int64_t>(count * std::max<int64_t>(dim, 0),
                                  data->front());
      }
      const int64_t row_bytes = weight.size_bytes / data->front();
      return std::min(pages, count * (row_bytes + kPageBytes));
    }
  }
  return pages;
}

}  // namespace onnx_memopt::analysis
