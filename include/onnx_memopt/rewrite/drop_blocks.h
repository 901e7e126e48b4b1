// A network with fewer of its repeated blocks.
//
//     h1 = Block(x,  w1)              h1 = Block(x, w1)
//     h2 = Block(h1, w2)        =>
//     h3 = Block(h2, w3)
//     y  = Head(h3)                   y  = Head(h1)
//
//   for (const Repetition& blocks : FindRepetitions(graph)) ...
//   RETURN_IF_ERROR(DropBlocks(blocks, /*keep=*/1, &graph));
#ifndef ONNX_MEMOPT_REWRITE_DROP_BLOCKS_H_
#define ONNX_MEMOPT_REWRITE_DROP_BLOCKS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/repeated_blocks.h"

namespace onnx_memopt::rewrite {

// Keeps the first `keep` blocks, at least one. What reads the last block reads
// the last one that is kept. Inputs and outputs of the model that each block
// has for itself (its cache, its hidden state) go with it. An error names a
// node outside of the blocks that reads one of those that go, but is not behind
// the last. Weights that nothing reads any more go, too; other places in the
// schedule are valid only before the blocks.
absl::Status DropBlocks(const Repetition& blocks, size_t keep,
                        ir::Graph* graph);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_DROP_BLOCKS_H_
