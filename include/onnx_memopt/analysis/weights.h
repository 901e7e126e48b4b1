// What the weights take, and what of it is there twice. External files are not
// opened: external weights count as equal if they are the same range of a file.
//
//   ASSIGN_OR_RETURN(const Weights* weights, analyses.Get<Weights>());
//   weights->bytes() - weights->duplicate_bytes();  // after sharing equal ones
#ifndef ONNX_MEMOPT_ANALYSIS_WEIGHTS_H_
#define ONNX_MEMOPT_ANALYSIS_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/equal_weights.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

class Weights {
 public:
  static absl::StatusOr<Weights> Compute(const ir::Graph& graph,
                                         AnalysisManager& analyses);

  // Initializers of every graph and results of Constant nodes that are in the
  // model, in order of definition.
  const std::vector<ir::ValueId>& values() const { return values_; }
  // Bytes of all of them, each counted once however many graphs read it.
  int64_t bytes() const { return bytes_; }
  int64_t count() const { return static_cast<int64_t>(values_.size()); }
  // Bytes that sharing equal weights would save.
  int64_t duplicate_bytes() const { return duplicate_bytes_; }
  const EqualWeights& equal() const { return equal_; }
  // Weights that the subgraphs of more than one place read: some runtimes keep
  // a copy for each.
  const std::vector<ir::ValueId>& shared_by_subgraphs() const {
    return shared_by_subgraphs_;
  }

  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  std::vector<ir::ValueId> values_;
  int64_t bytes_ = 0;
  int64_t duplicate_bytes_ = 0;
  EqualWeights equal_;
  std::vector<ir::ValueId> shared_by_subgraphs_;
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_WEIGHTS_H_
