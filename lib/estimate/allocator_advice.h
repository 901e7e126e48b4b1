// What allocators take for a step, and what helps. Private to lib/estimate.
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_ALLOCATOR_ADVICE_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_ALLOCATOR_ADVICE_H_

#include <string>
#include <vector>

#include "onnx_memopt/estimate/configuration.h"
#include "onnx_memopt/estimate_report.h"

namespace onnx_memopt::estimate {

// Of the stage's trace; `stage.caching` is known.
EstimateAllocators SimulateAllocators(const StageEstimate& stage);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_ALLOCATOR_ADVICE_H_
