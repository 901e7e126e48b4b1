#include "onnx_memopt/estimate/build_report.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "estimate/advice.h"
#include "estimate/allocator_advice.h"
#include "estimate/evaluate.h"
#include "estimate/launch_configs.h"
#include "onnx_memopt/estimate/gpus.h"
#include "onnx_memopt/estimate/reference_formulas.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::estimate {
namespace {

constexpr size_t kTensorsAtPeak = 10;

std::string Count(int64_t n, absl::string_view one) {
  return absl::StrCat(n, " ", one, n == 1 ? "" : "s");
}

class Builder {
 public:
  Builder(const ir::Graph& graph, const Configuration& configuration,
          const ReportRequest& request)
      : model_(&graph, request.batch_symbol),
        c_(configuration),
        request_(request) {}

  absl::StatusOr<EstimateReport> Run() {
    ASSIGN_OR_RETURN(view_, model_.Get(c_));
    const ModelFacts& facts = view_->facts;
    c_.batch = request_.batch.value_or(facts.model_batch);
    RETURN_IF_ERROR(FindBudget());
    report_.parameters = facts.num_parameters();
    report_.constant_bytes = facts.constant_bytes();
    report_.batch = c_.batch;
    report_.batch_source =
        !facts.batch_symbol.empty()
            ? absl::StrCat("dimension \"", facts.batch_symbol, "\"")
            : absl::StrCat("the model is for ", facts.model_batch,
                           "; sizes are scaled");
    report_.training = c_.training;
    report_.gpus = c_.gpus();
    report_.setup = Setup();
    ASSIGN_OR_RETURN(estimate_, Evaluate(&model_, c_, {}));
    AddPeak();
    AddUnits();
    AddStages();
    AddNotes();
    AddRuleOfThumb();
    AddPublished();
    RETURN_IF_ERROR(AddCheckpoints());
    RETURN_IF_ERROR(AddFits());
    RETURN_IF_ERROR(AddBatches());
    ASSIGN_OR_RETURN(Advised advised,
                     Advise(&model_, c_, estimate_, report_.budget_bytes));
    report_.advice = std::move(advised.rows);
    report_.combination = std::move(advised.combination);
    report_.deepspeed_json = DeepSpeedConfig(c_);
    report_.accelerate_yaml = AccelerateConfig(c_);
    return std::move(report_);
  }

 private:
  absl::Status FindBudget() {
    const bool fit = request_.checkpoint_to_fit;
    if (!request_.gpu.empty() && request_.gpu != "all") {
      const Gpu* gpu = FindGpu(request_.gpu);
      if (gpu == nullptr) {
        return absl::OutOfRangeError(
            absl::StrCat("--gpu: \"", Printable(Ellipsize(request_.gpu, 40)),
                         "\" is not in the table; near names: ",
                         absl::StrJoin(NearGpuNames(request_.gpu, 4), ", "),
                         "; \"all\" lists every one"));
      }
      report_.budget_bytes = gpu->memory_bytes;
      report_.budget_name = gpu->name;
    }
    if (request_.memory_bytes) {
      report_.budget_bytes = request_.memory_bytes;
      report_.budget_name = FormatBytes(*request_.memory_bytes);
    }
    if ((request_.max_batch || fit) && !report_.budget_bytes) {
      return absl::OutOfRangeError(absl::StrCat(
          fit ? "--checkpoint fit" : "--max-batch",
          " needs to know how much memory there is: give --gpu NAME or "
          "--memory SIZE"));
    }
    if (fit) c_.checkpoint_budget_bytes = *report_.budget_bytes;
    return absl::OkStatus();
  }

  std::string Setup() const {
    std::vector<std::string> parts;
    if (!c_.training) {
      parts = {"serving", std::string(c_.precision->name),
               absl::StrCat("batch ", c_.batch)};
    } else {
      parts = {"training", std::string(c_.optimizer->name),
               std::string(c_.precision->name),
               absl::StrCat("batch ", c_.batch)};
    }
    if (c_.accumulate > 1) {
      parts.push_back(absl::StrCat("accumulated ", c_.accumulate, " times"));
    }
    if (c_.data_parallel > 1) {
      parts.push_back(absl::StrCat("data parallel ", c_.data_parallel));
    }
    if (c_.zero > 0) parts.push_back(absl::StrCat("ZeRO-", c_.zero));
    if (c_.offload_optimizer) parts.emplace_back("optimizer offloaded");
    if (c_.offload_parameters) parts.emplace_back("parameters offloaded");
    if (c_.tensor_parallel > 1) {
      parts.push_back(
          absl::StrCat("tensor parallel ", c_.tensor_parallel,
                       c_.sequence_parallel ? " with sequences" : ""));
    }
    if (c_.pipeline_parallel > 1) {
      parts.push_back(absl::StrCat("pipeline ", c_.pipeline_parallel, " (",
                                   c_.gpipe ? "GPipe" : "1F1B", ", ",
                                   Count(c_.micro_batches, "micro-batch"),
                                   c_.micro_batches == 1 ? ")" : "es)"));
    }
    parts.push_back(Count(c_.gpus(), "GPU"));
    return absl::StrJoin(parts, ", ");
  }

  // ---- the peak

  std::string FormulaOf(Category category) const {
    const PrecisionRow& p = *c_.precision;
    const std::string shard = c_.tensor_parallel > 1 || c_.pipeline_parallel > 1
                                  ? "of this GPU's part"
                                  : "";
    const auto per = [&](int64_t bytes, int level) {
      return absl::StrCat("N * ", bytes, " B",
                          c_.zero >= level && c_.data_parallel > 1
                              ? absl::StrCat(" / ", c_.data_parallel)
                              : "",
                          shard.empty() ? "" : " ", shard);
    };
    switch (category) {
      case Category::kParameters:
        return per(p.weight_bytes, 3);
      case Category::kConstants:
        return "as stored: not trained";
      case Category::kMaster:
        return per(p.master_bytes, 1);
      case Category::kOptimizerState:
        return absl::StrCat(c_.optimizer->formula, ", state ", p.state_bytes,
                            " B",
                            c_.zero >= 1 && c_.data_parallel > 1
                                ? absl::StrCat(" / ", c_.data_parallel)
                                : "");
      case Category::kGradients:
        return absl::StrCat(per(p.gradient_bytes, 2), " at most");
      case Category::kInputs:
        return "the inputs' sizes * batch";
      case Category::kSaved:
        return absl::StrCat(
            "what backward needs, ", p.activation_bytes,
            p.autocast ? " or 4 B a number" : " B a number",
            estimate_.worst().in_flight > 1
                ? absl::StrCat(" * ", estimate_.worst().in_flight,
                               " micro-batches")
                : "");
      case Category::kTemporary:
        return "in use at that moment only";
      case Category::kLoss:
        return "outputs, and the loss in float32";
      case Category::kCommunication:
        return c_.zero == 0 ? "buckets: a copy of the gradients"
                            : "buckets, gathered layers";
    }
    return "";
  }

  void AddPeak() {
    const StageEstimate& worst = estimate_.worst();
    for (size_t i = 0; i < kNumCategories; ++i) {
      if (worst.at_peak[i] <= 0) continue;
      const auto category = static_cast<Category>(i);
      report_.terms.push_back({.name = std::string(Name(category)),
                               .bytes = worst.at_peak[i],
                               .formula = FormulaOf(category)});
    }
    report_.live_peak_bytes = worst.live_peak_bytes;
    report_.allocators = SimulateAllocators(worst);
    report_.terms.push_back(
        {.name = "rounding, fragmentation",
         .bytes = worst.reserved_bytes - worst.live_peak_bytes,
         .formula = "PyTorch's allocator, simulated"});
    report_.terms.push_back({.name = "CUDA context, workspace",
                             .bytes = kContextBytes + kWorkspaceBytes,
                             .formula = "stated: 512 + 32 MiB"});
    report_.total_bytes = worst.total_bytes;
    report_.saved_activation_bytes = worst.saved_bytes;
    report_.recompute_overhead = estimate_.recompute_overhead;
    AddTimeline(worst);
    for (int32_t block : worst.profile.peak_blocks) {
      if (report_.at_peak.size() >= kTensorsAtPeak) break;
      const TraceBlock& b = worst.trace.blocks[block];
      if (b.bytes == 0) continue;
      const std::string name =
          b.buffer < 0 ? b.name
                       : absl::StrCat(b.is_gradient ? "gradient of " : "",
                                      view_->facts.buffers[b.buffer].name);
      report_.at_peak.push_back({.name = name,
                                 .category = std::string(Name(b.category)),
                                 .bytes = b.bytes});
    }
  }

  // What each unit adds, without checkpoints.
  void AddUnits() {
    const ModelFacts& facts = view_->facts;
    const std::vector<int64_t> saved =
        SavedByUnit(facts, {.batch = c_.batch,
                            .activation_bytes = c_.precision->activation_bytes,
                            .training = c_.training});
    for (size_t u = 0; u < facts.units.size(); ++u) {
      report_.units.push_back({.name = facts.units[u].name,
                               .op = facts.units[u].op,
                               .saved_bytes = saved[u],
                               .flops = facts.units[u].flops.At(c_.batch)});
    }
    for (UnitIndex cut : view_->blocks.cuts) report_.units[cut].cut = true;
  }

  std::string UnitName(UnitIndex unit) const {
    if (unit < 0) return "";
    const UnitFact& fact = view_->facts.units[unit];
    return absl::StrCat(fact.name, " (", fact.op, ")");
  }

  void AddTimeline(const StageEstimate& worst) {
    for (size_t i = 0; i < worst.trace.points.size(); ++i) {
      const TracePoint& point = worst.trace.points[i];
      report_.timeline.push_back({.phase = std::string(Name(point.phase)),
                                  .unit = UnitName(point.unit),
                                  .recompute = point.recompute,
                                  .live_bytes = worst.profile.live_bytes[i]});
    }
    if (worst.trace.points.empty()) return;
    const TracePoint& peak = worst.trace.points[worst.profile.peak_point];
    report_.peak_phase = std::string(Name(peak.phase));
    report_.peak_unit = UnitName(peak.unit);
  }

  void AddStages() {
    int64_t next = 0;
    for (size_t i = 0; i < estimate_.stages.size(); ++i) {
      const StageEstimate& stage = estimate_.stages[i];
      EstimateGpuRow row;
      row.gpus = stage.gpus == 1
                     ? absl::StrCat(next)
                     : absl::StrCat(next, "-", next + stage.gpus - 1);
      next += stage.gpus;
      row.units =
          stage.begin < stage.end
              ? absl::StrCat(view_->facts.units[stage.begin].name, " .. ",
                             view_->facts.units[stage.end - 1].name)
              : "";
      row.parameters = stage.parameters;
      row.states_bytes = stage.states.parameters + stage.states.gradients +
                         stage.states.master + stage.states.optimizer;
      row.saved_bytes =
          CheckedMul(stage.saved_bytes, stage.in_flight).value_or(INT64_MAX);
      row.in_flight = stage.in_flight;
      row.live_peak_bytes = stage.live_peak_bytes;
      row.total_bytes = stage.total_bytes;
      row.host_bytes = stage.host_bytes;
      row.fullest = i == estimate_.fullest;
      report_.pooled_bytes = SaturatingAdd(
          report_.pooled_bytes,
          CheckedMul(stage.total_bytes, stage.gpus).value_or(INT64_MAX));
      report_.host_bytes = SaturatingAdd(
          report_.host_bytes,
          CheckedMul(stage.host_bytes, stage.gpus).value_or(INT64_MAX));
      report_.per_gpu.push_back(std::move(row));
    }
  }

  void AddNotes() {
    const ModelFacts& facts = view_->facts;
    report_.notes = facts.notes;
    if (!facts.unknown.empty()) {
      report_.notes.push_back(absl::StrCat(
          Count(static_cast<int64_t>(facts.unknown.size()), "tensor"),
          " of unknown size left out, for example \"", facts.unknown[0],
          "\": the estimate is too low"));
    }
    if (c_.training && facts.convolutions >= 8 &&
        facts.convolutions_with_norm == 0) {
      report_.notes.emplace_back(
          "the convolutions have no normalisation: it was folded into them "
          "when "
          "the model was exported for inference. Trained with batch "
          "normalisation, activations take about twice as much; export the "
          "model in training mode to see");
    }
    if (c_.training && facts.attentions > 0 && !facts.has_dropout) {
      report_.notes.emplace_back(
          "the graph has no dropout (exported for inference, or trained "
          "without): with it, each mask adds a byte a number");
    }
    if (facts.attentions > 0 && !c_.fused_attention) {
      report_.notes.push_back(absl::StrCat(
          Count(facts.attentions, "attention"), facts.attentions == 1 ? "" : "",
          " counted as the graph has it, scores and all; --attention fused is "
          "what scaled_dot_product_attention takes on a GPU"));
    }
    const Gpu* gpu = FindGpu(request_.gpu);
    const bool bfloat16 = c_.precision->activation_bytes == 2 &&
                          !absl::EndsWith(c_.precision->name, "fp16");
    if (gpu != nullptr && bfloat16 && !gpu->bfloat16) {
      report_.notes.push_back(absl::StrCat(
          gpu->name, " has no fast bfloat16 arithmetic: --precision fp16"));
    }
    const bool unfused_zero =
        c_.zero > 0 && c_.data_parallel == 1 && !c_.offload_optimizer;
    if (unfused_zero) {
      report_.notes.emplace_back(
          "ZeRO divides among the data-parallel GPUs: with --dp 1 it saves "
          "nothing");
    }
  }

  // ---- what others say

  void AddRuleOfThumb() {
    if (!c_.training) return;
    const ModelFacts& facts = view_->facts;
    // Activations of a sample, in the precision asked for.
    TraceOptions options{.activation_bytes = c_.precision->activation_bytes};
    options.batch = 2;
    const int64_t two = SavedBytes(facts, options);
    options.batch = 1;
    const int64_t one = SavedBytes(facts, options);
    const int64_t a = std::min(two - one, kMostBlockBytes);
    report_.activation_bytes_a_sample = a;
    int64_t state = 0;
    for (const ParameterFact& p : facts.parameters) {
      if (p.elements == 0) continue;
      state = SaturatingAdd(
          state,
          OptimizerStateBytes(*c_.optimizer, *FindPrecision("fp32"), p.dims));
    }
    const int64_t n = std::min(facts.num_parameters(), kMostBlockBytes);
    state = std::min(state, kMostBlockBytes);
    report_.rule_of_thumb = {
        {.name = "parameters", .bytes = 4 * n, .formula = "4 N"},
        {.name = "activations",
         .bytes = std::min(CheckedMul(a, c_.batch).value_or(INT64_MAX),
                           kMostBlockBytes),
         .formula = absl::StrCat("A * B, A = ", FormatBytes(a), " a sample")},
        {.name = "optimizer state", .bytes = state, .formula = "S"}};
    report_.rule_of_thumb_bytes =
        RuleOfThumbBytes(n, report_.rule_of_thumb[1].bytes, 1, state);
    ExplainRule(n, state);
  }

  void ExplainRule(int64_t n, int64_t state) {
    const StageEstimate& worst = estimate_.worst();
    const auto bytes = [&](Category category) {
      return worst.at_peak[static_cast<size_t>(category)];
    };
    auto& notes = report_.rule_of_thumb_notes;
    const int64_t gradients = bytes(Category::kGradients);
    if (gradients > 0) {
      notes.push_back(absl::StrCat(
          "it has no gradients: ", FormatBytes(gradients), " at the peak"));
    }
    const int64_t weights =
        bytes(Category::kParameters) + bytes(Category::kMaster);
    if (weights != 4 * n) {
      notes.push_back(absl::StrCat("weights with master copies are ",
                                   FormatBytes(weights), ", not 4 N"));
    }
    if (bytes(Category::kOptimizerState) != state) {
      notes.push_back(
          absl::StrCat("optimizer state on this GPU is ",
                       FormatBytes(bytes(Category::kOptimizerState))));
    }
    const int64_t full = report_.rule_of_thumb[1].bytes;
    if (bytes(Category::kSaved) < full * 9 / 10) {
      notes.push_back(absl::StrCat("at the peak (", report_.peak_phase,
                                   ") only ",
                                   FormatBytes(bytes(Category::kSaved)),
                                   " of the activations are there"));
    }
    notes.push_back(absl::StrCat(
        "outputs, loss, inputs and temporaries add ",
        FormatBytes(bytes(Category::kLoss) + bytes(Category::kInputs) +
                    bytes(Category::kTemporary))));
    notes.push_back(
        absl::StrCat("the allocator and CUDA add ",
                     FormatBytes(worst.total_bytes - worst.live_peak_bytes)));
  }

  void AddPublished() {
    const ModelFacts& facts = view_->facts;
    const int64_t n = facts.num_parameters();
    if (n > INT64_MAX / 64) return;
    const AccelerateEstimate accelerate =
        AccelerateBytes(n, 4, facts.constant_bytes());
    report_.published.push_back(
        {.name = c_.training ? "Accelerate, Adam" : "Accelerate, inference",
         .bytes = c_.training ? accelerate.training_bytes
                              : accelerate.inference_bytes,
         .formula = c_.training ? "4 (4 N + buffers); no activations"
                                : "4 N + buffers"});
    const bool sixteen = c_.precision->master_bytes > 0;
    if (c_.training && sixteen && c_.zero >= 2) {
      const DeepSpeedModel model{.parameters = n,
                                 .largest_layer = facts.largest_layer,
                                 .gpus = c_.data_parallel};
      report_.published.push_back(
          {.name = absl::StrCat("DeepSpeed, ZeRO-", c_.zero),
           .bytes = c_.zero == 2
                        ? DeepSpeedZero2Bytes(model, c_.offload_optimizer)
                        : DeepSpeedZero3Bytes(model, c_.offload_optimizer,
                                              c_.offload_parameters),
           .formula = "its documentation; no activations"});
    }
  }

  // ---- recomputation

  absl::Status AddCheckpoints() {
    const ModelFacts& facts = view_->facts;
    for (const Checkpoint& c : estimate_.checkpoints) {
      report_.checkpoints.push_back(
          {.first = facts.units[c.begin].name,
           .last = facts.units[c.end - 1].name,
           .units = c.end - c.begin,
           .flops = FlopsOf(facts, c.begin, c.end, c_.batch)});
    }
    ASSIGN_OR_RETURN(const std::vector<CheckpointPoint> curve,
                     CheckpointCurve(&model_, c_, {}));
    Configuration none = c_;
    none.checkpoint = CheckpointKind::kNone;
    for (const CheckpointPoint& point : curve) {
      report_.checkpoint_curve.push_back(
          {.flags = FlagsBetween(none, point.configuration),
           .total_bytes = point.total_bytes,
           .overhead = point.overhead});
    }
    return absl::OkStatus();
  }

  // ---- hardware and batches

  absl::Status AddFits() {
    if (request_.gpu.empty()) return absl::OkStatus();
    std::vector<std::string> names;
    if (request_.gpu != "all") names.push_back(report_.budget_name);
    if (request_.gpu != "all" && request_.memory_bytes) return absl::OkStatus();
    ASSIGN_OR_RETURN(report_.fits, FitGpus(&model_, c_, estimate_, names));
    return absl::OkStatus();
  }

  absl::Status AddBatches() {
    if (!request_.max_batch) return absl::OkStatus();
    ASSIGN_OR_RETURN(report_.max_batch,
                     LargestBatch(&model_, c_, *report_.budget_bytes));
    if (request_.length_graph == nullptr) return absl::OkStatus();
    report_.length_name = request_.length_symbol;
    for (int64_t length = std::max<int64_t>(1, request_.length / 16);
         length <= request_.length; length *= 2) {
      request_.length_graph->assumed[request_.length_symbol] = length;
      Model model(request_.length_graph, request_.batch_symbol);
      ASSIGN_OR_RETURN(const int64_t batch,
                       LargestBatch(&model, c_, *report_.budget_bytes));
      report_.buckets.push_back({.length = length, .batch = batch});
    }
    return AddLongest();
  }

  // The longest that fits with the batch that was asked for, in steps of a
  // sixteenth of the length given.
  absl::Status AddLongest() {
    const int64_t step = std::max<int64_t>(1, request_.length / 16);
    constexpr int64_t kMostSteps = 1024;
    ASSIGN_OR_RETURN(
        const int64_t steps,
        LargestThatFits(kMostSteps, [&](int64_t count) -> absl::StatusOr<bool> {
          request_.length_graph->assumed[request_.length_symbol] = count * step;
          Model model(request_.length_graph, request_.batch_symbol);
          return Fits(&model, c_, *report_.budget_bytes);
        }));
    report_.max_length = steps * step;
    return absl::OkStatus();
  }

  Model model_;
  Configuration c_;
  const ReportRequest& request_;
  const Model::View* view_ = nullptr;
  Estimate estimate_;
  EstimateReport report_;
};

}  // namespace

absl::StatusOr<EstimateReport> BuildEstimate(const ir::Graph& graph,
                                             Configuration configuration,
                                             const ReportRequest& request) {
  return Builder(graph, configuration, request).Run();
}

}  // namespace onnx_memopt::estimate
