// Replaces calls of model-local functions by their bodies, so that a pass may
// change what is in them.
//
//   InlineResult inlined = InlineCalls(&graph);
//   // inlined.refused: "call "f": opset 17 in it, 18 in the model"
#ifndef ONNX_MEMOPT_REWRITE_INLINE_CALLS_H_
#define ONNX_MEMOPT_REWRITE_INLINE_CALLS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

struct InlineResult {
  int64_t inlined = 0;
  // Calls that stay, and why, one line each: the body imports other versions of
  // operators, or has what the IR does not model.
  std::vector<std::string> refused;
};

// Calls at every depth. Values of a body get names of their own.
InlineResult InlineCalls(ir::Graph* graph);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_INLINE_CALLS_H_
