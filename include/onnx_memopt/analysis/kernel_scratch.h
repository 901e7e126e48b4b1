// What kernels of ONNX Runtime take while they run, beside their operands and
// results; the rules are those of the runtime model.
//
//   std::vector<int64_t> bytes;
//   ASSIGN_OR_RETURN(bytes, KernelScratch(graph, analyses, block, options));
//   bytes[p];  // of the node at position p of the block
#ifndef ONNX_MEMOPT_ANALYSIS_KERNEL_SCRATCH_H_
#define ONNX_MEMOPT_ANALYSIS_KERNEL_SCRATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

absl::StatusOr<std::vector<int64_t>> KernelScratch(
    const ir::Graph& graph, AnalysisManager& analyses, ir::BlockId block,
    const RuntimeOptions& options);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_KERNEL_SCRATCH_H_
