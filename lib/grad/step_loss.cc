#include "grad/step_loss.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

using ir::kNoValue;
using ir::ValueId;

// That of the DistilBERT paper and of many examples.
constexpr double kDefaultTemperature = 2;

absl::StatusOr<LossValue> HardLoss(const StepOptions& options,
                                   const LossOperands& operands,
                                   const LossWeight& weight,
                                   rewrite::Emitter& e) {
  switch (options.loss) {
    case Loss::kCrossEntropy:
      return CrossEntropy(e, operands.output, operands.target,
                          options.ignore_index, weight);
    case Loss::kMeanSquaredError:
      return MeanSquaredError(e, operands.output, operands.target, weight);
    case Loss::kOutput:
      break;
  }
  return OutputAsLoss(e, operands.output, weight);
}

absl::StatusOr<LossValue> SoftLoss(const StepOptions& options,
                                   const LossOperands& operands,
                                   const LossWeight& weight,
                                   rewrite::Emitter& e) {
  const auto [student, teacher] = operands.compared.output;
  if (options.loss == Loss::kMeanSquaredError) {
    return MeanSquaredError(e, student, e.Cast(teacher, e.element(student)),
                            weight);
  }
  // Of the student's output the classes must be known.
  RETURN_IF_ERROR(ClassTargets(e.type(student)).status());
  return SoftCrossEntropy(
      e, student, teacher, operands.target, options.ignore_index,
      options.distillation->temperature.value_or(kDefaultTemperature), weight);
}

class Terms {
 public:
  Terms(const LossWeight& weight, rewrite::Emitter* e)
      : weight_(weight), e_(*e) {}

  // The weight of a term of which this is the part.
  LossWeight Weight(double part) const {
    LossWeight weight = weight_;
    weight.factor *= part;
    return weight;
  }

  // In this order: a runtime that goes depth first from the last node runs the
  // operands of the last term first.
  void Add(const LossValue& term, double part, ValueId of) {
    loss_.seeds.push_back({of, term.gradient});
    if (term.count != kNoValue) loss_.count = term.count;
    const ValueId share = part == 1 ? term.loss : e_.Mul(term.loss, part);
    loss_.loss =
        loss_.loss == kNoValue
            ? share
            : e_.Add(loss_.loss, e_.Cast(share, e_.element(loss_.loss)));
  }

  StepLoss Take() { return std::move(loss_); }

 private:
  const LossWeight& weight_;
  rewrite::Emitter& e_;
  StepLoss loss_;
};

}  // namespace

bool HasHardLoss(const StepOptions& options) {
  return !options.distillation || options.distillation->alpha < 1;
}

bool HasTarget(const StepOptions& options) {
  if (options.loss == Loss::kOutput) return false;
  return HasHardLoss(options) || (options.loss == Loss::kCrossEntropy &&
                                  options.ignore_index.has_value());
}

std::vector<ValueId*> MutableOutputs(LossOperands* operands) {
  std::vector<ValueId*> outputs = {&operands->output};
  if (operands->compared.output.student != kNoValue) {
    outputs.push_back(&operands->compared.output.student);
  }
  for (Comparison& pair : operands->compared.features) {
    outputs.push_back(&pair.student);
  }
  return outputs;
}

std::vector<ValueId> LossOutputs(const StepOptions& options,
                                 const LossOperands& operands) {
  LossOperands copy = operands;
  std::vector<ValueId> outputs;
  for (const ValueId* output : MutableOutputs(&copy)) {
    if (output != &copy.output || HasHardLoss(options)) {
      outputs.push_back(*output);
    }
  }
  return outputs;
}

absl::Status CheckDistillation(const StepOptions& options) {
  if (!options.distillation) return absl::OkStatus();
  const Distillation& d = *options.distillation;
  const auto out_of_range = [](absl::string_view option, double value,
                               absl::string_view expected) {
    return absl::OutOfRangeError(
        absl::StrCat(option, ": ", value, " is not ", expected));
  };
  if (d.temperature && !(std::isfinite(*d.temperature) && *d.temperature > 0)) {
    return out_of_range("--temperature", *d.temperature, "above 0");
  }
  if (!(d.alpha >= 0 && d.alpha <= 1)) {
    return out_of_range("--alpha", d.alpha, "from 0 to 1");
  }
  if (!(std::isfinite(d.match_weight) && d.match_weight > 0)) {
    return out_of_range("--match-weight", d.match_weight, "above 0");
  }
  if (d.alpha == 0 && d.match.empty()) {
    return absl::OutOfRangeError(
        "--alpha 0 leaves nothing to the teacher: give --match, or no teacher");
  }
  if (d.temperature && options.loss == Loss::kMeanSquaredError) {
    return absl::OutOfRangeError(
        "--temperature is for distributions of classes, and --loss mse has "
        "none");
  }
  if (!d.match.empty() && options.ignore_index && options.accumulate > 1) {
    return absl::OutOfRangeError(
        "--match with --ignore-index and --accumulate: a mean over the targets "
        "that count has no weight for features");
  }
  return absl::OkStatus();
}

absl::StatusOr<StepLoss> BuildLoss(const StepOptions& options,
                                   const LossOperands& operands,
                                   const LossWeight& weight,
                                   rewrite::Emitter& e) {
  const Distillation none = {.alpha = 0};
  const Distillation& d = options.distillation ? *options.distillation : none;
  Terms terms(weight, &e);
  if (HasHardLoss(options)) {
    const double part = 1 - d.alpha;
    ASSIGN_OR_RETURN(const LossValue hard,
                     HardLoss(options, operands, terms.Weight(part), e));
    terms.Add(hard, part, operands.output);
  }
  for (const auto& [student, teacher] : operands.compared.features) {
    const ValueId target = e.Cast(teacher, e.element(student));
    ASSIGN_OR_RETURN(
        const LossValue match,
        MeanSquaredError(e, student, target, terms.Weight(d.match_weight)));
    terms.Add(match, d.match_weight, student);
  }
  if (d.alpha > 0) {
    ASSIGN_OR_RETURN(const LossValue soft,
                     SoftLoss(options, operands, terms.Weight(d.alpha), e));
    terms.Add(soft, d.alpha, operands.compared.output.student);
  }
  return terms.Take();
}

}  // namespace onnx_memopt::grad
