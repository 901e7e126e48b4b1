// A run of the main graph in ONNX Runtime without arena and pattern, where
// every tensor is an allocation of its own: which values share a buffer, and
// where the peak is.
//
//   ASSIGN_OR_RETURN(const BareRun run, RunBare(graph));
//   run.order[run.peak_at];  // the step at the peak
#ifndef ONNX_MEMOPT_REWRITE_BARE_RUN_H_
#define ONNX_MEMOPT_REWRITE_BARE_RUN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

struct BareRun {
  analysis::RuntimeBlock block;
  std::vector<int32_t> order;  // steps of the block
  analysis::BufferPlan plan;
  int64_t peak_bytes = 0;
  int64_t sum_bytes = 0;  // over all steps
  int32_t peak_at = -1;   // position in `order`; -1 where nothing is allocated
};

absl::StatusOr<BareRun> RunBare(const ir::Graph& graph);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_BARE_RUN_H_
