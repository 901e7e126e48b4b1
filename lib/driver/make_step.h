// A training step without what nothing reads of it.
//
//   ASSIGN_OR_RETURN(grad::StepInfo info, MakeStep(options, &graph));
#ifndef ONNX_MEMOPT_LIB_DRIVER_MAKE_STEP_H_
#define ONNX_MEMOPT_LIB_DRIVER_MAKE_STEP_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/grad/training_step.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt {

// Runs the pass of that name.
absl::Status DropDead(ir::Graph* graph);

// BuildTrainingStep and its errors, then drop-dead.
absl::StatusOr<grad::StepInfo> MakeStep(const grad::StepOptions& options,
                                        ir::Graph* graph);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_LIB_DRIVER_MAKE_STEP_H_
