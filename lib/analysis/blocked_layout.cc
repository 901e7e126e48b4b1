#include "onnx_memopt/analysis/blocked_layout.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/string_view.h"

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

}  // namespace onnx_memopt::analysis
