#include "onnx_memopt/analysis/blocked_layout.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/string_view.h"
#include "analysis/ort_facts.h"

namespace onnx_memopt::analysis {

bool KeepsBlockedLayout(const ir::Node& node) {
  static constexpr absl::string_view kOps[] = {"Add",
                                               "AveragePool",
                                               "BatchNormalization",
                                               "Clip",
                                               "Concat",
                                               "Conv",
                                               "FusedConv",
                                               "GlobalAveragePool",
                                               "GlobalMaxPool",
                                               "HardSigmoid",
                                               "HardSwish",
                                               "LeakyRelu",
                                               "MaxPool",
                                               "Mul",
                                               "Relu",
                                               "Resize",
                                               "Sigmoid",
                                               "Sum",
                                               "Tanh",
                                               "Upsample"};
  return std::find(std::begin(kOps), std::end(kOps), node.op_type) !=
         std::end(kOps);
}

bool IsInBlocks(const ir::Graph& graph, ir::ValueId value,
                absl::FunctionRef<bool(const ir::Node&)> takes_blocks) {
  for (int steps = 0; steps < ort::kMaxBlockedSteps; ++steps) {
    const ir::NodeId producer = graph.value(value).producer;
    if (producer == ir::kNoNode) return false;
    const ir::Node& node = graph.node(producer);
    if (node.op_type == "Conv" && node.domain.empty()) {
      return takes_blocks(node);
    }
    if (!KeepsBlockedLayout(node) || node.operands.empty() ||
        node.operands[0] == ir::kNoValue) {
      return false;
    }
    value = node.operands[0];
  }
  return true;
}

bool CopiesIntoBlocks(const ir::Graph& graph, const ir::Node& pooling,
                      absl::FunctionRef<bool(const ir::Node&)> takes_blocks) {
  if (pooling.operands.empty() ||
      (pooling.results.size() > 1 && pooling.results[1] != ir::kNoValue)) {
    return false;
  }
  const ir::Type& type = graph.value(pooling.operands[0]).type;
  if (!type.is_tensor() || type.element != ir::ElementType::kFloat ||
      !type.shape || type.shape->size() != 4) {
    return false;
  }
  const std::optional<ir::Dim>& channels = (*type.shape)[1];
  return channels && channels->is_constant() &&
         channels->constant() % ort::kChannelBlock == 0 &&
         !IsInBlocks(graph, pooling.operands[0], takes_blocks);
}

}  // namespace onnx_memopt::analysis
