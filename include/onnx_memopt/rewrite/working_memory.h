// Bytes that the steps of a block work with: what lives there, less what a
// rewritten run holds all the same, the model's outputs and the constants that
// the runtime computes when it loads the model.
//
//   logits       ........####   196 MiB, an output: not counted
//   attention    ..##........   144 MiB
//
// ONNX Runtime's arena keeps what the attention took, and has no place there
// for the logits. So the working memory is what splitting can lower, even where
// the live peak is elsewhere.
//
//   ASSIGN_OR_RETURN(const WorkingMemory memory,
//                    WorkingMemoryOf(graph, analyses, ir::kMainBlock));
//   memory.bytes[memory.peak_step];  // the highest
#ifndef ONNX_MEMOPT_REWRITE_WORKING_MEMORY_H_
#define ONNX_MEMOPT_REWRITE_WORKING_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

struct WorkingMemory {
  std::vector<int64_t> bytes;  // by step of the block, its subgraphs included
  // The first of the highest; -1 where there are no steps.
  int peak_step = -1;
};

// Of subgraphs, whose results their node copies or keeps, all that lives
// counts.
absl::StatusOr<WorkingMemory> WorkingMemoryOf(
    const ir::Graph& graph, analysis::AnalysisManager& analyses,
    ir::BlockId block);

// Steps of the main graph, but for nodes with subgraphs, that are higher than
// those around them and at least half as high as the peak: at most `count`,
// from high to low. None where steps are not positions.
std::vector<int> LowerPeaks(const ir::Graph& graph, const WorkingMemory& memory,
                            int count);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_WORKING_MEMORY_H_
