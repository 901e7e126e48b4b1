// Reverse-mode differentiation of the main block.
//
//   DifferentiateOptions options{.wanted = {w}, .seeds = {{y, dy}}};
//   options.ready = [&](ValueId w, ValueId dw) { ...; return OkStatus(); };
//   RETURN_IF_ERROR(Differentiate(emitter, options));
//
// Nodes are emitted in reverse order of the schedule; `emitter.nodes()` has
// them, and nothing is scheduled here. A rule may ask a forward node for one
// more of its results (MaxPool's positions); nothing else of the forward pass
// changes. Where a value is read several times its gradients are added as they
// come, so that one sum is live, not all terms.
//
// Errors name the node: an op without a rule, a shape that a rule has to know
// and that is unknown, and an attribute that a rule does not handle.
#ifndef ONNX_MEMOPT_GRAD_DIFFERENTIATE_H_
#define ONNX_MEMOPT_GRAD_DIFFERENTIATE_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {

struct Seed {
  ir::ValueId value;
  ir::ValueId gradient;  // of the loss by that value, of its shape
};

struct DifferentiateOptions {
  std::vector<ir::ValueId> wanted;
  std::vector<Seed> seeds;
  // Called for each wanted value as soon as nothing more is added to its
  // gradient; kNoValue where no seed depends on it. What it emits comes right
  // after.
  std::function<absl::Status(ir::ValueId value, ir::ValueId gradient)> ready;
};

absl::Status Differentiate(rewrite::Emitter& emitter,
                           const DifferentiateOptions& options);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_DIFFERENTIATE_H_
