// Lets a model of an older opset have what rewriting builds with.
//
//   std::optional<ir::Graph> raised = RaiseOpset(graph);
//   // Its nodes are of version kBuildOpset; ids are those of `graph`.
#ifndef ONNX_MEMOPT_REWRITE_RAISE_OPSET_H_
#define ONNX_MEMOPT_REWRITE_RAISE_OPSET_H_

#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

// Scan-9, Slice-10, SequenceEmpty-11 and Loop-11.
inline constexpr int kBuildOpset = 11;

// A copy of a model of opset 9 or 10 that is of opset 11, where all nodes mean
// the same there. Nullopt where one does not, or the model is older, or is of
// that opset or a newer one already.
std::optional<ir::Graph> RaiseOpset(const ir::Graph& graph);

// Has a pass rewrite the model, or one of opset 11 where that can be made of
// it: `rewrite` says whether it changed what it was given, and only then the
// graph becomes that one. Analyses of the graph hold for both until it is
// changed.
absl::StatusOr<bool> RewriteRaised(
    ir::Graph& graph,
    absl::FunctionRef<absl::StatusOr<bool>(ir::Graph& graph)> rewrite);

// Makes a model of opset 9 to 15 one of opset 16, in place: what was an
// attribute and is an operand since becomes one. kInvalidArgument where a node
// means something that opset 16 has no node for; the graph may be changed then.
absl::Status RaiseOpsetTo16(ir::Graph* graph);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_RAISE_OPSET_H_
