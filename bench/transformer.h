// The model on which single functions are timed: encoder blocks whose attention
// heads are split out, as in generate.py, with weights in an external file that
// does not exist. Nothing here reads weights.
//
//   onnx::ModelProto model = bench::MakeTransformer(10'000);
#ifndef ONNX_MEMOPT_BENCH_TRANSFORMER_H_
#define ONNX_MEMOPT_BENCH_TRANSFORMER_H_

#include <cstdint>

#include "onnx/onnx_pb.h"

namespace onnx_memopt::bench {

// A model of exactly `nodes` nodes, at least 1.
onnx::ModelProto MakeTransformer(int64_t nodes);

}  // namespace onnx_memopt::bench

#endif  // ONNX_MEMOPT_BENCH_TRANSFORMER_H_
