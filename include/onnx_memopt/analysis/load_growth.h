// What ONNX Runtime makes of the weights when it loads the model: at its
// default levels it runs each node that reads only constants, and keeps the
// results in place of the operands. A tiled, expanded or cast weight is then as
// large in memory as its result is.
//
//   w int8[512, 512]  ->  Cast  ->  Mul(scale)  ->  MatMul
//   256 KiB in the file, 1 MiB (float) once loaded: growth_bytes() = 768 KiB
//
// Not folded, as that runtime does not: DequantizeLinear, random ops, nodes
// with subgraphs, ops that are not in the op table. Measured on ONNX Runtime
// 1.32 by test/reports/test_rows_size.py.
#ifndef ONNX_MEMOPT_ANALYSIS_LOAD_GROWTH_H_
#define ONNX_MEMOPT_ANALYSIS_LOAD_GROWTH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

class LoadGrowth {
 public:
  static absl::StatusOr<LoadGrowth> Compute(const ir::Graph& graph,
                                            AnalysisManager& analyses);

  // Nodes that are run once, when the model is loaded.
  int64_t folded_nodes() const { return folded_nodes_; }
  // Results that stay, less weights that go; negative where it shrinks. Of
  // what is of known size.
  int64_t growth_bytes() const { return growth_bytes_; }
  // Computed then, not in a run.
  bool is_folded(ir::ValueId value) const { return folded_[ir::Index(value)]; }

  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  int64_t folded_nodes_ = 0;
  int64_t growth_bytes_ = 0;
  std::vector<bool> folded_;  // by ValueId
};

// Whether the runtime computes the node when it loads the model, if all that it
// reads is constant.
bool MayFold(const ir::Node& node);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_LOAD_GROWTH_H_
