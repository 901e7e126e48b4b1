// Gives weights new elements, as a network has them before it is trained.
//
//   RETURN_IF_ERROR(FillFresh(/*seed=*/0, weights, &graph));
#ifndef ONNX_MEMOPT_REWRITE_FRESH_WEIGHTS_H_
#define ONNX_MEMOPT_REWRITE_FRESH_WEIGHTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

// By what reads the weight first:
//
//   Conv                         normal, deviation sqrt(2 / inputs of a
//                                channel) (He et al., 2015)
//   MatMul, Gemm and others      normal, sqrt(2 / (rows + columns))
//                                (Glorot and Bengio, 2010)
//   an index, a sum              normal, 0.02: embeddings, as in GPT-2
//   scale and variance of norms, factors of one axis    1
//   PRelu's slope                0.25
//   biases, means, terms of one axis                    0
//
// The elements follow from the seed and the weight's name. An error for types
// other than float, double, float16 and bfloat16.
absl::Status FillFresh(uint64_t seed, absl::Span<const ir::ValueId> weights,
                       ir::Graph* graph);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_FRESH_WEIGHTS_H_
