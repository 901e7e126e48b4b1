// Weights in external files are mapped, not read. Kernels that repack a weight
// when the session is made (a constant matrix of MatMul or Gemm) read it then,
// and the mapping is dropped. Others read it where it is, when they run: its
// pages then become resident, and stay.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "analysis/runtime_block.h"
#include "onnx_memopt/ir/weight.h"

namespace onnx_memopt::analysis {
namespace {

constexpr int64_t kPageBytes = 4096;
// Pages of a file that one access to it makes resident, at most.
constexpr int64_t kFaultBytes = 2 << 20;

// How the runtime itself names the place of a weight that is in no file;
// bench/runtime_table.py marks with it what is not in the original model.
constexpr absl::string_view kInMemory = "_ORT_MEM_ADDR_";

bool Is(const ir::Node& node, absl::string_view domain,
        absl::string_view name) {
  return node.domain == domain && node.op_type == name;
}

// The kernel keeps a packed copy of this operand, and the original goes.
bool Packs(const RuntimeContext& context, const ir::Node& node,
           size_t operand) {
  if (operand == 1 && (Is(node, "", "MatMul") || Is(node, "", "Gemm") ||
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

// What `value` is a view or a cast of.
ir::ValueId RootOf(const RuntimeContext& context, ir::ValueId value) {
  while (context.graph.value(value).producer != ir::kNoNode) {
    const ir::Node& node =
        context.graph.node(context.graph.value(value).producer);
    const bool follows = node.info->view_of == 0 || Is(node, "", "Cast");
    if (!follows || node.operands.empty() || node.operands[0] == ir::kNoValue) {
      break;
    }
    value = node.operands[0];
  }
  return value;
}

}  // namespace

int64_t ReadsInPlace(const RuntimeContext& context, const ir::Node& node,
                     size_t operand) {
  const ir::ValueId value = node.operands[operand];
  const ir::Weight& weight =
      context.graph.weight(context.graph.value(value).weight);
  if (weight.storage != ir::WeightStorage::kExternal) return 0;
  // In a graph that the runtime wrote, what its optimizer made: in memory.
  if (absl::StrContains(weight.external.path, kInMemory)) return 0;
  if (Packs(context, node, operand)) return 0;
  const int64_t pages =
      (weight.size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  // Filters in blocked layouts were made by the optimizer, in memory.
  if (context.options.mapped_weights == MappedWeights::kOriginal &&
      node.domain == "com.microsoft.nchwc") {
    return 0;
  }
  // Rows that the caller's indices pick: not known before the run; at least
  // what the system brings in at once. Rows that the model picks itself are as
  // good as all of them.
  if (operand == 0 && Is(node, "", "Gather") && node.operands.size() > 1) {
    const ir::ValueId rows = RootOf(context, node.operands[1]);
    if (context.graph.value(rows).kind == ir::ValueKind::kInput) {
      return std::min(pages, kFaultBytes);
    }
    const std::optional<int64_t> picked =
        node.results.empty() ? std::nullopt
                             : context.sizes.bytes(node.results[0]);
    if (picked) return std::min(pages, *picked);
  }
  return pages;
}

}  // namespace onnx_memopt::analysis
