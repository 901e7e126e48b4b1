// A transformer of given sizes as Megatron trains it, without weights: for
// tests that compare what follows from a graph with published formulas.
//
//   onnx::ModelProto model = MakeTransformer({.layers = 2, .hidden = 64});
#ifndef ONNX_MEMOPT_TEST_SUPPORT_TRANSFORMER_MODEL_H_
#define ONNX_MEMOPT_TEST_SUPPORT_TRANSFORMER_MODEL_H_

#include <cstdint>

#include "onnx/onnx_pb.h"

namespace onnx_memopt::testing {

struct TransformerSizes {
  int64_t layers = 2;
  int64_t batch = 1;
  int64_t sequence = 16;
  int64_t hidden = 64;
  int64_t heads = 4;
  // Token ids, an embedding and logits around the layers; 0: activations in,
  // activations out.
  int64_t vocabulary = 0;
};

// Pre-normalisation layers with dropout after the softmax, the projection and
// the second linear layer of the MLP, which is four times as wide.
onnx::ModelProto MakeTransformer(const TransformerSizes& sizes);

}  // namespace onnx_memopt::testing

#endif  // ONNX_MEMOPT_TEST_SUPPORT_TRANSFORMER_MODEL_H_
