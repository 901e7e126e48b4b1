// From a plan over nodes to one over modules: which modules of the exporter
// make again, on the whole, what they save.
//
//   plan    conv1' relu1' bn1' of layer1.0, nothing of layer4
//   module  layer1.0 is wrapped; inside it the plan may keep a value or two,
//           which torch.utils.checkpoint cannot
#ifndef ONNX_MEMOPT_LIB_GRAD_WRAPPED_MODULES_H_
#define ONNX_MEMOPT_LIB_GRAD_WRAPPED_MODULES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "grad/step_units.h"
#include "onnx_memopt/grad/recomputed_segment.h"

namespace onnx_memopt::grad {

// "layer1.0" of "layer1.0.conv2": up to the first part that is a number; empty
// if there is none.
std::string LayerOf(const std::string& module);

// `modules`: by node. No module in the result holds another; in the order of
// the forward pass.
std::vector<WrappedModule> ModulesToWrap(
    const StepUnits& units, absl::Span<const int32_t> runs,
    const std::vector<std::string>& modules);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_WRAPPED_MODULES_H_
