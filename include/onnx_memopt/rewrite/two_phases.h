// Writes reductions over an image in two phases, so that a region that is split
// along its rows can reach up to them, and begin behind them.
//
// A norm needs all of its operand before it makes its first element. What it
// needs is small: a mean and a variance for each channel or group.
//
//     x  [n, c, h, w]                  x
//     y = InstanceNormalization(x)     per row:  mean, variance  [n, c, h, 1]
//                                      combine:  scale, shift    [n, c, 1, 1]
//                                      apply:    y = x * scale + shift
//
// Rows are independent in the first phase and in the last, so both can be part
// of a region: the one that makes x, and the one that reads y. Only what stands
// between them, on one number for each row, needs all rows.
//
// The variance of the whole is the mean of the variances of its rows and the
// variance of their means. No squares of large numbers are subtracted from each
// other, so it is as sound as two passes over x.
//
//   TwoPhases phases = TwoPhases::Write(graph, {.min_bytes = 1 << 20});
//   ... split regions of `graph`
//   phases.RestoreUnused(graph);
//
// Norms that exporters take apart (Reshape, InstanceNormalization, Reshape, Mul
// and Add for group norm) are found as one, with the scales and shifts behind
// them. Reductions of more than one axis (GlobalAveragePool, ReduceMean) become
// two of the same kind.
#ifndef ONNX_MEMOPT_REWRITE_TWO_PHASES_H_
#define ONNX_MEMOPT_REWRITE_TWO_PHASES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

struct TwoPhaseOptions {
  // Smaller operands are left alone.
  int64_t min_bytes = 0;
  // If given: where the operand of a norm has so many bytes, and is made of a
  // tensor of at most half its size, the statistics get a copy of the nodes
  // that make it. Then it need not be there as a whole: it is made twice, part
  // by part.
  std::optional<int64_t> again_bytes;
};

class TwoPhases {
 public:
  // Rewrites those of the main graph; operands of unknown size stay.
  static TwoPhases Write(ir::Graph& graph, const TwoPhaseOptions& options);

  size_t size() const { return written_.size(); }
  // Operands that are made again.
  size_t made_again() const { return made_again_; }

  // Nodes that make an operand, each with one of its statistics.
  const std::vector<std::pair<ir::NodeId, ir::NodeId>>& together() const {
    return together_;
  }

  // Puts those back of which no node has moved into a subgraph. `graph` is the
  // one that they were written to, or a clone of it.
  void RestoreUnused(ir::Graph& graph) const;

 private:
  struct Written {
    std::vector<ir::Node> before;   // as they were, in order
    std::vector<ir::NodeId> after;  // in order; the last one has the result
  };

  std::vector<Written> written_;
  std::vector<std::pair<ir::NodeId, ir::NodeId>> together_;
  size_t made_again_ = 0;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_TWO_PHASES_H_
