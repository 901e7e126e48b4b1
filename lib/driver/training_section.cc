#include "driver/training_section.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "driver/make_step.h"
#include "driver/module_names.h"
#include "onnx_memopt/grad/activity.h"
#include "onnx_memopt/grad/checkpoint.h"
#include "onnx_memopt/grad/differentiate.h"
#include "onnx_memopt/grad/training_step.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

absl::Status Fill(const io::LoadedModel& model, ir::Graph step_graph,
                  ReportTraining* training) {
  grad::StepOptions options = {.loss = grad::Loss::kMeanSquaredError,
                               .optimizer = grad::Optimizer::kNone};
  for (ir::ValueId result : step_graph.block(ir::kMainBlock).results) {
    if (grad::HasGradient(step_graph.value(result).type)) {
      options.output = step_graph.value(result).name;
      break;
    }
  }
  std::vector<std::string> modules = ModuleNames(model, step_graph);
  ASSIGN_OR_RETURN(const grad::StepInfo info, MakeStep(options, &step_graph));
  ASSIGN_OR_RETURN(const grad::CheckpointPlanner planner,
                   grad::CheckpointPlanner::Create(
                       {.modules = std::move(modules)}, info, step_graph));
  for (const grad::KeptValue& value : planner.Saved()) {
    training->saved_bytes += value.bytes;
    training->saved.push_back(
        {.name = value.name, .module = value.module, .bytes = value.bytes});
  }
  std::stable_sort(training->saved.begin(), training->saved.end(),
                   [](const ReportSavedValue& a, const ReportSavedValue& b) {
                     return a.bytes > b.bytes;
                   });
  ASSIGN_OR_RETURN(const grad::CheckpointSearch found,
                   planner.Search(std::nullopt));
  for (const grad::CheckpointPoint& point : found.curve) {
    training->plans.push_back({.peak_bytes = point.peak_bytes,
                               .added_time = point.plan.overhead,
                               .modules = planner.Wrapped(point.plan)});
  }
  return absl::OkStatus();
}

}  // namespace

ReportTraining DescribeTraining(const io::LoadedModel& model,
                                const ir::Graph& graph) {
  ReportTraining training;
  const absl::Status status = Fill(model, graph.Clone(), &training);
  if (!status.ok()) {
    training = {.reason = std::string(status.message())};
  }
  return training;
}

}  // namespace onnx_memopt
