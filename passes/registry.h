// All passes of this project, from passes.def.
//
//   ParsePipeline("drop-dead,reorder", RegisteredPasses());
#ifndef ONNX_MEMOPT_PASSES_REGISTRY_H_
#define ONNX_MEMOPT_PASSES_REGISTRY_H_

#include "absl/types/span.h"
#include "onnx_memopt/pass/pipeline.h"

namespace onnx_memopt::passes {

// Sorted by name.
absl::Span<const pass::PassInfo> RegisteredPasses();

// What `onnx-memopt MODEL` runs.
inline constexpr char kDefaultPipeline[] =
    "drop-dead,share-initializers,reorder,split,no-pattern,reserve";

}  // namespace onnx_memopt::passes

#endif  // ONNX_MEMOPT_PASSES_REGISTRY_H_
