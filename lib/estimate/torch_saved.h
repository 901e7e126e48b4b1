// What PyTorch's autograd keeps of a node's operands and results until the
// node's gradient has been computed. Private to lib/estimate.
//
// The op table says what a gradient needs (OpInfo::saved). PyTorch's formulas
// need the same for most ops; where they differ, a row here says so. And an
// operand that only another operand's gradient needs is kept only if that one
// has a gradient: of x * w, w is kept for x's gradient and x for w's.
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_TORCH_SAVED_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_TORCH_SAVED_H_

#include <cstdint>
#include <functional>

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {

// What is kept beside operands and results.
enum class ExtraSaved : uint8_t {
  kNone,
  kMask,         // a byte for each element of the result
  kIndices,      // 8 bytes for each element of the result
  kRowStats,     // mean and deviation of each normalised row, float32
  kChannelStats  // mean and deviation of each channel, float32
};

struct TorchSaved {
  uint32_t operands = 0;  // bit masks, as in ir::SavedForBackward
  uint32_t results = 0;
  ExtraSaved extra = ExtraSaved::kNone;
};

// `has_gradient` of an operand index. For a node that has a gradient.
TorchSaved SavedByTorch(const ir::Node& node,
                        const std::function<bool(size_t)>& has_gradient);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_TORCH_SAVED_H_
