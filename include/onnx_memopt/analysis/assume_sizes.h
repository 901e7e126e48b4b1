// Sizes for names that nobody binds, where 1 is too small.
//
// What is not bound counts as 1. A network whose convolutions shrink the image
// would then have tensors of less than nothing.
//
//   ASSIGN_OR_RETURN(const std::set<std::string> larger, AssumeSizes(&graph));
#ifndef ONNX_MEMOPT_ANALYSIS_ASSUME_SIZES_H_
#define ONNX_MEMOPT_ANALYSIS_ASSUME_SIZES_H_

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

// Where a dimension would be negative, puts the smallest power of two with
// which none is below 1 into Graph::assumed, for each name that needs it.
// Returns these names. Error: there is no such size, or names that are bound
// leave no room; it says which tensor.
absl::StatusOr<std::set<std::string>> AssumeSizes(ir::Graph* graph);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_ASSUME_SIZES_H_
