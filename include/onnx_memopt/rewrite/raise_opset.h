// Lets a model of an older opset have what rewriting builds with.
//
//   std::optional<ir::Graph> raised = RaiseOpset(graph);
//   // Its nodes are of version kBuildOpset; ids are those of `graph`.
#ifndef ONNX_MEMOPT_REWRITE_RAISE_OPSET_H_
#define ONNX_MEMOPT_REWRITE_RAISE_OPSET_H_

#include <optional>

#include "absl/status/status.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

// Scan-9, Slice-10, SequenceEmpty-11 and Loop-11.
inline constexpr int kBuildOpset = 11;

// A copy of a model of opset 9 or 10 that is of opset 11, where all nodes mean
// the same there. Nullopt where one does not, or the model is older, or is of
// that opset or a newer one already.
std::optional<ir::Graph> RaiseOpset(const ir::Graph& graph);

// Makes a model of opset 9 to 15 one of opset 16, in place: what was an
// attribute and is an operand since becomes one. kInvalidArgument where a node
// means something that opset 16 has no node for; the graph may be changed then.
absl::Status RaiseOpsetTo16(ir::Graph* graph);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_RAISE_OPSET_H_
