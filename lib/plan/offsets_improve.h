// The quick way to a good plan, for problems of any size: first fit over
// several orders, then the orders that were best are changed where the plan is
// too high.
#ifndef ONNX_MEMOPT_PLAN_OFFSETS_IMPROVE_H_
#define ONNX_MEMOPT_PLAN_OFFSETS_IMPROVE_H_

#include <chrono>
#include <cstdint>
#include <functional>

#include "plan/offsets_portfolio.h"

namespace onnx_memopt::plan {

struct ImproveLimits {
  int64_t enough = 0;  // nothing is gained by a plan below this height
  int threads = 1;
  uint64_t seed = 1;
  int64_t max_placements = 0;  // per thread
  std::chrono::steady_clock::time_point deadline;
};

// Lowers part.height, or leaves the part as it is. `improved` is called from
// the calling thread.
void Improve(PartState& part, const ImproveLimits& limits,
             const std::function<void()>& improved);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_OFFSETS_IMPROVE_H_
