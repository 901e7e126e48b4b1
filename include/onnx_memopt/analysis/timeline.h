// The steps of each block: its nodes in schedule order, with every call of a
// model-local function replaced by the nodes of its body. A runtime that
// inlines functions runs these steps.
//
//   for (ir::NodeId node : timeline.steps(ir::kMainBlock)) ...
#ifndef ONNX_MEMOPT_ANALYSIS_TIMELINE_H_
#define ONNX_MEMOPT_ANALYSIS_TIMELINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

class Timeline {
 public:
  static absl::StatusOr<Timeline> Compute(const ir::Graph& graph,
                                          AnalysisManager& analyses);

  // The main graph and every subgraph that still is part of the model, an outer
  // one before those nested in it. Bodies of calls are part of their callers.
  const std::vector<ir::BlockId>& blocks() const { return blocks_; }
  // Empty for blocks that are not in blocks().
  const std::vector<ir::NodeId>& steps(ir::BlockId block) const {
    return steps_[ir::Index(block)];
  }
  // "call/inner" for a step inside a call's body.
  std::string StepName(const ir::Graph& graph, ir::NodeId node) const;

  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  std::vector<ir::BlockId> blocks_;
  std::vector<std::vector<ir::NodeId>> steps_;  // by BlockId
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_TIMELINE_H_
