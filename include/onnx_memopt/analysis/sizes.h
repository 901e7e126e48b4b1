// Bytes of every value, as a polynomial and as a number.
//
// Where a symbolic dimension is not bound, the number is for its size in
// Graph::assumed, or 1; Graph::symbols lists those, and reports say so. A size
// that is unknown stays unknown: nullopt, never 0.
//
//   ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
//   sizes->bytes(value);           // 4096, for batch assumed to be 1
//   sizes->symbolic_bytes(value);  // 4096*batch
#ifndef ONNX_MEMOPT_ANALYSIS_SIZES_H_
#define ONNX_MEMOPT_ANALYSIS_SIZES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

// Every unbound name of the graph with the size that numbers are given for.
ir::Bindings AssumedBindings(const ir::Graph& graph);

class Sizes {
 public:
  static absl::StatusOr<Sizes> Compute(const ir::Graph& graph,
                                       AnalysisManager& analyses);

  std::optional<int64_t> bytes(ir::ValueId value) const {
    return bytes_[ir::Index(value)];
  }
  const std::optional<ir::Dim>& symbolic_bytes(ir::ValueId value) const {
    return symbolic_[ir::Index(value)];
  }

  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  std::vector<std::optional<int64_t>> bytes_;
  std::vector<std::optional<ir::Dim>> symbolic_;
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_SIZES_H_
