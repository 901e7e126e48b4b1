#include "onnx_memopt/driver/build_report.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/analysis/cost.h"
#include "onnx_memopt/analysis/flat_profile.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/analysis/load_growth.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/packing.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/analysis/weights.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

using analysis::AnalysisManager;
using analysis::Cost;
using analysis::FlatProfile;
using analysis::Liveness;
using analysis::MemoryProfile;
using analysis::Packing;
using analysis::Sizes;
using analysis::Storage;
using analysis::StorageKind;
using analysis::Timeline;
using analysis::Weights;
using ir::BlockId;
using ir::NodeId;
using ir::ValueId;

const char* KindName(StorageKind kind) {
  switch (kind) {
    case StorageKind::kInput:
      return "input";
    case StorageKind::kWeight:
      return "weight";
    case StorageKind::kActivation:
      return "activation";
  }
  return "";
}

// "Conv"; "com.microsoft.Gelu".
std::string OpName(const ir::Node& node) {
  return node.domain.empty() ? node.op_type
                             : absl::StrCat(node.domain, ".", node.op_type);
}

class TableBuilder {
 public:
  TableBuilder(const ir::Graph& graph, const Timeline& timeline,
               const Sizes& sizes, const Liveness& liveness,
               const MemoryProfile& profile, const Cost& cost, Report* report)
      : graph_(graph),
        timeline_(timeline),
        sizes_(sizes),
        liveness_(liveness),
        profile_(profile),
        cost_(cost),
        report_(*report) {}

  void Build() {
    report_.tensors.reserve(graph_.num_values());
    report_.nodes.reserve(timeline_.steps(ir::kMainBlock).size());
    for (BlockId block : timeline_.blocks()) AddBlock(block);
    for (BlockId block : timeline_.blocks()) {
      AddNodes(block,
               block == ir::kMainBlock ? &report_.nodes : &report_.inner_nodes);
    }
    for (analysis::StorageId id : profile_.at_peak()) {
      // Views of it are the same bytes; the first value stands for all.
      report_.at_peak.push_back(
          MakeTensor(liveness_.storage(id).values.front()));
      ReportTensor& tensor = report_.at_peak.back();
      tensor.begin = liveness_.storage(id).range.begin;
      tensor.end = liveness_.storage(id).range.end;
    }
    report_.complete = profile_.complete();
    report_.total_flops = cost_.total_flops();
  }

 private:
  void AddBlock(BlockId block) {
    for (ValueId value : graph_.block(block).params) {
      AddTensor(value);
      if (block == ir::kMainBlock) {
        report_.inputs_bytes = SaturatingAdd(report_.inputs_bytes,
                                             sizes_.bytes(value).value_or(0));
      }
    }
    for (ValueId value : graph_.block(block).initializers) AddTensor(value);
    for (NodeId step : timeline_.steps(block)) {
      for (ValueId result : graph_.node(step).results) {
        if (result == ir::kNoValue) continue;
        producer_[result] = step;
        AddTensor(result);
      }
    }
  }

  void AddTensor(ValueId value) {
    row_[value] = static_cast<int64_t>(report_.tensors.size());
    report_.tensors.push_back(MakeTensor(value));
    if (!report_.tensors.back().bytes) {
      report_.unknown_tensors.push_back(graph_.value(value).name);
    }
  }

  ReportTensor MakeTensor(ValueId id) const {
    const ir::Value& value = graph_.value(id);
    ReportTensor tensor;
    tensor.name = value.name;
    const auto producer = producer_.find(id);
    if (producer != producer_.end()) {
      tensor.producer = timeline_.StepName(graph_, producer->second);
    }
    const analysis::StorageId storage = liveness_.storage_of(id);
    tensor.kind = KindName(liveness_.storage(storage).kind);
    if (value.type.is_tensor()) {
      if (value.type.element != ir::ElementType::kUndefined) {
        tensor.dtype = std::string(Name(value.type.element));
      }
      if (value.type.shape) tensor.shape = ToString(*value.type.shape);
    } else if (value.type.kind != ir::TypeKind::kUnknown) {
      tensor.dtype = ToString(value.type);
    }
    tensor.bytes = sizes_.bytes(id);
    const std::optional<ir::Dim>& symbolic = sizes_.symbolic_bytes(id);
    if (symbolic && !symbolic->is_constant()) {
      tensor.bytes_formula = symbolic->ToString();
    }
    tensor.begin = liveness_.range(id).begin;
    tensor.end = liveness_.range(id).end;
    tensor.storage = static_cast<int64_t>(storage);
    tensor.graph =
        static_cast<int64_t>(ir::Index(liveness_.storage(storage).block));
    return tensor;
  }

  void AddNodes(BlockId block, std::vector<ReportNode>* rows) const {
    const std::vector<NodeId>& steps = timeline_.steps(block);
    for (size_t i = 0; i < steps.size(); ++i) {
      const ir::Node& node = graph_.node(steps[i]);
      ReportNode out;
      out.index = static_cast<int64_t>(i);
      out.name = timeline_.StepName(graph_, steps[i]);
      out.op = OpName(node);
      out.graph = static_cast<int64_t>(ir::Index(block));
      out.output_bytes = 0;
      for (ValueId result : node.results) {
        if (result == ir::kNoValue) continue;
        const std::optional<int64_t> bytes = sizes_.bytes(result);
        out.output_bytes = bytes && out.output_bytes
                               ? CheckedAdd(*out.output_bytes, *bytes)
                               : std::nullopt;
      }
      out.live_bytes = profile_.block(block).live_bytes[i];
      out.flops = cost_.node(steps[i]).flops;
      out.traffic_bytes = cost_.node(steps[i]).traffic_bytes;
      AddRows(node.operands, &out.inputs);
      AddRows(node.results, &out.outputs);
      if (!node.is_call) {
        for (BlockId inner : node.blocks) {
          out.graphs.push_back(static_cast<int64_t>(ir::Index(inner)));
        }
      }
      rows->push_back(std::move(out));
    }
  }

  template <typename Ids>
  void AddRows(const Ids& values, std::vector<int64_t>* rows) const {
    for (ValueId value : values) {
      const auto row = row_.find(value);
      if (row != row_.end()) rows->push_back(row->second);
    }
  }

  const ir::Graph& graph_;
  const Timeline& timeline_;
  const Sizes& sizes_;
  const Liveness& liveness_;
  const MemoryProfile& profile_;
  const Cost& cost_;
  Report& report_;
  llvm::DenseMap<ValueId, NodeId> producer_;
  llvm::DenseMap<ValueId, int64_t> row_;  // of Report::tensors
};

std::string WeightName(const ir::Graph& graph, ir::WeightId id) {
  return absl::StrCat("\"", graph.weight(id).name, "\"");
}

absl::StatusOr<ReportRuntimePeaks> PredictPeaks(
    const ir::Graph& graph, AnalysisManager& analyses,
    analysis::RuntimeOptions options) {
  // Pages of mapped weights are part of the weights, which the report has
  // beside it.
  options.mapped_weights = analysis::MappedWeights::kNone;
  options.folding = true;
  options.fusion = true;
  ASSIGN_OR_RETURN(const analysis::RuntimePrediction prediction,
                   PredictRuntime(graph, analyses, options));
  return ReportRuntimePeaks{.first_peak_bytes = prediction.peak_first_bytes,
                            .steady_peak_bytes = prediction.peak_steady_bytes};
}

}  // namespace

absl::StatusOr<ReportPeak> BuildPeak(const ir::Graph& graph,
                                     AnalysisManager& analyses, bool formulas) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const MemoryProfile* profile, analyses.Get<MemoryProfile>());
  ASSIGN_OR_RETURN(const Packing* packing, analyses.Get<Packing>());
  ReportPeak peak;
  peak.live_peak_bytes = profile->main().peak_bytes;
  peak.packed_peak_bytes = packing->arena_bytes();
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  ASSIGN_OR_RETURN(const Weights* weights, analyses.Get<Weights>());
  peak.total_bytes = SaturatingAdd(weights->bytes(), peak.packed_peak_bytes);
  for (ValueId input : graph.block(ir::kMainBlock).params) {
    peak.total_bytes =
        SaturatingAdd(peak.total_bytes, sizes->bytes(input).value_or(0));
  }
  peak.peak_step = profile->main().peak_step;
  if (peak.peak_step >= 0) {
    const NodeId node =
        timeline->steps(ir::kMainBlock)[static_cast<size_t>(peak.peak_step)];
    peak.peak_node = timeline->StepName(graph, node);
    peak.peak_op = graph.node(node).op_type;
  }
  ASSIGN_OR_RETURN(peak.runtime_default, PredictPeaks(graph, analyses, {}));
  ASSIGN_OR_RETURN(peak.runtime_bare,
                   PredictPeaks(graph, analyses, analysis::Bare()));
  if (formulas && !graph.symbols.empty()) {
    ASSIGN_OR_RETURN(const std::vector<ir::Dim> terms,
                     SymbolicPeak(graph, analyses));
    for (const ir::Dim& term : terms) {
      peak.live_peak_formulas.push_back(term.ToString());
    }
  }
  return peak;
}

absl::StatusOr<ReportWeights> BuildWeights(const ir::Graph& graph,
                                           AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Weights* weights, analyses.Get<Weights>());
  ReportWeights out;
  out.bytes = weights->bytes();
  out.count = weights->count();
  out.duplicate_bytes = weights->duplicate_bytes();
  // Many models repeat small constants; they are in the total only.
  constexpr int64_t kMinNotedBytes = 1024;
  for (const auto& group : weights->equal().groups) {
    const int64_t bytes = graph.weight(group.front()).size_bytes;
    if (bytes < kMinNotedBytes) continue;
    out.notes.push_back(absl::StrCat(WeightName(graph, group.front()),
                                     " is stored ", group.size(), " times (",
                                     FormatBytes(bytes), " each)"));
  }
  for (const auto& [a, b] : weights->equal().transposed) {
    out.transposed_bytes =
        SaturatingAdd(out.transposed_bytes, graph.weight(b).size_bytes);
    out.notes.push_back(absl::StrCat(
        WeightName(graph, b), " is ", WeightName(graph, a), " transposed (",
        FormatBytes(graph.weight(b).size_bytes), ")"));
  }
  for (ValueId value : weights->shared_by_subgraphs()) {
    const ir::Value& v = graph.value(value);
    const int64_t bytes = graph.weight(v.weight).size_bytes;
    if (bytes < kMinNotedBytes) continue;
    out.notes.push_back(absl::StrCat(
        "\"", v.name, "\" (", FormatBytes(bytes),
        ") is read by more than one subgraph; some runtimes keep a copy for "
        "each"));
  }
  // Less is noise: scalars that exporters leave to the runtime.
  constexpr int64_t kMinGrowthBytes = 64 << 10;
  ASSIGN_OR_RETURN(const analysis::LoadGrowth* growth,
                   analyses.Get<analysis::LoadGrowth>());
  if (growth->growth_bytes() >= kMinGrowthBytes) {
    const int64_t nodes = growth->folded_nodes();
    out.notes.push_back(absl::StrCat(
        "ONNX Runtime computes ", nodes, " node", nodes == 1 ? "" : "s",
        " of constants when it loads the model, unless its optimizations are "
        "off: ",
        FormatBytes(growth->growth_bytes()), " more"));
  }
  return out;
}

absl::StatusOr<ReportProfile> BuildProfile(const ir::Graph& graph,
                                           AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const Liveness* liveness, analyses.Get<Liveness>());
  ASSIGN_OR_RETURN(const FlatProfile* flat, analyses.Get<FlatProfile>());
  ReportProfile profile;
  profile.arena_bytes = flat->arena_bytes();
  profile.steps.reserve(flat->steps().size());
  for (const analysis::FlatStep& step : flat->steps()) {
    profile.steps.push_back(
        {.name = timeline->StepName(graph, step.node),
         .op = OpName(graph.node(step.node)),
         .graph = static_cast<int64_t>(ir::Index(step.block)),
         .live_bytes = step.live_bytes});
  }
  profile.buffers.reserve(flat->buffers().size());
  for (const analysis::FlatBuffer& buffer : flat->buffers()) {
    const ValueId first = liveness->storage(buffer.storage).values.front();
    profile.buffers.push_back({.tensor = graph.value(first).name,
                               .begin = buffer.range.begin,
                               .end = buffer.range.end,
                               .bytes = buffer.size_bytes,
                               .offset_bytes = buffer.offset_bytes});
  }
  return profile;
}

absl::Status BuildTables(const ir::Graph& graph, AnalysisManager& analyses,
                         Report* report) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  ASSIGN_OR_RETURN(const Liveness* liveness, analyses.Get<Liveness>());
  ASSIGN_OR_RETURN(const MemoryProfile* profile, analyses.Get<MemoryProfile>());
  ASSIGN_OR_RETURN(const Cost* cost, analyses.Get<Cost>());
  TableBuilder(graph, *timeline, *sizes, *liveness, *profile, *cost, report)
      .Build();
  return absl::OkStatus();
}

}  // namespace onnx_memopt
