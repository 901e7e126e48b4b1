// Which weights hold the same tensor.
//
//   ASSIGN_OR_RETURN(
//       EqualWeights equal,
//       FindEqualWeights(graph, weights, {.read_external = true}));
//   for (const auto& group : equal.groups) ...  // two or more ids, ascending
//
// Two weights are equal if element type, dims and every bit agree. Weights of
// one size are told apart by a few samples first, so that in most models hardly
// any weight is read; only those that agree there are hashed as a whole, in
// pieces, with memory that does not depend on their size.
#ifndef ONNX_MEMOPT_ANALYSIS_EQUAL_WEIGHTS_H_
#define ONNX_MEMOPT_ANALYSIS_EQUAL_WEIGHTS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

struct EqualWeightsOptions {
  // Read external files. Otherwise external weights are equal only if they are
  // the same range of the same file.
  bool read_external = false;
  // Weights of fewer bytes are not compared.
  int64_t min_size_bytes = 0;
};

struct EqualWeights {
  std::vector<std::vector<ir::WeightId>> groups;
  // Pairs of matrices of which one is the other transposed.
  std::vector<std::pair<ir::WeightId, ir::WeightId>> transposed;
  // Files that could not be read, one message each: their weights were taken
  // as different from all others.
  std::vector<std::string> unread;
};

absl::StatusOr<EqualWeights> FindEqualWeights(
    const ir::Graph& graph, absl::Span<const ir::WeightId> weights,
    const EqualWeightsOptions& options);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_EQUAL_WEIGHTS_H_
