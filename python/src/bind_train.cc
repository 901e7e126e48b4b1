// train_step and what it reports.

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bindings.h"
#include "errors.h"
#include "interruptible.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/train.h"
#include "text.h"

namespace onnx_memopt::python {
namespace {

namespace nb = nanobind;

std::optional<int64_t> Known(int64_t bytes) {
  return bytes < 0 ? std::nullopt : std::optional(bytes);
}

template <typename Value>
Value Choose(std::initializer_list<std::pair<const char*, Value>> choices,
             const std::string& text, const char* option) {
  std::string names;
  for (const auto& [name, value] : choices) {
    if (text == name) return value;
    absl::StrAppend(&names, names.empty() ? "" : ", ", name);
  }
  RaiseOptionError(absl::StrCat(option, ": expected one of ", names, ", not \"",
                                Printable(text), "\""));
}

void SetLoss(TrainOptions& options, const std::string& text) {
  using grad::Loss;
  options.step.loss = Choose<Loss>({{"cross-entropy", Loss::kCrossEntropy},
                                    {"mse", Loss::kMeanSquaredError},
                                    {"output", Loss::kOutput}},
                                   text, "loss");
}

void SetOptimizer(TrainOptions& options, const std::string& text) {
  using grad::Optimizer;
  options.step.optimizer =
      Choose<Optimizer>({{"sgd", Optimizer::kSgd},
                         {"momentum", Optimizer::kMomentum},
                         {"adam", Optimizer::kAdam},
                         {"adamw", Optimizer::kAdamW},
                         {"none", Optimizer::kNone}},
                        text, "optimizer");
}

void SetCheckpoints(TrainOptions& options, const std::string& text) {
  options.checkpoints =
      Choose<Checkpoints>({{"none", Checkpoints::kNone},
                           {"sqrt", Checkpoints::kSqrt},
                           {"per-layer", Checkpoints::kPerLayer},
                           {"optimal", Checkpoints::kOptimal}},
                          text, "checkpoint");
}

void SetPrecision(TrainOptions& options, const std::string& text) {
  using grad::Precision;
  options.step.precision =
      Choose<Precision>({{"float32", Precision::kFloat32},
                         {"float16", Precision::kFloat16},
                         {"bfloat16", Precision::kBfloat16}},
                        text, "precision");
}

void SetOrder(TrainOptions& options, const std::string& text) {
  options.order = Choose<NodeOrder>(
      {{"default", NodeOrder::kDefault}, {"file", NodeOrder::kFile}}, text,
      "order");
}

void SetSession(TrainOptions& options, const std::string& text) {
  options.session = Choose<StepSession>(
      {{"default", StepSession::kDefault}, {"bare", StepSession::kBare}}, text,
      "session");
}

void SetExternalData(TrainOptions& options, const std::string& text) {
  options.external_data = ParseExternalData(text);
}

// A property of `options.step`.
template <typename Field>
auto Getter(Field grad::StepOptions::* field) {
  return [field](const TrainOptions& options) { return options.step.*field; };
}
template <typename Field>
auto Setter(Field grad::StepOptions::* field) {
  return [field](TrainOptions& options, Field value) {
    options.step.*field = std::move(value);
  };
}

// Named numbers and texts of a distillation; `match` pairs tensors.
void SetDistillation(TrainOptions& options, const std::string& teacher,
                     const std::string& teacher_output,
                     const std::string& soft_output,
                     std::optional<double> temperature, double alpha,
                     const std::map<std::string, std::string>& match,
                     double match_weight) {
  options.teacher = teacher;
  options.step.distillation =
      grad::Distillation{.teacher_output = teacher_output,
                         .soft_output = soft_output,
                         .temperature = temperature,
                         .alpha = alpha,
                         .match = {match.begin(), match.end()},
                         .match_weight = match_weight};
}

void BindOptions(nb::module_& module) {
  using grad::StepOptions;
  nb::class_<TrainOptions> options(module, "TrainOptions",
                                   "What `train_step` is asked.");
  options.def(nb::init<>())
      .def("set_loss", &SetLoss)
      .def("set_optimizer", &SetOptimizer)
      .def("set_checkpoint", &SetCheckpoints)
      .def("set_precision", &SetPrecision)
      .def("set_order", &SetOrder)
      .def("set_session", &SetSession)
      .def("set_external_data", &SetExternalData)
      .def("set_distillation", &SetDistillation, nb::arg("teacher"),
           nb::arg("teacher_output"), nb::arg("soft_output"),
           nb::arg("temperature").none(), nb::arg("alpha"), nb::arg("match"),
           nb::arg("match_weight"))
      .def_rw("loss_file", &TrainOptions::loss_file)
      .def_rw("budget_bytes", &TrainOptions::budget_bytes, nb::arg().none())
      .def_rw("dims", &TrainOptions::dims)
      .def_rw("input_shapes", &TrainOptions::input_shapes)
      .def_rw("batch", &TrainOptions::batch, nb::arg().none())
      .def_rw("output", &TrainOptions::output)
      .def_rw("initial_state", &TrainOptions::initial_state)
      .def_rw("external_dir", &TrainOptions::external_dir);
  const auto step = [&](const char* name, auto field) {
    options.def_prop_rw(name, Getter(field), Setter(field), nb::arg().none());
  };
  step("loss_output", &StepOptions::output);
  step("ignore_index", &StepOptions::ignore_index);
  step("momentum", &StepOptions::momentum);
  step("nesterov", &StepOptions::nesterov);
  step("beta1", &StepOptions::beta1);
  step("beta2", &StepOptions::beta2);
  step("epsilon", &StepOptions::epsilon);
  step("weight_decay", &StepOptions::weight_decay);
  step("clip_norm", &StepOptions::clip_norm);
  step("clip_value", &StepOptions::clip_value);
  step("train", &StepOptions::train);
  step("freeze", &StepOptions::freeze);
  step("gradients", &StepOptions::gradients);
  step("accumulate", &StepOptions::accumulate);
  step("loss_scale", &StepOptions::loss_scale);
  step("loss_scale_steps", &StepOptions::loss_scale_steps);
}

}  // namespace

void BindTrain(nb::module_& module) {
  using grad::RecomputedSegment;
  BindOptions(module);
  nb::class_<RecomputedSegment>(
      module, "RecomputedSegment",
      "A part of the forward pass that the backward pass makes again.")
      .def_prop_ro("first", Text(&RecomputedSegment::first))
      .def_prop_ro("last", Text(&RecomputedSegment::last))
      .def_ro("nodes", &RecomputedSegment::nodes)
      .def_ro("bytes", &RecomputedSegment::bytes)
      .def_ro("seconds", &RecomputedSegment::seconds);
  nb::class_<BudgetPoint>(module, "BudgetPoint",
                          "A point of the curve of budget against added time.")
      .def_ro("peak_bytes", &BudgetPoint::peak_bytes)
      .def_ro("added_time", &BudgetPoint::added_time);
  nb::class_<TrainResult>(
      module, "TrainReport",
      "What a training step holds and takes. Bytes are None where a size is "
      "unknown.")
      .def_ro("parameters", &TrainResult::parameters, "Tensors.")
      .def_ro("parameter_elements", &TrainResult::parameter_elements)
      .def_ro("parameter_bytes", &TrainResult::parameter_bytes)
      .def_ro("state_bytes", &TrainResult::state_bytes)
      .def_ro("micro_batches", &TrainResult::micro_batches, "In a step.")
      .def_prop_ro(
          "saved_bytes",
          [](const TrainResult& r) { return Known(r.saved_bytes); },
          "Of the forward pass for the backward one.")
      .def_prop_ro(
          "session",
          [](const TrainResult& r) {
            return r.session == StepSession::kBare ? "bare" : "default";
          },
          "What the peaks are predicted for.")
      .def_ro("forward_nodes", &TrainResult::forward_nodes)
      .def_ro("nodes", &TrainResult::nodes)
      .def_ro("teacher_nodes", &TrainResult::teacher_nodes,
              "0: there is no teacher.")
      .def_ro("teacher_bytes", &TrainResult::teacher_bytes, "Of its weights.")
      .def_prop_ro(
          "peak_first_bytes",
          [](const TrainResult& r) { return Known(r.peak_first_bytes); },
          "Predicted for ONNX Runtime above the loaded session, first run.")
      .def_prop_ro(
          "peak_steady_bytes",
          [](const TrainResult& r) { return Known(r.peak_steady_bytes); },
          "The same from the second run on.")
      .def_ro("segments", &TrainResult::segments)
      .def_ro("overhead", &TrainResult::overhead,
              "Added time of the segments, as a part of the step's.")
      .def_ro("curve", &TrainResult::curve)
      .def_prop_ro("frozen", Text(&TrainResult::frozen))
      .def_prop_ro("notes", Text(&TrainResult::notes))
      .def_prop_ro("outputs", Text(&TrainResult::outputs),
                   "Files that were written.")
      .def("__repr__", [](const TrainResult& r) {
        const auto text = [](int64_t bytes) {
          return bytes < 0 ? std::string("unknown") : FormatBytes(bytes);
        };
        return ToPython(
            absl::StrCat("<onnx_memopt.TrainReport: ", r.parameters,
                         " parameters, ", FormatBytes(r.parameter_bytes),
                         "; saved for backward ", text(r.saved_bytes),
                         "; predicted peak ", text(r.peak_steady_bytes), ">"));
      });
  module.def(
      "train_step",
      [](const std::string& path, TrainOptions options,
         const nb::object& progress) {
        return ValueOrRaise(RunInterruptible<TrainResult>(
            progress, [path, options = std::move(options)](
                          const ReportPhase& phase) mutable {
              options.progress = phase;
              return Train(path, options);
            }));
      },
      nb::arg("path"), nb::arg("options"), nb::arg("progress").none(),
      "Writes the training step of a model file.");
}

}  // namespace onnx_memopt::python
