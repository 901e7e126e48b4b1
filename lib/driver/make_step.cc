#include "driver/make_step.h"

#include "onnx_memopt/pass/pipeline.h"
#include "onnx_memopt/support/status_macros.h"
#include "registry.h"

namespace onnx_memopt {

absl::Status DropDead(ir::Graph* graph) {
  ASSIGN_OR_RETURN(
      const pass::Pipeline pipeline,
      pass::ParsePipeline("drop-dead", passes::RegisteredPasses()));
  return RunPipeline(pipeline, *graph, {}).status();
}

absl::StatusOr<grad::StepInfo> MakeStep(const grad::StepOptions& options,
                                        ir::Graph* graph) {
  ASSIGN_OR_RETURN(grad::StepInfo info,
                   grad::BuildTrainingStep(options, graph));
  RETURN_IF_ERROR(DropDead(graph));
  return info;
}

}  // namespace onnx_memopt
