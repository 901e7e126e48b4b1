// Where a model can be cut, and its repeated blocks: what is checkpointed,
// pipelined, shared or left out as one.
//
// A cut is a place between two units that one activation with a gradient
// crosses: between the layers of a transformer, after the addition that ends a
// residual block. Units between two cuts are a piece; pieces whose ops repeat
// with some period are put together, so that a block is a whole layer.
//
//   embedding | attention | mlp | attention | mlp | head
//             '-------block-----'-------block-----'
//
// Where skip connections cross most of a model, as in a U-Net, it has few such
// places. Then activations that are read again only much later do not count:
//
//   down 1 | down 2 | middle | up 2 | up 1      | two or three activations
//        \________\________/______/              cross: all but one are skips
//
//   ModelBlocks blocks = FindBlocks(facts);
//   TraceStep(facts, {.checkpoints = GroupBlocks(blocks.blocks, 2)});
#ifndef ONNX_MEMOPT_ESTIMATE_BLOCKS_H_
#define ONNX_MEMOPT_ESTIMATE_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "onnx_memopt/estimate/model_facts.h"
#include "onnx_memopt/estimate/step_trace.h"

namespace onnx_memopt::estimate {

struct ModelBlocks {
  // Cut before these units, ascending; 0 and the number of units are not there.
  std::vector<UnitIndex> cuts;
  // Bytes that cross each cut, skips included, for a batch of 1 in float32.
  std::vector<int64_t> cut_bytes;
  std::vector<Checkpoint> blocks;  // in order, disjoint
  bool repeated = false;           // blocks are the periods of equal pieces
  bool skips = false;              // some cuts are crossed by skips as well
};

ModelBlocks FindBlocks(const ModelFacts& facts);

// The attention cores: scores, mask, softmax and their use.
std::vector<Checkpoint> AttentionCores(const ModelFacts& facts);

// Blocks put together in groups of `size`.
std::vector<Checkpoint> GroupBlocks(const std::vector<Checkpoint>& blocks,
                                    int64_t size);

// Arithmetic of these units, forward, for a batch.
int64_t FlopsOf(const ModelFacts& facts, UnitIndex begin, UnitIndex end,
                int64_t batch);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_ESTIMATE_BLOCKS_H_
