// A plan cut into stages: runs that stand together in one subgraph.
//
//   runs    a b c d | e c' f | b' g h        c' and b' are made again
//   stages  0         1        2
//
// What a stage reads of others it holds until it ends, and what it hands on it
// has from its beginning. Stages are as long as they can be without that
// raising the peak of the plan.
#ifndef ONNX_MEMOPT_LIB_GRAD_STAGES_H_
#define ONNX_MEMOPT_LIB_GRAD_STAGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "grad/step_units.h"

namespace onnx_memopt::grad {

struct Stages {
  // By run: the runs whose values it reads, the latest of each unit.
  std::vector<std::vector<int32_t>> reads;
  // By run: the last one that reads it; itself if there is none.
  std::vector<int32_t> last_read;
  // By run: what lives while it lasts, its kernels' workspace too.
  std::vector<int64_t> live_bytes;
  // By run: its stage.
  std::vector<int32_t> stage;
  int32_t count = 0;
  // Of the plan, with what stages hold; without what is not of the units.
  int64_t peak_bytes = 0;
};

Stages CutIntoStages(const StepUnits& units, absl::Span<const int32_t> runs);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_STAGES_H_
