// Which extents of a network have to change together when it is made narrower:
// the hidden width, the heads, the inner width of the layers, channels.
//
//   h = MatMul(x, w1)        x [4, 8]   w1 [8, 6]   w2 [6, 3]
//   y = MatMul(h, w2)
//
//   class {x axis 1, w1 axis 0}             fixed: an input
//   class {w1 axis 1, h axis 1, w2 axis 0}  free, of extent 6
//   class {w2 axis 1, y axis 1}             fixed: an output
//
// It rests on the dimension flow (ir/dimension_flow.h): axes that one way of a
// node splits together are tied, with the elements of shape operands and the
// attributes that say their extents. Beside that, axes over which a norm or a
// Softmax goes, and those along which a Concat joins, are tied: a part of them
// would compute something else, but a network of another width is no part.
//
// A Reshape ties an axis with the first of its factors that is not fixed, and
// fixes the others: so the number of heads changes, and their size does not.
#ifndef ONNX_MEMOPT_REWRITE_WIDTH_CLASSES_H_
#define ONNX_MEMOPT_REWRITE_WIDTH_CLASSES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

struct AxisRef {
  ir::ValueId value;
  int axis;
};

// Element `element` of the list that operand `operand` holds is the extent of
// an axis.
struct ExtentOperand {
  ir::NodeId node;
  int operand;
  int element;
  AxisRef axis;
};

// An attribute, or an element of it, is num/den of the extent of an axis.
struct ExtentAttribute {
  ir::NodeId node;
  std::string name;
  int element = -1;
  int64_t num = 1;
  int64_t den = 1;
  AxisRef axis;
};

struct WidthClass {
  std::vector<AxisRef> axes;
  std::vector<ExtentOperand> operands;
  std::vector<ExtentAttribute> attributes;
  // What divides all extents: these change by whole parts of it.
  int64_t unit = 0;
  int64_t extent = 0;        // the largest
  std::string fixed_by;      // empty: free
  bool fixed_by_op = false;  // an op that is not known to work at another width
  int64_t weight_bytes = 0;  // of `weights` with an axis in it
  size_t weights = 0;
};

// `weights`: initializers that may have another shape. `outputs`: names of
// outputs that may. Classes without weights are left out, and so are sizes with
// a name.
std::vector<WidthClass> FindWidthClasses(const ir::Graph& graph,
                                         absl::Span<const ir::ValueId> weights,
                                         absl::Span<const std::string> outputs);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_WIDTH_CLASSES_H_
