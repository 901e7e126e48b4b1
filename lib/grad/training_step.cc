#include "onnx_memopt/grad/training_step.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "grad/loss_scaling.h"
#include "grad/losses.h"
#include "grad/lower_dropout.h"
#include "grad/lower_model.h"
#include "grad/lower_pooling.h"
#include "grad/lower_precision.h"
#include "grad/step_loss.h"
#include "grad/teacher.h"
#include "grad/updates.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/grad/activity.h"
#include "onnx_memopt/grad/differentiate.h"
#include "onnx_memopt/rewrite/emitter.h"
#include "onnx_memopt/rewrite/inline_calls.h"
#include "onnx_memopt/rewrite/raise_opset.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

using ir::ElementType;
using ir::NodeId;
using ir::ValueId;
using rewrite::Emitter;

bool MatchesAny(const std::string& name,
                const std::vector<std::string>& patterns) {
  return std::any_of(
      patterns.begin(), patterns.end(),
      [&](const std::string& p) { return MatchesPattern(name, p); });
}

class StepBuilder {
 public:
  StepBuilder(const StepOptions& options, ir::Graph* graph)
      : options_(options),
        graph_(*graph),
        builder_(graph),
        e_(&builder_, ir::kMainBlock) {}

  absl::StatusOr<StepInfo> Run() {
    RETURN_IF_ERROR(CheckDistillation(options_));
    if (options_.distillation) {
      ASSIGN_OR_RETURN(info_.teacher,
                       TakeTeacher(*options_.distillation, &graph_));
    }
    LowerModel(builder_);
    ASSIGN_OR_RETURN(operands_.output, FindOutput());
    if (options_.distillation) {
      ASSIGN_OR_RETURN(
          operands_.compared,
          FindComparisons(options_, operands_.output, info_.teacher, graph_));
    }
    RETURN_IF_ERROR(ChooseParameters());
    RETURN_IF_ERROR(
        CheckFeatures(operands_.compared, info_.parameters, graph_));
    const std::vector<ValueId> data = main().params;
    for (ValueId parameter : info_.parameters) MakeInput(parameter);
    RETURN_IF_ERROR(TakeStatistics());
    RETURN_IF_ERROR(AddInputs());
    if (options_.accumulate > 1) RETURN_IF_ERROR(ChooseBatched(data));
    RETURN_IF_ERROR(AddSeed());
    if (options_.precision != Precision::kFloat32) {
      RETURN_IF_ERROR(CheckMasterWeights());
      const ElementType half = options_.precision == Precision::kFloat16
                                   ? ElementType::kFloat16
                                   : ElementType::kBfloat16;
      LowerPrecision(half, info_.parameters, MutableOutputs(&operands_),
                     builder_);
    }
    LowerPooling(info_.parameters, builder_);
    DescribeSaved();
    info_.forward_nodes = graph_.num_nodes();
    RETURN_IF_ERROR(AddLoss());
    RETURN_IF_ERROR(AddBackward());
    RETURN_IF_ERROR(Finish());
    return std::move(info_);
  }

 private:
  ir::Block& main() { return graph_.mutable_block(ir::kMainBlock); }
  const std::string& name(ValueId id) const { return graph_.value(id).name; }

  absl::StatusOr<ValueId> FindOutput() {
    std::vector<std::string> names;
    std::vector<ValueId> floats;
    for (ValueId result : main().results) {
      names.push_back(absl::StrCat("\"", Printable(name(result)), "\""));
      if (!options_.output.empty() && name(result) == options_.output) {
        return result;
      }
      if (HasGradient(graph_.value(result).type)) floats.push_back(result);
    }
    if (!options_.output.empty()) {
      return absl::OutOfRangeError(
          absl::StrCat("the model has no output \"", Printable(options_.output),
                       "\"; it has ", absl::StrJoin(names, ", ")));
    }
    if (floats.size() == 1) return floats.front();
    if (floats.empty()) {
      return absl::InvalidArgumentError(
          "no output is of a floating-point type, so there is no loss");
    }
    return absl::OutOfRangeError(absl::StrCat(
        "the model has several outputs; say which one the loss is of with "
        "--loss-output: ",
        absl::StrJoin(names, ", ")));
  }

  absl::Status ChooseParameters() {
    std::vector<std::string> left_out;
    const std::vector<ValueId> candidates =
        Trainable(graph_, LossOutputs(options_, operands_), &left_out);
    std::set<ValueId> chosen(candidates.begin(), candidates.end());
    std::vector<ValueId> all;
    for (ValueId id : main().initializers) {
      const bool is_teachers =
          options_.distillation &&
          absl::StartsWith(name(id), options_.distillation->prefix);
      if (!is_teachers && HasGradient(graph_.value(id).type)) all.push_back(id);
    }
    for (const auto* patterns : {&options_.train, &options_.freeze}) {
      for (const std::string& pattern : *patterns) {
        const bool any = std::any_of(all.begin(), all.end(), [&](ValueId id) {
          return MatchesPattern(name(id), pattern);
        });
        if (!any) {
          return absl::OutOfRangeError(
              absl::StrCat("no weight matches \"", Printable(pattern), "\""));
        }
      }
    }
    for (ValueId id : all) {
      if (MatchesAny(name(id), options_.train)) chosen.insert(id);
      if (chosen.contains(id) && MatchesAny(name(id), options_.freeze)) {
        chosen.erase(id);
        info_.frozen.push_back(name(id));
      }
    }
    for (ValueId id : all) {
      if (chosen.contains(id)) info_.parameters.push_back(id);
    }
    for (const std::string& line : left_out) {
      info_.notes.push_back(absl::StrCat("not trained: ", line));
    }
    if (info_.parameters.empty()) {
      return absl::InvalidArgumentError(
          "no weight can be trained: none of a floating-point type has a "
          "gradient");
    }
    for (ValueId id : info_.parameters) {
      info_.parameter_bytes +=
          graph_.weight(graph_.value(id).weight).size_bytes;
    }
    return absl::OkStatus();
  }

  void DescribeSaved() {
    const Activity activity = Activity::Compute(
        graph_, info_.parameters, LossOutputs(options_, operands_));
    std::set<ValueId> saved;
    for (NodeId id : main().nodes) {
      for (ValueId value : SavedForBackward(graph_, id, activity).values) {
        const ir::ValueKind kind = graph_.value(value).kind;
        if (kind == ir::ValueKind::kResult) saved.insert(value);
      }
    }
    info_.saving_nodes = saved.size();
    int64_t bytes = 0;
    for (ValueId value : saved) {
      const std::optional<ir::Dim> size = SizeBytes(graph_.value(value).type);
      const std::optional<int64_t> number =
          size ? size->Evaluate(graph_.assumed) : std::optional<int64_t>();
      if (!number) return;
      bytes += *number;
    }
    info_.saved_bytes = bytes;
  }

  // From an initializer to an input of the main graph.
  void MakeInput(ValueId id) {
    ir::Value& value = graph_.mutable_value(id);
    value.kind = ir::ValueKind::kInput;
    value.overridable = false;
    value.contents = nullptr;
    info_.initial[id] = std::exchange(value.weight, ir::kNoWeight);
    std::erase(main().initializers, id);
    main().params.push_back(id);
  }

  // The running statistics of BatchNormalization in training mode.
  absl::Status TakeStatistics() {
    bool fixed = false;
    const std::vector<NodeId> nodes = main().nodes;
    for (NodeId id : nodes) {
      const ir::Node node = graph_.node(id);
      if (node.op_type != "BatchNormalization" || !node.domain.empty()) {
        continue;
      }
      if (ir::IntAttribute(node, "training_mode", 0) == 0) {
        fixed = true;
        continue;
      }
      for (size_t i = 1; i <= 2; ++i) {
        const ValueId statistic = node.operands[i + 2];
        if (graph_.value(statistic).kind != ir::ValueKind::kInitializer) {
          continue;
        }
        MakeInput(statistic);
        ValueId next = i < node.results.size() ? node.results[i] : ir::kNoValue;
        if (next == ir::kNoValue) {
          next = builder_.Value(ir::kMainBlock, graph_.value(statistic).type,
                                absl::StrCat(name(statistic), ".next"));
          graph_.mutable_value(next).producer = id;
          auto& results = graph_.mutable_node(id).results;
          results.resize(std::max(results.size(), i + 1), ir::kNoValue);
          results[i] = next;
        }
        graph_.mutable_value(next).type =
            ir::Type(graph_.value(statistic).type);
        info_.statistics.push_back(statistic);
        info_.moved_statistics.emplace_back(statistic, next);
      }
    }
    if (fixed) {
      info_.notes.emplace_back(
          "BatchNormalization runs with fixed statistics, as it was exported; "
          "export in training mode to train with those of the batch");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> AddInput(const std::string& wanted, ir::Type type) {
    RETURN_IF_ERROR(FreeName(wanted));
    const ValueId id = builder_.Value(ir::kMainBlock, std::move(type), wanted,
                                      ir::ValueKind::kInput);
    // The builder knows names that were just given up as taken.
    graph_.mutable_value(id).name = wanted;
    main().params.push_back(id);
    return id;
  }

  // What the step calls `wanted` must not be called so by the model.
  absl::Status FreeName(const std::string& wanted) {
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      const ValueId id{static_cast<uint32_t>(i)};
      ir::Value& value = graph_.mutable_value(id);
      if (value.name != wanted) continue;
      if (value.kind == ir::ValueKind::kInput ||
          value.kind == ir::ValueKind::kInitializer) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the model has an input or weight \"", Printable(wanted),
            "\", a name that a training step uses itself"));
      }
      value.name = builder_.UniqueName(absl::StrCat(wanted, "/forward"));
    }
    return absl::OkStatus();
  }

  absl::Status AddInputs() {
    if (HasTarget(options_)) {
      ir::Type target = graph_.value(operands_.output).type;
      if (options_.loss == Loss::kCrossEntropy) {
        ASSIGN_OR_RETURN(target, ClassTargets(target));
      }
      ASSIGN_OR_RETURN(operands_.target, AddInput("target", std::move(target)));
    }
    ASSIGN_OR_RETURN(
        learning_rate_,
        AddInput("learning_rate",
                 ir::Type::Tensor(ElementType::kFloat, ir::Shape())));
    ASSIGN_OR_RETURN(
        step_,
        AddInput("step", ir::Type::Tensor(ElementType::kInt64, ir::Shape())));
    if (options_.precision == Precision::kFloat16) {
      ir::Type scale = ir::Type::Tensor(ElementType::kFloat, ir::Shape());
      ir::Type steps = ir::Type::Tensor(ElementType::kInt64, ir::Shape());
      ASSIGN_OR_RETURN(const ValueId loss_scale,
                       AddInput("loss_scale", std::move(scale)));
      ASSIGN_OR_RETURN(const ValueId good_steps,
                       AddInput("good_steps", std::move(steps)));
      scaling_ = LossScaling(loss_scale, good_steps);
      info_.has_loss_scale = true;
    }
    for (ValueId parameter : info_.parameters) {
      for (const std::string& suffix : StateSuffixes(options_.optimizer)) {
        const std::string state = absl::StrCat(name(parameter), ".", suffix);
        ir::Type type = graph_.value(parameter).type;
        ASSIGN_OR_RETURN(const ValueId id, AddInput(state, std::move(type)));
        states_[parameter].push_back(id);
        info_.states.push_back({state, name(parameter)});
      }
      info_.state_bytes +=
          graph_.weight(info_.initial.lookup(parameter)).size_bytes *
          static_cast<int64_t>(StateSuffixes(options_.optimizer).size());
    }
    return absl::OkStatus();
  }

  static bool HasAxes(const ir::Type& type) {
    return type.is_tensor() && type.shape && !type.shape->empty();
  }

  // Which inputs hold all micro-batches: those as long as the first one, or a
  // multiple of it, along their first axis; and the target.
  absl::Status ChooseBatched(const std::vector<ValueId>& data) {
    std::optional<ir::Dim> batch;
    std::vector<std::string> shared;
    for (ValueId input : data) {
      const ir::Type& type = graph_.value(input).type;
      std::optional<ir::Dim> extent;
      if (HasAxes(type)) extent = type.shape->front();
      if (extent && !batch && *extent != ir::Dim(0)) batch = extent;
      if (extent && batch && ir::DivideExact(*extent, *batch)) {
        info_.batched.push_back(input);
      } else {
        shared.push_back(absl::StrCat("\"", Printable(name(input)), "\""));
      }
    }
    if (!batch) {
      return absl::InvalidArgumentError(
          "no input has a first axis of known extent to split into "
          "micro-batches");
    }
    const ValueId target = operands_.target;
    if (target != ir::kNoValue && HasAxes(graph_.value(target).type)) {
      info_.batched.push_back(target);
    }
    if (!shared.empty()) {
      info_.notes.push_back(
          absl::StrCat("not split, the same for all micro-batches: ",
                       absl::StrJoin(shared, ", ")));
    }
    if (!info_.statistics.empty()) {
      info_.notes.push_back(absl::StrCat(
          "BatchNormalization takes the statistics of each micro-batch by "
          "itself, and its running statistics move ",
          options_.accumulate, " times a step"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckMasterWeights() const {
    for (ValueId id : info_.parameters) {
      if (e_.element(id) == ElementType::kFloat) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "mixed precision needs weights in float32; \"", Printable(name(id)),
          "\" is ", ir::ToString(graph_.value(id).type)));
    }
    return absl::OkStatus();
  }

  absl::Status AddSeed() {
    if (!HasTrainingDropout(graph_)) return absl::OkStatus();
    ASSIGN_OR_RETURN(
        const ValueId seed,
        AddInput("seed", ir::Type::Tensor(ElementType::kInt64, ir::Shape())));
    info_.has_seed = true;
    if (options_.accumulate > 1) {
      info_.micro_batch =
          builder_.Int64(ir::kMainBlock, "micro_batch/number", 0);
    }
    LowerDropout({seed, step_, info_.micro_batch}, builder_);
    return absl::OkStatus();
  }

  absl::Status AddLoss() {
    e_.set_prefix("loss");
    e_.set_zero(e_.Op("Sub", {step_, step_}));
    LossWeight weight = {.scale = scaling_.scale()};
    weight.sum = options_.accumulate > 1 && options_.ignore_index;
    if (options_.accumulate > 1 && !weight.sum) {
      weight.factor = 1 / static_cast<double>(options_.accumulate);
    }
    ASSIGN_OR_RETURN(loss_, BuildLoss(options_, operands_, weight, e_));
    const size_t after = e_.nodes().size();
    ValueId loss = loss_.loss;
    if (options_.accumulate > 1) {
      info_.sums = {{.value = loss}};
      if (loss_.count == ir::kNoValue) {
        loss = e_.Mul(loss, weight.factor);
      } else {
        info_.sums.push_back({.value = loss_.count});
        loss = e_.Mul(loss, OneOverCount());
      }
    }
    info_.loss = loss;
    results_.push_back({"loss", loss});
    MarkAfter(after);
    return absl::OkStatus();
  }

  // 1 over the number of targets of all micro-batches.
  ValueId OneOverCount() {
    if (one_over_count_ == ir::kNoValue) {
      one_over_count_ =
          e_.Op("Reciprocal",
                {e_.Op("Max", {loss_.count, e_.RealLike(1, loss_.count)})});
    }
    return one_over_count_;
  }

  // What was emitted since then runs after the last micro-batch.
  void MarkAfter(size_t begin) {
    info_.after.insert(info_.after.end(),
                       e_.nodes().begin() + static_cast<std::ptrdiff_t>(begin),
                       e_.nodes().end());
  }

  absl::Status AddBackward() {
    updates_.emplace(&e_, options_, learning_rate_, step_);
    DifferentiateOptions backward;
    backward.wanted = info_.parameters;
    backward.seeds = loss_.seeds;
    backward.ready = [&](ValueId parameter, ValueId gradient) {
      const size_t begin = e_.nodes().size();
      const absl::Status status = TakeGradient(parameter, gradient);
      MarkAfter(begin);
      return status;
    };
    RETURN_IF_ERROR(Differentiate(e_, backward));
    const size_t begin = e_.nodes().size();
    RETURN_IF_ERROR(UpdateHeld());
    e_.set_prefix("step");
    results_.push_back(
        {"step.next",
         scaling_.IfFinite(e_, e_.Op("Add", {step_, e_.Int(1)}), step_)});
    for (const auto& [statistic, next] : info_.moved_statistics) {
      results_.push_back({absl::StrCat(name(statistic), ".next"), next});
    }
    if (scaling_.is_on()) {
      const LossScaling::Next next = scaling_.Update(e_, options_);
      results_.push_back({"loss_scale.next", next.scale});
      results_.push_back({"good_steps.next", next.good_steps});
    }
    MarkAfter(begin);
    return absl::OkStatus();
  }

  absl::Status TakeGradient(ValueId parameter, ValueId gradient) {
    if (gradient == ir::kNoValue) {
      return absl::InvalidArgumentError(absl::StrCat("no gradient reaches \"",
                                                     Printable(name(parameter)),
                                                     "\"; freeze it"));
    }
    e_.set_prefix(absl::StrCat("update/", name(parameter)));
    if (options_.accumulate > 1) {
      info_.sums.push_back({.value = gradient, .start = parameter});
    }
    if (loss_.count != ir::kNoValue) {
      gradient =
          e_.Mul(gradient, e_.Cast(OneOverCount(), e_.element(gradient)));
    }
    gradient = ClipValue(scaling_.Unscale(e_, gradient));
    if (!options_.clip_norm && !scaling_.is_on()) {
      return Update(parameter, gradient);
    }
    const ValueId square =
        e_.Cast(e_.ReduceSum(e_.Square(gradient), AllAxes(gradient), false),
                ElementType::kFloat);
    norm_ = norm_ == ir::kNoValue ? square : e_.Add(norm_, square);
    held_.emplace_back(parameter, gradient);
    return absl::OkStatus();
  }

  // Those that waited for the norm of all gradients.
  absl::Status UpdateHeld() {
    if (held_.empty()) return absl::OkStatus();
    scaling_.Check(e_, norm_);
    ValueId scale = ir::kNoValue;
    if (options_.clip_norm) {
      e_.set_prefix("clip");
      // As PyTorch does: a small number keeps a zero norm from dividing.
      scale = e_.Op("Min",
                    {e_.Real(1, ElementType::kFloat),
                     e_.Div(e_.Real(*options_.clip_norm, ElementType::kFloat),
                            e_.Add(e_.Sqrt(norm_), 1e-6))});
    }
    for (auto [parameter, gradient] : held_) {
      e_.set_prefix(absl::StrCat("update/", name(parameter)));
      if (scale != ir::kNoValue) {
        gradient = e_.Mul(gradient, e_.Cast(scale, e_.element(gradient)));
      }
      RETURN_IF_ERROR(Update(parameter, gradient));
    }
    return absl::OkStatus();
  }

  Emitter::Axes AllAxes(ValueId value) {
    Emitter::Axes axes;
    const ir::Shape* shape = e_.shape(value);
    for (size_t i = 0; shape != nullptr && i < shape->size(); ++i) {
      axes.push_back(static_cast<int64_t>(i));
    }
    return axes;
  }

  ValueId ClipValue(ValueId gradient) {
    if (!options_.clip_value) return gradient;
    return e_.Op("Clip",
                 {gradient, e_.RealLike(-*options_.clip_value, gradient),
                  e_.RealLike(*options_.clip_value, gradient)});
  }

  absl::Status Update(ValueId parameter, ValueId gradient) {
    if (options_.optimizer == Optimizer::kNone || options_.gradients) {
      // A gradient that several parameters share needs a name for each.
      if (named_.contains(gradient)) gradient = e_.Op("Identity", {gradient});
      named_.insert(gradient);
      results_.push_back({absl::StrCat(name(parameter), ".grad"), gradient});
    }
    if (options_.optimizer == Optimizer::kNone) return absl::OkStatus();
    const std::vector<ValueId>& states = states_[parameter];
    const Updates::Next next = updates_->Update(parameter, gradient, states);
    results_.push_back({absl::StrCat(name(parameter), ".next"),
                        scaling_.IfFinite(e_, next.parameter, parameter)});
    for (size_t i = 0; i < next.states.size(); ++i) {
      results_.push_back({absl::StrCat(name(states[i]), ".next"),
                          scaling_.IfFinite(e_, next.states[i], states[i])});
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    const size_t begin = e_.nodes().size();
    std::vector<ValueId> results;
    for (Result& result : results_) {
      const ir::Value& value = graph_.value(result.value);
      const bool computed = value.kind == ir::ValueKind::kResult;
      // A gradient may be an operand's own gradient passed through unchanged,
      // such as the input "target"; an output has a name and bytes of its own.
      if (!computed || renamed_.contains(result.value)) {
        result.value = e_.Op("Identity", {result.value});
      }
      renamed_.insert(result.value);
      if (name(result.value) != result.name) {
        RETURN_IF_ERROR(FreeName(result.name));
        graph_.mutable_value(result.value).name = result.name;
      }
      results.push_back(result.value);
    }
    MarkAfter(begin);
    std::vector<NodeId>& schedule = main().nodes;
    schedule.insert(schedule.end(), e_.nodes().begin(), e_.nodes().end());
    PutTeacherFirst(&info_.teacher, &graph_);
    main().results = std::move(results);
    return ir::Verify(graph_);
  }

  struct Result {
    std::string name;
    ValueId value;
  };

  const StepOptions& options_;
  ir::Graph& graph_;
  rewrite::Builder builder_;
  Emitter e_;
  StepInfo info_;
  LossOperands operands_ = {ir::kNoValue};
  ValueId learning_rate_ = ir::kNoValue;
  ValueId step_ = ir::kNoValue;
  StepLoss loss_;
  ValueId norm_ = ir::kNoValue;
  std::optional<Updates> updates_;
  llvm::DenseMap<ValueId, std::vector<ValueId>> states_;
  ValueId one_over_count_ = ir::kNoValue;
  LossScaling scaling_;
  std::vector<std::pair<ValueId, ValueId>> held_;
  std::set<ValueId> named_;
  std::set<ValueId> renamed_;
  std::vector<Result> results_;
};

}  // namespace

absl::StatusOr<StepInfo> BuildTrainingStep(const StepOptions& options,
                                           ir::Graph* graph) {
  // Calls that have to stay are an error if a gradient reaches them.
  rewrite::InlineCalls(graph);
  // For ScatterElements that adds.
  RETURN_IF_ERROR(rewrite::RaiseOpsetTo16(graph));
  return StepBuilder(options, graph).Run();
}

}  // namespace onnx_memopt::grad
