// Which values are the same bytes under another shape: chains of views
// (Reshape, Squeeze, Identity, ...). In-place results are not here, since they
// depend on the schedule: see liveness.h.
//
//   aliases.root(reshaped) == aliases.root(original)
#ifndef ONNX_MEMOPT_ANALYSIS_ALIASES_H_
#define ONNX_MEMOPT_ANALYSIS_ALIASES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

class Aliases {
 public:
  static absl::StatusOr<Aliases> Compute(const ir::Graph& graph,
                                         AnalysisManager& analyses);

  // The value that was first to hold these bytes; its own id for most.
  ir::ValueId root(ir::ValueId value) const { return root_[ir::Index(value)]; }

  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  std::vector<ir::ValueId> root_;
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_ALIASES_H_
