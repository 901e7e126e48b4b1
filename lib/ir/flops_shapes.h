// What the rules in flops*.cc share: access to the shapes of a node's operands
// and results, and products of dimensions that may be unknown.
#ifndef ONNX_MEMOPT_LIB_IR_FLOPS_SHAPES_H_
#define ONNX_MEMOPT_LIB_IR_FLOPS_SHAPES_H_

#include <cstddef>
#include <initializer_list>
#include <optional>

#include "absl/status/statusor.h"  // graph.h names absl::StatusOr
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::ir::flops {

using MaybeDim = std::optional<Dim>;

// Null if left out, not a tensor, or of unknown rank.
const Shape* OperandShape(const Graph& graph, const Node& node, size_t index);
const Shape* ResultShape(const Graph& graph, const Node& node, size_t index);
bool HasOperand(const Node& node, size_t index);

// Dimension `axis`, counted from the end if negative; nullopt if there is none.
MaybeDim DimAt(const Shape* shape, int axis);
// The product of the dimensions from `first` on; nullopt for a null shape.
MaybeDim ProductFrom(const Shape* shape, size_t first);

// nullopt if any of them is, or on overflow.
MaybeDim Product(std::initializer_list<MaybeDim> factors);
MaybeDim Sum(std::initializer_list<MaybeDim> terms);

}  // namespace onnx_memopt::ir::flops

#endif  // ONNX_MEMOPT_LIB_IR_FLOPS_SHAPES_H_
