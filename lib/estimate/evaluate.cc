// What a configuration takes on each GPU.
#include "estimate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "estimate/change_model.h"
#include "estimate/pipeline.h"
#include "onnx_memopt/estimate/configuration.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::estimate {
namespace {

// As much as a trace takes for one block: sums of such amounts do not overflow.
int64_t Times(int64_t a, int64_t b) {
  return std::min(CheckedMul(a, b).value_or(kMostBlockBytes), kMostBlockBytes);
}

// With one GPU in its data-parallel group there is nothing to divide by.
ZeroOptions Zero(const Configuration& c) {
  return {.level = c.zero,
          .ranks = c.data_parallel,
          .offload_optimizer = c.offload_optimizer,
          .offload_parameters = c.offload_parameters};
}

class Evaluator {
 public:
  Evaluator(const Model::View& view, const Configuration& configuration,
            const EvaluateOptions& options,
            const std::vector<Checkpoint>& checkpoints)
      : facts_(view.facts),
        blocks_(view.blocks),
        frozen_(view.frozen),
        c_(configuration),
        options_(options),
        step_(WholeStep(view, configuration)) {
    if (c_.training) step_.checkpoints = checkpoints;
  }

  absl::StatusOr<Estimate> Run() {
    Estimate estimate;
    estimate.checkpoints = step_.checkpoints;
    estimate.recompute_overhead = Overhead();
    std::vector<UnitIndex> begins = {
        0, static_cast<UnitIndex>(facts_.units.size())};
    if (c_.pipeline_parallel > 1) {
      ASSIGN_OR_RETURN(begins, Stages());
    }
    for (size_t i = 0; i + 1 < begins.size(); ++i) {
      StageEstimate stage =
          TraceStage(static_cast<int64_t>(i), begins[i], begins[i + 1]);
      AddAllocator(&stage);
      estimate.stages.push_back(std::move(stage));
      if (estimate.stages[i].total_bytes >
          estimate.stages[estimate.fullest].total_bytes) {
        estimate.fullest = i;
      }
    }
    return estimate;
  }

 private:
  // Backward takes twice the arithmetic of forward.
  double Overhead() const {
    const auto units = static_cast<UnitIndex>(facts_.units.size());
    const int64_t forward = FlopsOf(facts_, 0, units, c_.batch);
    int64_t again = 0;
    for (const Checkpoint& checkpoint : step_.checkpoints) {
      again = SaturatingAdd(
          again, FlopsOf(facts_, checkpoint.begin, checkpoint.end, c_.batch));
    }
    if (forward <= 0) return 0;
    return static_cast<double>(again) / (3 * static_cast<double>(forward));
  }

  int64_t InFlight(int64_t stage) const {
    if (c_.pipeline_parallel == 1) return 1;
    if (c_.gpipe) return c_.micro_batches;
    return std::min(c_.pipeline_parallel - stage, c_.micro_batches);
  }

  TraceOptions Trace(UnitIndex begin, UnitIndex end) const {
    TraceOptions options = step_;
    options.begin = begin;
    options.end = end;
    return options;
  }

  bool is_frozen(ParameterIndex p) const {
    return !frozen_.empty() && frozen_[p];
  }
  int64_t Share(const ParameterFact& parameter, int64_t bytes) const {
    return parameter.tensor_split ? CeilDiv(bytes, c_.tensor_parallel) : bytes;
  }

  StateBytes StatesOf(ParameterIndex p) const {
    const ParameterFact& parameter = facts_.parameters[p];
    const PrecisionRow& row = *c_.precision;
    if (parameter.elements == 0) return {};
    StateBytes bytes;
    bytes.parameters =
        Share(parameter, Times(parameter.elements, row.weight_bytes));
    if (!c_.training || is_frozen(p)) return bytes;
    bytes.gradients =
        Share(parameter, Times(parameter.elements, row.gradient_bytes));
    bytes.master =
        Share(parameter, Times(parameter.elements, row.master_bytes));
    bytes.optimizer =
        Share(parameter,
              std::min(OptimizerStateBytes(*c_.optimizer, row, parameter.dims),
                       kMostBlockBytes));
    return bytes;
  }

  static void Add(const StateBytes& from, StateBytes* to) {
    to->parameters = SaturatingAdd(to->parameters, from.parameters);
    to->gradients = SaturatingAdd(to->gradients, from.gradients);
    to->master = SaturatingAdd(to->master, from.master);
    to->optimizer = SaturatingAdd(to->optimizer, from.optimizer);
  }

  // Every parameter that a unit of the stage uses, however many stages do.
  std::vector<ParameterIndex> ParametersOf(UnitIndex begin,
                                           UnitIndex end) const {
    std::vector<bool> used(facts_.parameters.size());
    for (UnitIndex u = begin; u < end; ++u) {
      for (ParameterIndex p : facts_.units[u].parameters) used[p] = true;
    }
    std::vector<ParameterIndex> result;
    for (size_t p = 0; p < used.size(); ++p) {
      // What nothing reads is on the first stage.
      const bool unused = facts_.parameters[p].first_use < 0 && begin == 0;
      if (used[p] || unused) result.push_back(static_cast<ParameterIndex>(p));
    }
    return result;
  }

  absl::StatusOr<std::vector<UnitIndex>> Stages() const {
    const auto units = static_cast<UnitIndex>(facts_.units.size());
    const std::vector<int64_t> saved = SavedByUnit(facts_, Trace(0, units));
    std::vector<int64_t> saved_before(units + 1);
    std::vector<int64_t> states_before(units + 1);
    std::vector<int64_t> states(units);
    for (size_t p = 0; p < facts_.parameters.size(); ++p) {
      const UnitIndex use = facts_.parameters[p].first_use;
      if (use < 0) continue;
      const StateBytes bytes =
          Partition(StatesOf(static_cast<ParameterIndex>(p)), Zero(c_));
      states[use] +=
          bytes.parameters + bytes.gradients + bytes.master + bytes.optimizer;
    }
    for (UnitIndex u = 0; u < units; ++u) {
      saved_before[u + 1] = SaturatingAdd(saved_before[u], saved[u]);
      states_before[u + 1] = SaturatingAdd(states_before[u], states[u]);
    }
    const int64_t loss = LossBytes();
    const auto estimate = [&](int64_t stage, UnitIndex begin, UnitIndex end) {
      const int64_t saved_bytes = saved_before[end] - saved_before[begin];
      const int64_t activations =
          Times(SaturatingAdd(saved_bytes, Crossing(begin)), InFlight(stage));
      return SaturatingAdd(
          SaturatingAdd(states_before[end] - states_before[begin], activations),
          end == units ? loss : 0);
    };
    const auto exact = [&](int64_t stage, UnitIndex begin, UnitIndex end) {
      return TraceStage(stage, begin, end).live_peak_bytes;
    };
    return BalanceStages(blocks_.cuts, units, c_.pipeline_parallel, estimate,
                         exact);
  }

  // What a stage that begins here gets of one micro-batch.
  int64_t Crossing(UnitIndex begin) const {
    const auto cut =
        std::lower_bound(blocks_.cuts.begin(), blocks_.cuts.end(), begin);
    if (cut == blocks_.cuts.end() || *cut != begin) return 0;
    const int64_t bytes = blocks_.cut_bytes[cut - blocks_.cuts.begin()];
    return Times(bytes / 4 * c_.precision->activation_bytes, c_.batch);
  }

  // What the last stage takes beside what it keeps: outputs, their gradients.
  int64_t LossBytes() const {
    if (!c_.training || blocks_.cuts.empty()) return 0;
    TraceOptions last =
        Trace(blocks_.cuts.back(), static_cast<UnitIndex>(facts_.units.size()));
    last.gradients_persist = true;
    return std::max<int64_t>(0, Replay(TraceStep(facts_, last)).peak_bytes -
                                    SavedBytes(facts_, last));
  }

  // The buffers that data parallelism reduces gradients in, and those that hold
  // a layer's parameters while it runs.
  int64_t Communication(const StateBytes& whole,
                        const std::vector<ParameterIndex>& parameters,
                        UnitIndex begin, UnitIndex end) const {
    if (c_.data_parallel <= 1 && !(c_.offload_parameters && c_.zero >= 3)) {
      return 0;
    }
    if (c_.zero == 0) return whole.gradients;
    int64_t elements = 0;
    for (ParameterIndex p : parameters) {
      if (is_frozen(p)) continue;
      elements = SaturatingAdd(
          elements, Share(facts_.parameters[p], facts_.parameters[p].elements));
    }
    int64_t bytes = Times(std::min(elements, kBucketElements),
                          c_.precision->gradient_bytes);
    if (c_.zero >= 3) {
      int64_t largest = 0;
      for (UnitIndex u = begin; u < end; ++u) {
        int64_t layer = 0;
        for (ParameterIndex p : facts_.units[u].parameters) {
          layer = SaturatingAdd(layer, StatesOf(p).parameters);
        }
        largest = std::max(largest, layer);
      }
      // The layer that runs, and the next, fetched meanwhile.
      bytes = SaturatingAdd(bytes, Times(largest, 2));
    }
    return bytes;
  }

  // A block for each tensor that is updated, or one where ZeRO has them flat.
  std::vector<int64_t> OptimizerTemporaries(
      const std::vector<ParameterIndex>& parameters) const {
    if (!c_.training || c_.offload_optimizer) return {};
    const PrecisionRow& row = *c_.precision;
    const int64_t each =
        c_.optimizer->temporaries * row.state_bytes +
        // The update reads gradients in the master weights' precision.
        row.master_bytes;
    std::vector<int64_t> blocks;
    int64_t sum = 0;
    for (ParameterIndex p : parameters) {
      if (is_frozen(p) || facts_.parameters[p].elements == 0) continue;
      blocks.push_back(Share(facts_.parameters[p],
                             Times(facts_.parameters[p].elements, each)));
      sum = SaturatingAdd(sum, blocks.back());
    }
    if (c_.zero >= 1) return {CeilDiv(sum, c_.data_parallel)};
    return blocks;
  }

  StageEstimate TraceStage(int64_t stage, UnitIndex begin,
                           UnitIndex end) const {
    StageEstimate result{.begin = begin, .end = end};
    result.gpus = c_.data_parallel * c_.tensor_parallel;
    result.in_flight = c_.training ? InFlight(stage) : 1;
    const std::vector<ParameterIndex> parameters = ParametersOf(begin, end);
    StateBytes whole;
    for (ParameterIndex p : parameters) {
      Add(StatesOf(p), &whole);
      result.parameters = SaturatingAdd(
          result.parameters,
          Share(facts_.parameters[p], facts_.parameters[p].elements));
    }
    result.states = Partition(whole, Zero(c_));
    result.host_bytes = OffloadedBytes(whole, Zero(c_));
    TraceOptions options = Trace(begin, end);
    options.waiting_batches = result.in_flight - 1;
    options.optimizer_temporary_bytes = OptimizerTemporaries(parameters);
    AddPersistent(result.states, whole, parameters, &options);
    options.persistent.push_back(
        {.category = Category::kCommunication,
         .bytes =
             c_.training ? Communication(whole, parameters, begin, end) : 0,
         .name = "communication buffers"});
    options.persistent.push_back({.category = Category::kConstants,
                                  .bytes = ConstantsOf(begin, end),
                                  .name = "constants"});
    result.saved_bytes = c_.training ? SavedBytes(facts_, options) : 0;
    result.trace = TraceStep(facts_, options);
    result.profile = Replay(result.trace);
    result.live_peak_bytes = result.profile.peak_bytes;
    result.at_peak = result.profile.at_peak;
    return result;
  }

  void AddAllocator(StageEstimate* stage) const {
    stage->reserved_bytes = stage->live_peak_bytes;
    if (options_.allocators) {
      stage->caching = SimulateCaching(stage->trace, /*steps=*/2);
      stage->reserved_bytes =
          std::max(stage->caching.peak_reserved_bytes, stage->live_peak_bytes);
    }
    stage->total_bytes =
        SaturatingAdd(stage->reserved_bytes, kContextBytes + kWorkspaceBytes);
  }

  int64_t ConstantsOf(UnitIndex begin, UnitIndex end) const {
    int64_t bytes = 0;
    for (const ConstantFact& constant : facts_.constants) {
      const UnitIndex use = std::max(constant.first_use, 0);
      if (use >= begin && use < end)
        bytes = SaturatingAdd(bytes, constant.bytes);
    }
    return bytes;
  }

  // Tensor by tensor where each is one allocation, as a whole where ZeRO puts
  // them into flat buffers.
  void AddPersistent(const StateBytes& part, const StateBytes& whole,
                     const std::vector<ParameterIndex>& parameters,
                     TraceOptions* options) const {
    auto& blocks = options->persistent;
    const auto add = [&](Category category, int64_t bytes, std::string name) {
      if (bytes > 0) {
        blocks.push_back(
            {.category = category, .bytes = bytes, .name = std::move(name)});
      }
    };
    const bool flat_parameters = part.parameters != whole.parameters;
    const bool flat_states = c_.zero >= 1 || c_.offload_optimizer;
    for (ParameterIndex p : parameters) {
      const StateBytes bytes = StatesOf(p);
      const std::string& name = facts_.parameters[p].name;
      if (!flat_parameters) add(Category::kParameters, bytes.parameters, name);
      if (flat_states) continue;
      add(Category::kMaster, bytes.master, name);
      const int64_t moments = std::max<int64_t>(c_.optimizer->moments, 1);
      for (int64_t m = 0; m < moments; ++m) {
        add(Category::kOptimizerState, bytes.optimizer / moments, name);
      }
    }
    if (flat_parameters) {
      add(Category::kParameters, part.parameters, "parameters");
    }
    if (flat_states) {
      add(Category::kMaster, part.master, "master weights");
      add(Category::kOptimizerState, part.optimizer, "optimizer state");
    }
    options->gradients_persist =
        c_.accumulate > 1 || c_.micro_batches > 1 || c_.zero >= 2;
    if (options->gradients_persist) {
      add(Category::kGradients, part.gradients, "gradients");
    }
  }

  const ModelFacts& facts_;
  const ModelBlocks& blocks_;
  const std::vector<bool>& frozen_;
  const Configuration& c_;
  const EvaluateOptions& options_;
  TraceOptions step_;
};

}  // namespace

TraceOptions WholeStep(const Model::View& view, const Configuration& c) {
  return {.batch = c.batch,
          .activation_bytes = c.precision->activation_bytes,
          .gradient_bytes = c.precision->gradient_bytes,
          .training = c.training,
          .loss = c.loss,
          .tensor_parallel = c.tensor_parallel,
          .sequence_parallel = c.sequence_parallel,
          .frozen = view.frozen};
}

std::vector<Checkpoint> CheckpointsOf(const Model::View& view,
                                      const Configuration& c) {
  const std::vector<Checkpoint>& blocks = view.blocks.blocks;
  switch (c.checkpoint) {
    case CheckpointKind::kNone:
    case CheckpointKind::kBudget:
      break;
    case CheckpointKind::kSelective:
      return AttentionCores(view.facts);
    case CheckpointKind::kFull:
      return blocks;
    case CheckpointKind::kSqrt: {
      const auto count = static_cast<double>(blocks.size());
      return GroupBlocks(blocks,
                         std::max<int64_t>(1, std::llround(std::sqrt(count))));
    }
    case CheckpointKind::kEvery:
      return GroupBlocks(blocks, c.checkpoint_every);
  }
  return {};
}

absl::StatusOr<Estimate> EvaluateWith(
    const Model::View& view, const Configuration& configuration,
    const EvaluateOptions& options,
    const std::vector<Checkpoint>& checkpoints) {
  return Evaluator(view, configuration, options, checkpoints).Run();
}

absl::StatusOr<const Model::View*> Model::Get(
    const Configuration& configuration) {
  auto& view =
      views_[{configuration.fused_attention, configuration.precision->autocast,
              configuration.tensor_parallel, configuration.change}];
  if (view) return view.get();
  auto made = std::make_unique<View>();
  ASSIGN_OR_RETURN(
      made->facts,
      ExtractFacts(*graph_,
                   {.fused_attention = configuration.fused_attention,
                    .autocast = configuration.precision->autocast,
                    .batch_symbol = batch_symbol_,
                    .tensor_parallel = configuration.tensor_parallel}));
  made->blocks = FindBlocks(made->facts);
  ChangeModel(configuration.change, made.get());
  view = std::move(made);
  return view.get();
}

absl::StatusOr<Estimate> Evaluate(Model* model,
                                  const Configuration& configuration,
                                  const EvaluateOptions& options) {
  ASSIGN_OR_RETURN(const Model::View* view, model->Get(configuration));
  if (configuration.training &&
      configuration.checkpoint == CheckpointKind::kBudget) {
    return EvaluateBudget(*view, configuration, options);
  }
  return EvaluateWith(*view, configuration, options,
                      CheckpointsOf(*view, configuration));
}

absl::StatusOr<bool> Fits(Model* model, const Configuration& configuration,
                          int64_t budget_bytes) {
  // The allocator is asked only where the live peak leaves room.
  for (const bool allocators : {false, true}) {
    const absl::StatusOr<Estimate> estimate =
        Evaluate(model, configuration, {.allocators = allocators});
    if (!estimate.ok()) {
      const bool too_large =
          configuration.checkpoint == CheckpointKind::kBudget &&
          estimate.status().code() == absl::StatusCode::kOutOfRange;
      if (too_large) return false;
      return estimate.status();
    }
    if (estimate->worst().total_bytes > budget_bytes) return false;
  }
  return true;
}

absl::StatusOr<int64_t> LargestThatFits(
    int64_t most, absl::FunctionRef<absl::StatusOr<bool>(int64_t)> fits) {
  int64_t low = 0;
  int64_t high = 1;
  while (high <= most) {
    ASSIGN_OR_RETURN(const bool ok, fits(high));
    if (!ok) break;
    low = high;
    high *= 2;
  }
  while (high - low > 1 && low < most) {
    const int64_t middle = low + (high - low) / 2;
    ASSIGN_OR_RETURN(const bool ok, fits(middle));
    (ok ? low : high) = middle;
  }
  return low;
}

absl::StatusOr<int64_t> LargestBatch(Model* model,
                                     const Configuration& configuration,
                                     int64_t budget_bytes) {
  constexpr int64_t kMostSamples = int64_t{1} << 24;
  Configuration c = configuration;
  return LargestThatFits(kMostSamples, [&](int64_t batch) {
    c.batch = batch;
    return Fits(model, c, budget_bytes);
  });
}

}  // namespace onnx_memopt::estimate
