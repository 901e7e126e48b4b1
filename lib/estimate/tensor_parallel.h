// Tensor parallelism as the graph allows it, in Megatron's way: products whose
// operand every GPU has are split by column, those that read their results by
// row. Private to lib/estimate.
//
//   x --+-> MatMul(Wq) -> q heads/t --+
//       +-> MatMul(Wk) -> k heads/t --+-> attention/t -> MatMul(Wo) -> sum
//       +-> MatMul(Wv) -> v heads/t --+                  by row
//         by column
//
// The split is followed by dimension flow (ir::SplitWays). Where it meets what
// needs the whole of a value (a normalisation over the hidden size), the
// products that it came from stay whole.
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_TENSOR_PARALLEL_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_TENSOR_PARALLEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "estimate/gradient_flow.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {

struct TensorSplit {
  std::vector<bool> split;  // by ValueId: activations and initializers
  int64_t column_products = 0;
  int64_t row_products = 0;
  int64_t whole_products = 0;  // with weights
};

// Errors (kOutOfRange): `ways` does not divide the heads or another axis.
absl::StatusOr<TensorSplit> SplitTensors(const ir::Graph& graph,
                                         absl::Span<const ir::NodeId> steps,
                                         const GradientFlow& flow,
                                         int64_t ways);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_TENSOR_PARALLEL_H_
