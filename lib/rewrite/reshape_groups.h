// Which axes of a Reshape's result have the elements of which axes of its
// operand.
//
//   operand  [ batch | seq | 768     ]
//   result   [ batch | seq | 12 , 64 ]     three groups
#ifndef ONNX_MEMOPT_LIB_REWRITE_RESHAPE_GROUPS_H_
#define ONNX_MEMOPT_LIB_REWRITE_RESHAPE_GROUPS_H_

#include <cstddef>
#include <vector>

#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::rewrite {

// Axes of equal product, none of extent 1.
struct ReshapeGroup {
  std::vector<size_t> from;
  std::vector<size_t> to;
};

// Matched from the left and from the right, as far as extents are equal or
// numbers; what is between is in no group.
std::vector<ReshapeGroup> GroupReshape(const ir::Shape& from,
                                       const ir::Shape& to);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_RESHAPE_GROUPS_H_
