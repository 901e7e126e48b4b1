#include "estimate/torch_views.h"

namespace onnx_memopt::estimate {
namespace {

// With a ratio of 0 it hands its operand on.
bool IsIdleDropout(const ir::Graph& graph, const ir::Node& node) {
  if (node.op_type != "Dropout" || node.operands.size() < 2 ||
      node.operands[1] == ir::kNoValue) {
    return false;
  }
  const auto& ratio = graph.value(node.operands[1]).contents;
  return ratio && ratio->elements.size() == 1 && ratio->elements[0].real &&
         *ratio->elements[0].real == 0;
}

bool IsIdleCast(const ir::Graph& graph, const ir::Node& node) {
  if ((node.op_type != "Cast" && node.op_type != "CastLike") ||
      node.operands.empty() || node.operands[0] == ir::kNoValue ||
      node.results.empty() || node.results[0] == ir::kNoValue) {
    return false;
  }
  const ir::Type& from = graph.value(node.operands[0]).type;
  const ir::Type& to = graph.value(node.results[0]).type;
  return from.is_tensor() && to.is_tensor() && from.element == to.element;
}

}  // namespace

bool IsTorchView(const ir::Graph& graph, const ir::Node& node) {
  return node.info->view_of == 0 || node.op_type == "Transpose" ||
         node.op_type == "Split" || node.op_type == "Slice" ||
         node.op_type == "Expand" || node.op_type == "SplitToSequence" ||
         node.op_type == "SequenceAt" || IsIdleDropout(graph, node) ||
         IsIdleCast(graph, node);
}

}  // namespace onnx_memopt::estimate
