// Writes a plan with repeated runs as a graph whose order ONNX Runtime keeps.
//
//   main   If(step)
//            |  If(stage 0) -> If(stage 1) -> If(stage 2)     the only order
//               |  values that later stages read, a token ->
//
// Each stage is the branch of an If that always runs, and hands a token to the
// next one, so that stages run in the order of the plan. Runtimes merge equal
// nodes, but not across the border of a branch: what is made again stays. A
// frame of its own for each stage has more to it: the results of an If have no
// shape that ONNX Runtime knows, so that none takes over, and holds, the buffer
// of a value that died long before; and a branch that is fed an empty sequence
// has no memory pattern, which would double the memory from the second run on.
// That is what the outer If is for, too.
//
// In a stage, what comes from outside is given its shape again by a Reshape (a
// view), so that the runtime can share buffers and fuse nodes there.
#ifndef ONNX_MEMOPT_LIB_GRAD_STAGED_STEP_H_
#define ONNX_MEMOPT_LIB_GRAD_STAGED_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "grad/stages.h"
#include "grad/step_units.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::grad {

struct StagedStep {
  // By run: its nodes in the new graph.
  std::vector<std::vector<ir::NodeId>> nodes;
  std::vector<ir::BlockId> bodies;  // by stage
};

// `graph`: the one that the units are of. kFailedPrecondition where a value
// that a stage hands on is not of a type that a branch can return.
absl::StatusOr<StagedStep> WriteStages(const StepUnits& units,
                                       absl::Span<const int32_t> runs,
                                       const Stages& stages, ir::Graph* graph);

// Puts the nodes of each body in an order in which ONNX Runtime's default walk
// takes little. As they stand they are in the order of the plan.
absl::Status OrderStagesForDepthFirst(const StagedStep& step, ir::Graph* graph);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_STAGED_STEP_H_
