// What no sane model has, looked for when all types are known: negative
// dimensions, tensors of more than 2^63 bytes, and lists of a million elements
// that are to be a shape. Each is an error; as an unknown size it would hide
// that the file is broken.
#ifndef ONNX_MEMOPT_LIB_IO_CHECK_TYPES_H_
#define ONNX_MEMOPT_LIB_IO_CHECK_TYPES_H_

#include "absl/status/status.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::io {

// Names the tensor, and the node that uses it as a shape.
absl::Status CheckTypes(const ir::Graph& graph);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_LIB_IO_CHECK_TYPES_H_
