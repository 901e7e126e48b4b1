// A network of the same structure with narrower layers.
//
//   ASSIGN_OR_RETURN(Narrowed narrowed, Narrow({.ratio = 0.5}, weights,
//                                              &graph));
//   // The weights have new shapes now, and no elements (fresh_weights.h).
#ifndef ONNX_MEMOPT_REWRITE_NARROW_H_
#define ONNX_MEMOPT_REWRITE_NARROW_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

struct NarrowOptions {
  double ratio = 1;  // of the new width to the old one, above 0
  // Names of outputs that may be narrower, too; the others keep their shapes.
  std::vector<std::string> outputs;
};

struct Width {
  int64_t from = 0;  // the largest extent that changes
  int64_t to = 0;
  size_t weights = 0;  // axes of weights with it
};

struct Narrowed {
  std::vector<Width> changed;
  // A line for each width that stays, with what keeps it, and for each constant
  // that seems to be stated in a width that has changed.
  std::vector<std::string> kept;
};

// Every class of extents (width_classes.h) that is free changes by the ratio,
// in whole parts of what they have in common: heads, groups. An error
// (kOutOfRange) where no class is free, or an op holds the one that has most of
// the weights. Types of values that follow are those of the narrower network,
// known elements may not be: read the model again.
absl::StatusOr<Narrowed> Narrow(const NarrowOptions& options,
                                absl::Span<const ir::ValueId> weights,
                                ir::Graph* graph);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_NARROW_H_
