// Moves nodes of one block into a new subgraph inside it.
//
//   BlockId body = builder.Subgraph(scan, "body", "part");
//   MoveIntoSubgraph(graph, nodes, body);
#ifndef ONNX_MEMOPT_REWRITE_OUTLINE_H_
#define ONNX_MEMOPT_REWRITE_OUTLINE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

// Weights up to this are constants that runtimes fold, scales and biases:
// copies and parts of them cost nothing.
inline constexpr int64_t kSmallWeightBytes = 64 << 10;

// A node whose filter the runtime lays out only where it is an initializer of
// the very graph that uses it.
bool IsConvolution(const ir::Node& node);

// Moves `nodes`, which lie in one block, to the end of the schedule of `body`,
// in the order given. What they define moves with them; the caller sees to it
// that what is still read outside becomes a result of the body's node.
//
// Weights go along where only these nodes read them and it pays: a runtime
// lays convolution weights out anew, and folds small constants, only where they
// are initializers of the very graph that uses them, while a large weight of a
// matrix product is packed wherever it is, and would be held twice as part of a
// subgraph. Weights that are inputs, that the model names elsewhere, or that
// are sparse, stay.
void MoveIntoSubgraph(ir::Graph& graph, absl::Span<const ir::NodeId> nodes,
                      ir::BlockId body);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_OUTLINE_H_
