#include "onnx_memopt/grad/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "grad/segments.h"
#include "grad/staged_step.h"
#include "grad/stages.h"
#include "grad/step_units.h"
#include "grad/wrapped_modules.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/grad/node_order.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

using ir::Index;
using ir::kNoValue;
using ir::NodeId;
using ir::ValueId;

// Tensors of the floor that are named.
constexpr size_t kMaxNamed = 5;

size_t At(int32_t index) { return static_cast<size_t>(index); }

// For each module that has nodes among these: the deepest that holds all of its
// layer's.
std::vector<std::string> CommonModules(const std::vector<std::string>& all) {
  std::map<std::string, std::string> by_layer;
  std::vector<std::string> layers;
  for (const std::string& module : all) {
    if (module.empty()) continue;
    const std::string layer = LayerOf(module);
    const auto [it, is_new] = by_layer.try_emplace(layer, module);
    if (is_new) {
      layers.push_back(layer);
      continue;
    }
    std::vector<std::string> a = absl::StrSplit(it->second, '.');
    const std::vector<std::string> b = absl::StrSplit(module, '.');
    size_t same = 0;
    while (same < a.size() && same < b.size() && a[same] == b[same]) ++same;
    a.resize(same);
    it->second = absl::StrJoin(a, ".");
  }
  std::vector<std::string> modules;
  for (const std::string& layer : layers) {
    if (!by_layer[layer].empty()) modules.push_back(by_layer[layer]);
  }
  return modules;
}

}  // namespace

CheckpointPlanner::CheckpointPlanner(CheckpointOptions options,
                                     const StepInfo& step,
                                     const ir::Graph& graph, StepUnits units)
    : options_(std::move(options)),
      graph_(&graph),
      loss_(step.loss),
      units_(std::make_unique<StepUnits>(std::move(units))) {}
CheckpointPlanner::~CheckpointPlanner() = default;
CheckpointPlanner::CheckpointPlanner(CheckpointPlanner&& other) noexcept =
    default;
CheckpointPlanner& CheckpointPlanner::operator=(
    CheckpointPlanner&& other) noexcept = default;

absl::StatusOr<CheckpointPlanner> CheckpointPlanner::Create(
    CheckpointOptions options, const StepInfo& step, const ir::Graph& graph) {
  ASSIGN_OR_RETURN(StepUnits units,
                   StepUnits::Compute(graph, options.block, step));
  return CheckpointPlanner(std::move(options), step, graph, std::move(units));
}

CheckpointPlan CheckpointPlanner::PlanOf(std::vector<int32_t> runs) const {
  CheckpointPlan plan = {.runs = std::move(runs)};
  if (units_->total_seconds() > 0) {
    plan.overhead = units_->AddedSeconds(plan.runs) / units_->total_seconds();
  }
  return plan;
}

CheckpointPlan CheckpointPlanner::Sqrt() const {
  const auto segments = static_cast<int>(
      std::lround(std::sqrt(static_cast<double>(Saved().size()))));
  return PlanOf(RunsOfSegments(*units_, CutIntoSegments(*units_, segments)));
}

absl::StatusOr<CheckpointPlan> CheckpointPlanner::PerLayer() const {
  std::map<std::string, int32_t> layers;
  std::vector<int32_t> segment_of(units_->size(), -1);
  for (size_t u = 0; u < units_->size(); ++u) {
    const StepUnit& unit = units_->units()[u];
    if (!unit.is_forward) continue;
    const std::string layer = LayerOf(ModuleOf(unit.nodes.front()));
    if (layer.empty()) continue;
    segment_of[u] =
        layers.try_emplace(layer, static_cast<int32_t>(layers.size()))
            .first->second;
  }
  if (layers.empty()) {
    return absl::OutOfRangeError(
        "--checkpoint per-layer: the model does not say of which module its "
        "nodes are, or none is numbered");
  }
  return PlanOf(RunsOfSegments(*units_, segment_of));
}

const std::string& CheckpointPlanner::ModuleOf(NodeId node) const {
  static const std::string* const kNone = new std::string();
  return Index(node) < options_.modules.size() ? options_.modules[Index(node)]
                                               : *kNone;
}

KeptValue CheckpointPlanner::ValueOf(int32_t unit) const {
  const NodeId maker = units_->unit(unit).nodes.back();
  KeptValue value = {
      .name = "", .module = ModuleOf(maker), .bytes = units_->unit(unit).bytes};
  for (ValueId result : graph_->node(maker).results) {
    if (result == kNoValue) continue;
    value.name = graph_->value(result).name;
    break;
  }
  return value;
}

std::vector<KeptValue> CheckpointPlanner::Saved() const {
  const std::vector<bool> saved = units_->Saved();
  std::vector<KeptValue> values;
  for (size_t u = 0; u < saved.size(); ++u) {
    if (saved[u]) values.push_back(ValueOf(static_cast<int32_t>(u)));
  }
  return values;
}

std::vector<std::string> CheckpointPlanner::Wrapped(
    const CheckpointPlan& plan) const {
  std::vector<std::string> names;
  for (WrappedModule& wrapped :
       ModulesToWrap(*units_, plan.runs, options_.modules)) {
    names.push_back(std::move(wrapped.module));
  }
  return names;
}

absl::StatusOr<int64_t> CheckpointPlanner::PeakOf(
    const CheckpointPlan& plan) const {
  ir::Graph trial = graph_->Clone();
  RETURN_IF_ERROR(Write(plan, CutIntoStages(*units_, plan.runs), &trial));
  analysis::AnalysisManager analyses(&trial);
  ASSIGN_OR_RETURN(const analysis::RuntimePrediction predicted,
                   analysis::PredictRuntime(trial, analyses, options_.runtime));
  return std::max(predicted.peak_first_bytes, predicted.peak_steady_bytes);
}

std::vector<std::pair<std::string, int64_t>> CheckpointPlanner::HeldAtPeak(
    const CheckpointPlan& plan) const {
  const std::vector<int32_t> runs =
      plan.runs.empty() ? units_->PlainRuns() : plan.runs;
  const Stages stages = CutIntoStages(*units_, runs);
  const auto peak = static_cast<size_t>(
      std::max_element(stages.live_bytes.begin(), stages.live_bytes.end()) -
      stages.live_bytes.begin());
  std::vector<std::pair<std::string, int64_t>> held;
  for (size_t r = 0; r <= peak && r < runs.size(); ++r) {
    if (At(stages.last_read[r]) < peak) continue;
    const KeptValue value = ValueOf(runs[r]);
    held.emplace_back(value.name, value.bytes);
  }
  std::stable_sort(held.begin(), held.end(), [](const auto& a, const auto& b) {
    return a.second > b.second;
  });
  if (held.size() > kMaxNamed) held.resize(kMaxNamed);
  return held;
}

absl::StatusOr<CheckpointResult> CheckpointPlanner::Insert(
    const CheckpointPlan& plan, ir::Graph* graph) const {
  const Stages stages = CutIntoStages(*units_, plan.runs);
  CheckpointResult result;
  // Before the nodes are changed.
  if (!plan.runs.empty()) result = Describe(plan, stages, *graph);
  RETURN_IF_ERROR(Write(plan, stages, graph));
  return result;
}

absl::Status CheckpointPlanner::Write(const CheckpointPlan& plan,
                                      const Stages& stages,
                                      ir::Graph* graph) const {
  if (plan.runs.empty()) {
    if (options_.depth_first) OrderForDepthFirst(*graph, options_.block, loss_);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const StagedStep step,
                   WriteStages(*units_, plan.runs, stages, graph));
  return options_.depth_first ? OrderStagesForDepthFirst(step, graph)
                              : absl::OkStatus();
}

CheckpointResult CheckpointPlanner::Describe(const CheckpointPlan& plan,
                                             const Stages& stages,
                                             const ir::Graph& graph) const {
  CheckpointResult result = {.overhead = plan.overhead};
  // By unit: how often it has run.
  std::vector<bool> has_run(units_->size());
  size_t backward = 0;
  while (backward < plan.runs.size() &&
         units_->unit(plan.runs[backward]).is_forward) {
    ++backward;
  }
  std::vector<std::vector<int32_t>> segments;
  bool goes_on = false;
  for (size_t r = 0; r < plan.runs.size(); ++r) {
    const int32_t unit = plan.runs[r];
    if (has_run[At(unit)]) {
      if (!goes_on) segments.emplace_back();
      segments.back().push_back(static_cast<int32_t>(r));
      goes_on = true;
      continue;
    }
    goes_on = false;
    has_run[At(unit)] = true;
    if (r >= backward || units_->unit(unit).bytes == 0 ||
        At(stages.last_read[r]) < backward || units_->unit(unit).returns) {
      continue;
    }
    result.kept.push_back(ValueOf(unit));
  }
  for (const std::vector<int32_t>& runs : segments) {
    RecomputedSegment segment;
    std::vector<std::string> modules;
    for (int32_t r : runs) {
      const StepUnit& unit = units_->unit(plan.runs[At(r)]);
      segment.nodes += unit.nodes.size();
      segment.seconds += unit.seconds;
      if (stages.last_read[At(r)] > runs.back()) segment.bytes += unit.bytes;
      for (NodeId id : unit.nodes) modules.push_back(ModuleOf(id));
    }
    segment.first = graph.DisplayName(
        units_->unit(plan.runs[At(runs.front())]).nodes.front());
    segment.last = graph.DisplayName(
        units_->unit(plan.runs[At(runs.back())]).nodes.back());
    segment.modules = CommonModules(modules);
    result.segments.push_back(std::move(segment));
  }
  result.wrapped = ModulesToWrap(*units_, plan.runs, options_.modules);
  return result;
}

}  // namespace onnx_memopt::grad
