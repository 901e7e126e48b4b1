// Gives tensors another shape with the same bytes: dimensions of 1 in front of
// some axes, for a few nodes that compute the same then.
//
//   q [b, h, s, d]                   q' = Unsqueeze(q) [1, b, h, s, d]
//   scores = MatMul(q, k)            scores [1, b, h, s, s]
//   p = Softmax(scores)       =>     p [1, b, h, s, s]
//   y = MatMul(p, v)                 y' [1, b, h, s, d]; y = Squeeze(y')
//
// The new nodes are views. A runtime that lends the buffer of a dead tensor to
// one of the same shape sees other shapes.
#ifndef ONNX_MEMOPT_REWRITE_LIFT_RANK_H_
#define ONNX_MEMOPT_REWRITE_LIFT_RANK_H_

#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

// How many dimensions of 1 go in front of each axis; axes are counted from the
// right: entry i is for the one that has i axes behind it.
using Lift = std::vector<int>;

// The nodes around the producer of `value`, in the order of the schedule, that
// are connected by tensors of its size and can be lifted together; empty if the
// producer cannot be. Results of all have the rank of `value`.
std::vector<ir::NodeId> LiftableRegion(const ir::Graph& graph,
                                       ir::ValueId value);

// The fewest axes that a dimension of 1 must have behind it in this region.
int FewestAxesBehind(const ir::Graph& graph,
                     absl::Span<const ir::NodeId> region);

// The shape that a tensor of this shape gets.
ir::Shape Lifted(const ir::Shape& shape, const Lift& lift);

// Lifts all results of the region. The graph must import ONNX's operators in
// version 13 or newer.
void LiftRegion(ir::Graph& graph, absl::Span<const ir::NodeId> region,
                const Lift& lift);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_LIFT_RANK_H_
