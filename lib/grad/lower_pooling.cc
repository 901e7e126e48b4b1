#include "grad/lower_pooling.h"

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "grad/write_out.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/analysis/blocked_layout.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {
namespace {

using ir::ValueId;
using rewrite::Emitter;

bool IsPooling(const ir::Node& node) {
  return node.domain.empty() && !node.is_call &&
         (node.op_type == "AveragePool" ||
          node.op_type == "GlobalAveragePool" ||
          node.op_type == "GlobalMaxPool");
}

// The same for one more axis before the others, of extent one.
Emitter::Attributes WithDepth(Emitter::Attributes attributes) {
  for (ir::Attribute& attribute : attributes) {
    auto* values = std::get_if<std::vector<int64_t>>(&attribute.value);
    if (values == nullptr) continue;
    if (attribute.name == "pads") {
      values->insert(values->begin() + static_cast<int64_t>(values->size() / 2),
                     0);
      values->insert(values->begin(), 0);
    } else {  // kernel_shape, strides, dilations
      values->insert(values->begin(), 1);
    }
  }
  return attributes;
}

}  // namespace

void LowerPooling(absl::Span<const ValueId> parameters,
                  rewrite::Builder& builder) {
  const ir::Graph& graph = builder.graph();
  const llvm::DenseSet<ValueId> trained(parameters.begin(), parameters.end());
  const auto takes_blocks = [&](const ir::Node& convolution) {
    if (convolution.operands.size() < 2) return false;
    const ValueId filters = convolution.operands[1];
    return graph.value(filters).weight != ir::kNoWeight &&
           !trained.contains(filters);
  };
  WriteOut(builder, [&](const ir::Node& node, Emitter* e) {
    std::vector<ValueId> made;
    if (!IsPooling(node) ||
        !analysis::CopiesIntoBlocks(graph, node, takes_blocks)) {
      return made;
    }
    Emitter::Attributes attributes = WithDepth(node.attributes);
    const ValueId volume = e->Unsqueeze(node.operands[0], {2});
    made.push_back(
        e->Squeeze(e->Op(node.op_type, {volume}, std::move(attributes)), {2}));
    return made;
  });
}

}  // namespace onnx_memopt::grad
