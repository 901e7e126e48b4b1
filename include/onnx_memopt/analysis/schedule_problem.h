// One block of the graph as a scheduling problem for lib/plan.
//
//   ASSIGN_OR_RETURN(ScheduleProblemOfBlock p,
//                    BuildScheduleProblem(graph, analyses, ir::kMainBlock));
//   ... plan::MinimizePeak(p.problem, ...) ...
//   p.nodes[order[i]]                        // the node at step i
//
// A call of a function is one node of the problem: its body is written back as
// it was, so it runs as a whole.
#ifndef ONNX_MEMOPT_ANALYSIS_SCHEDULE_PROBLEM_H_
#define ONNX_MEMOPT_ANALYSIS_SCHEDULE_PROBLEM_H_

#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/plan/schedule.h"

namespace onnx_memopt::analysis {

struct ScheduleProblemOfBlock {
  plan::ScheduleProblem problem;
  std::vector<ir::NodeId> nodes;  // of the problem's nodes, in schedule order
};

// `block` is the main graph or a subgraph. Buffers of unknown size count as 0.
absl::StatusOr<ScheduleProblemOfBlock> BuildScheduleProblem(
    const ir::Graph& graph, AnalysisManager& analyses, ir::BlockId block);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_SCHEDULE_PROBLEM_H_
