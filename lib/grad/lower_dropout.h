// Dropout in training, in ops of which two runs are equal.
#ifndef ONNX_MEMOPT_LIB_GRAD_LOWER_DROPOUT_H_
#define ONNX_MEMOPT_LIB_GRAD_LOWER_DROPOUT_H_

#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::grad {

// int64 scalars that the masks depend on.
struct DropoutSeed {
  ir::ValueId seed;
  ir::ValueId step;
  ir::ValueId micro_batch = ir::kNoValue;  // or none
};

// True if a Dropout of the main block is known to draw.
bool HasTrainingDropout(const ir::Graph& graph);

// Each of these becomes a mask, computed from the seed, the node's place in the
// model and the element's, and a choice by it. A mask is the same whenever it
// is computed in one step, so that a segment may be made again, and a training
// that is resumed goes on as if it had not stopped.
void LowerDropout(const DropoutSeed& seed, rewrite::Builder& builder);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_LOWER_DROPOUT_H_
