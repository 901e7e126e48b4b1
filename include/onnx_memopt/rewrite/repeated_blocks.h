// The blocks of a network that repeat: encoder layers, the units of a stage.
//
//     h1 = Block(x,  w1, b1)
//     h2 = Block(h1, w2, b2)      begin 0, period: nodes of a block, count 3
//     y  = Block(h2, w3, b3)
//
//   if (std::optional<Repetition> found = FindRepetition(graph)) ...
//
// Blocks are a part of the main graph's schedule that repeats: the same ops
// with the same attributes, which read what stands as far before them, or the
// same values, or weights of the same type and shape. So they are equal up to
// their weights. Blocks whose nodes are interleaved, or that hold subgraphs or
// calls, are not found.
#ifndef ONNX_MEMOPT_REWRITE_REPEATED_BLOCKS_H_
#define ONNX_MEMOPT_REWRITE_REPEATED_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

// Periods times nodes are compared: a larger model is not looked at.
inline constexpr size_t kMaxNodesOfRepetition = 10'000;

// `count` blocks of `period` nodes, from `begin` of the schedule on.
struct Repetition {
  size_t begin = 0;
  size_t period = 0;
  size_t count = 0;
  int64_t later_bytes = 0;  // of weights that all blocks but the first read
  // Beside them there is one more, in two parts: the first block, in which
  // something stands that only it has (a mask), so that the run begins in its
  // middle, and the last, which ends behind the run where the first one was
  // cut.
  bool one_more = false;

  size_t end() const { return begin + period * count; }
};

// The one whose later blocks have the most bytes of weights; of those with as
// many, the one of the shortest period. Nothing where no block with weights
// repeats, or the model is too large.
std::optional<Repetition> FindRepetition(const ir::Graph& graph);
// That one, then what repeats beside it, in the order of the schedule. Not
// those whose weights are less than 1 % of the graph's. Says of each whether
// there is one more.
std::vector<Repetition> FindRepetitions(const ir::Graph& graph);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_REPEATED_BLOCKS_H_
