// The whole prediction: the first run, and the third as the steady state.
#include "onnx_memopt/analysis/runtime_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/half_on_cpu.h"
#include "analysis/ort_facts.h"
#include "analysis/runtime_memory.h"
#include "analysis/runtime_trace.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {
namespace {

RuntimeOptions Normalized(RuntimeOptions options) {
  if (options.target == RuntimeTarget::kIdeal) {
    options.arena = false;
    options.pattern = false;
    options.reuse = false;
    options.mapped_weights = MappedWeights::kNone;
    options.execution_order = ExecutionOrder::kFile;
  }
  return options;
}

struct SimulatedRuns {
  RuntimePeaks peaks;
  int32_t first_peak_at = -1;  // position in the order
  int64_t region_bytes = 0;
};

SimulatedRuns SimulateRuns(const RuntimeBlock& block, const FramePlan& plan,
                           const RuntimeOptions& options) {
  SimulatedRuns runs;
  const std::vector<MemoryEvent> first = TraceRun(block, plan, false);
  MemorySimulator simulator(options.arena);
  runs.peaks.first_bytes = simulator.Run(first, &runs.first_peak_at);
  const std::vector<MemoryEvent> later =
      options.pattern ? TraceRun(block, plan, true) : first;
  simulator.Run(later);
  runs.peaks.steady_bytes = simulator.Run(later);
  runs.region_bytes = simulator.region_bytes();
  return runs;
}

// Who lives at `position` of the order, in a run without a pattern.
void DescribePeak(const RuntimeBlock& block, const FramePlan& plan,
                  int32_t position, RuntimePrediction* out) {
  if (position < 0) return;
  const auto at = static_cast<size_t>(position);
  const RuntimeStep& peak = block.steps[static_cast<size_t>(plan.order[at])];
  out->peak_step = position;
  out->peak_node = peak.node;
  out->scratch_at_peak_bytes =
      SaturatingAdd(peak.scratch_total_bytes, peak.malloc_bytes);
  std::vector<bool> freed(block.values.size());
  for (size_t i = 0; i < at; ++i) {
    const auto step = static_cast<size_t>(plan.order[i]);
    for (int32_t v : plan.buffers.frees[step]) {
      freed[static_cast<size_t>(v)] = true;
    }
  }
  for (size_t i = 0; i <= at; ++i) {
    const auto step = static_cast<size_t>(plan.order[i]);
    for (int32_t v : block.steps[step].outputs) {
      const RuntimeValue& value = block.values[static_cast<size_t>(v)];
      if (freed[static_cast<size_t>(v)] || value.size_bytes == 0 ||
          !OwnsBuffer(block, plan.buffers, v)) {
        continue;
      }
      out->at_peak.push_back({value.id, value.size_bytes});
    }
  }
  std::stable_sort(out->at_peak.begin(), out->at_peak.end(),
                   [](const LiveBuffer& a, const LiveBuffer& b) {
                     return a.size_bytes > b.size_bytes;
                   });
}

bool RunsAsItIs(const ir::Graph& graph, const RuntimeOptions& options) {
  return options.target == RuntimeTarget::kIdeal || !HasHalf(graph);
}

absl::StatusOr<int64_t> BarePeakOf(const ir::Graph& graph,
                                   AnalysisManager& analyses,
                                   const RuntimeOptions& options) {
  const RuntimeOptions normalized = Normalized(options);
  if (normalized.target == RuntimeTarget::kIdeal) {
    ASSIGN_OR_RETURN(const MemoryProfile* profile,
                     analyses.Get<MemoryProfile>());
    return profile->main().peak_bytes;
  }
  ASSIGN_OR_RETURN(
      const RuntimeBlock block,
      BuildRuntimeBlock(graph, analyses, ir::kMainBlock, normalized));
  const std::vector<int32_t> order =
      RunOrder(block, normalized.execution_order);
  return BarePeak(block, order, PlanBuffers(block, order, normalized));
}

absl::StatusOr<RuntimePrediction> PredictionOf(const ir::Graph& graph,
                                               AnalysisManager& analyses,
                                               const RuntimeOptions& options) {
  const RuntimeOptions normalized = Normalized(options);
  ASSIGN_OR_RETURN(
      const RuntimeBlock block,
      BuildRuntimeBlock(graph, analyses, ir::kMainBlock, normalized));
  const FramePlan plan = PlanFrame(block, normalized);
  RuntimePrediction out;
  out.unknown = block.unknown;
  out.complete = out.unknown.empty();
  out.pattern_bytes = plan.pattern.block_bytes;
  for (int32_t step : plan.order) {
    const RuntimeStep& s = block.steps[static_cast<size_t>(step)];
    out.order.push_back(s.node);
    out.mapped_weight_bytes =
        SaturatingAdd(out.mapped_weight_bytes, s.mapped_bytes);
  }
  const SimulatedRuns runs = SimulateRuns(block, plan, normalized);
  out.peak_first_bytes = runs.peaks.first_bytes;
  out.peak_steady_bytes = runs.peaks.steady_bytes;
  out.arena_bytes = runs.region_bytes;
  DescribePeak(block, plan, runs.first_peak_at, &out);
  if (normalized.target == RuntimeTarget::kIdeal) {
    // The planner above has the runtime's rules for what may share a buffer.
    ASSIGN_OR_RETURN(const MemoryProfile* profile,
                     analyses.Get<MemoryProfile>());
    out.peak_first_bytes = out.peak_steady_bytes = profile->main().peak_bytes;
  } else if (!out.order.empty()) {
    out.peak_first_bytes =
        SaturatingAdd(out.peak_first_bytes, ort::kFirstRunBytes);
    out.peak_steady_bytes =
        SaturatingAdd(out.peak_steady_bytes, ort::kSteadyRunBytes);
  }
  return out;
}

// In terms of the graph as it was.
void Translate(const HalfOnCpu& runs, RuntimePrediction* out) {
  for (LiveBuffer& buffer : out->at_peak) {
    buffer.value = runs.values[Index(buffer.value)];
  }
  for (ir::ValueId& value : out->unknown) value = runs.values[Index(value)];
  if (out->peak_node != ir::kNoNode) {
    out->peak_node = runs.nodes[Index(out->peak_node)];
  }
  std::erase_if(out->order, [&](ir::NodeId node) {
    return runs.nodes[Index(node)] != node;  // a Cast that was put in
  });
}

}  // namespace

absl::StatusOr<int64_t> PredictBarePeak(const ir::Graph& graph,
                                        AnalysisManager& analyses,
                                        const RuntimeOptions& options) {
  if (RunsAsItIs(graph, options)) return BarePeakOf(graph, analyses, options);
  const HalfOnCpu runs = RunsHalfAs(graph);
  AnalysisManager own(&runs.graph);
  return BarePeakOf(runs.graph, own, options);
}

absl::StatusOr<RuntimePrediction> PredictRuntime(
    const ir::Graph& graph, AnalysisManager& analyses,
    const RuntimeOptions& options) {
  if (RunsAsItIs(graph, options)) return PredictionOf(graph, analyses, options);
  const HalfOnCpu runs = RunsHalfAs(graph);
  AnalysisManager own(&runs.graph);
  ASSIGN_OR_RETURN(RuntimePrediction out,
                   PredictionOf(runs.graph, own, options));
  Translate(runs, &out);
  return out;
}

RuntimePeaks PredictPeaks(const RuntimeBlock& block,
                          const RuntimeOptions& options,
                          absl::Span<const int32_t> rank) {
  const RuntimeOptions normalized = Normalized(options);
  return SimulateRuns(block, PlanFrame(block, normalized, rank), normalized)
      .peaks;
}

absl::StatusOr<std::vector<MemoryEvent>> TraceFirstRun(
    const ir::Graph& graph, AnalysisManager& analyses,
    const RuntimeOptions& options) {
  const RuntimeOptions normalized = Normalized(options);
  ASSIGN_OR_RETURN(
      const RuntimeBlock block,
      BuildRuntimeBlock(graph, analyses, ir::kMainBlock, normalized));
  return TraceRun(block, PlanFrame(block, normalized), /*warm=*/false);
}

absl::StatusOr<RuntimeModel> RuntimeModel::Compute(const ir::Graph& graph,
                                                   AnalysisManager& analyses) {
  RuntimeModel model;
  ASSIGN_OR_RETURN(
      model.ideal_,
      PredictRuntime(graph, analyses, {.target = RuntimeTarget::kIdeal}));
  ASSIGN_OR_RETURN(model.bare_, PredictRuntime(graph, analyses, Bare()));
  ASSIGN_OR_RETURN(model.stock_, PredictRuntime(graph, analyses, {}));
  ASSIGN_OR_RETURN(const RuntimePrediction by_priority,
                   PredictRuntime(graph, analyses,
                                  Bare({.execution_order =
                                            ExecutionOrder::kPriorityBased})));
  model.priority_order_ = by_priority.order;
  return model;
}

void RuntimeModel::Print(const ir::Graph& graph, std::string* out) const {
  const auto line = [&](absl::string_view name, const RuntimePrediction& p) {
    absl::StrAppend(out, name, ": first ", p.peak_first_bytes, ", steady ",
                    p.peak_steady_bytes, " bytes",
                    p.complete ? "" : " (incomplete)", "\n");
  };
  absl::StrAppend(out, "ONNX Runtime ", ort::kVersion, ", 1 thread\n");
  line("ideal", ideal_);
  line("bare", bare_);
  line("default", stock_);
  absl::StrAppend(out, "pattern ", stock_.pattern_bytes, " bytes, arena ",
                  stock_.arena_bytes, " bytes, mapped weights ",
                  stock_.mapped_weight_bytes, " bytes\n");
  if (bare_.peak_node != ir::kNoNode) {
    absl::StrAppend(out, "bare peak at step ", bare_.peak_step, " ",
                    Printable(graph.DisplayName(bare_.peak_node)), ", scratch ",
                    bare_.scratch_at_peak_bytes, " bytes\n");
    for (const LiveBuffer& buffer : bare_.at_peak) {
      absl::StrAppend(out, "  ", Printable(graph.value(buffer.value).name), " ",
                      buffer.size_bytes, "\n");
    }
  }
  const auto order = [&](absl::string_view name,
                         const std::vector<ir::NodeId>& nodes) {
    absl::StrAppend(out, "order ", name, ":\n");
    for (ir::NodeId node : nodes) {
      absl::StrAppend(out, "  ", Printable(graph.DisplayName(node)), "\n");
    }
  };
  order("DEFAULT", bare_.order);
  order("PRIORITY_BASED", priority_order_);
}

}  // namespace onnx_memopt::analysis
