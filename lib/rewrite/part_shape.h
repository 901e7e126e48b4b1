// Shape operands of nodes that run on a part.
#ifndef ONNX_MEMOPT_LIB_REWRITE_PART_SHAPE_H_
#define ONNX_MEMOPT_LIB_REWRITE_PART_SHAPE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/ir/dim.h"
#include "onnx_memopt/ir/graph.h"
#include "rewrite/boundary_nodes.h"

namespace onnx_memopt::rewrite {

struct ExtentOfPart {
  int element;
  ir::Dim extent;
};

// The shape operand of a node for one part: `shape` with these elements
// replaced by extents of parts. One that is no number becomes -1, so the node
// must be a Reshape then.
absl::StatusOr<ir::ValueId> PartShape(
    BoundaryNodes& nodes, ir::ValueId shape,
    const std::vector<ExtentOfPart>& replacements);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_PART_SHAPE_H_
