#include "onnx-memopt/train_command.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "onnx-memopt/arguments.h"
#include "onnx-memopt/command_line.h"
#include "onnx-memopt/train_html.h"
#include "onnx-memopt/write_text.h"
#include "onnx_memopt/report/html.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"
#include "onnx_memopt/train.h"

namespace onnx_memopt::cli {
namespace {

// In 80 columns, as the main program's.
constexpr char kHelp[] =
    R"(Makes a model of one training step from a forward model: loss, gradients and
updates in standard ONNX ops.

Usage: onnx-memopt train [OPTIONS] MODEL -o STEP

  MODEL                    an .onnx or .onnxtxt file with its weights; - for
                           stdin
  -o, --output STEP        the step model; - for stdout
  --initial-state FILE     also write what the step begins with: parameters and
                           states, as a model of initializers

Loss:
  --loss LOSS              cross-entropy  mean over all positions, classes on
                                          the output's last axis (the default)
                           mse            mean squared difference
                           output         the output is the loss
                           FILE.onnx      a model of the loss: its inputs are
                                          outputs of the model, and others,
                                          which become inputs of the step
  --loss-output NAME       the output that it is of, if there are several
  --ignore-index N         class that the mean leaves out

Distillation:
  --teacher FILE           a trained model whose outputs the student learns; its
                           forward pass is part of the step, without gradients:
                           A * T^2 * KL(teacher/T || student/T) + (1 - A) * LOSS
  --temperature T          softens both distributions (2); not with mse, which
                           compares the outputs themselves
  --alpha A                the teacher's part of the loss, 0 to 1 (0.5); with 1
                           there is no target
  --match OURS=THEIRS      adds the mean squared difference between a tensor of
                           the student and one of the teacher; may be repeated
  --match-weight X         of these terms (1)
  --teacher-output NAME    what the teacher says, if it has several outputs
  --soft-output NAME       what it is compared with, if not --loss-output

Optimizer:
  --optimizer NAME         sgd (the default), momentum, adam, adamw, or none:
                           gradients only
  --momentum X             of momentum (0.9)
  --nesterov               momentum in Nesterov's form
  --beta1 X, --beta2 X     of adam and adamw (0.9, 0.999)
  --epsilon X              of adam and adamw (1e-8)
  --weight-decay X         adamw: beside the gradient; else added to it (0)
  --clip-norm X            gradients are scaled to at most this norm
  --clip-value X           each element is cut to [-X, X]
  --gradients              gradients are outputs too: PARAMETER.grad

Parameters: all weights of a floating-point type that a gradient reaches, but
for scalars and tables of frequencies.
  --freeze PATTERN         leave out weights by name; * and ? are wildcards
  --train PATTERN          add what is left out by default

Memory:
  --checkpoint MODE        which values of the forward pass are kept; others
                           are made again when the backward pass needs them
                           none       all are kept (the default)
                           sqrt       about sqrt(n) segments
                           per-layer  each repeated module of the exporter
                                      keeps what it reads
                           optimal    the least added time within the budget
  --budget SIZE            what the step may take above the loaded session in
                           ONNX Runtime, as predicted, for example 4GiB; means
                           --checkpoint optimal
  --session OPTIONS        the session that the step is planned for:
                           default  options as they come
                           bare     without arena and memory pattern: far less
                                    memory, some time; Trainer opens it so
  --accumulate K           K micro-batches in a step, one after the other: the
                           model's batch is one of them, the step's inputs hold
                           K along their first axis, and the updates are those
                           of the mean gradient
  --precision TYPE         float32  as the model is (the default)
                           float16  16 bits but for ops that need more, with
                                    float32 weights and a loss scale
                           bfloat16 the same without a scale; ONNX Runtime has
                                    no CPU kernels for it
  --loss-scale X           what float16 begins with (65536)
  --loss-scale-steps N     steps without overflow until it doubles (2000)
  --emit-torch-plan FILE   the modules to wrap in torch.utils.checkpoint for
                           about the same plan, as JSON; - for stdout
  --json FILE              what is printed, as JSON; - for stdout
  --html FILE              a page to look at: the step's memory, what is made
                           again, the plans that are possible

Sizes:
  --batch N                samples in a step: the size of the inputs' first
                           dimension, which has to have a name
  --dim NAME=N             binds a named dimension of the inputs for good
  --input-shape NAME:N,N   the same for an input

Output:
  --order ORDER            the order of nodes in the file:
                           default  for ONNX Runtime's default order
                           file     for runtimes that go by the file
  --external-data MODE     as of onnx-memopt: auto, reference, copy, all
  --external-dir FOLDER    where external data is, if not in the model's folder
  -q, --quiet              print nothing
  -h, --help               this text

The step's inputs are those of the model, target, learning_rate, step, each
parameter by its name and each state as PARAMETER.momentum and so on; its
outputs are loss and, for each of them, NAME.next. Feed these back.

Exit codes: 0 all went well, 1 the model or a file, 2 usage.
)";

// More than anyone trains with.
constexpr int64_t kMaxMicroBatches = int64_t{1} << 20;

struct TrainArguments {
  std::string model;
  TrainOptions options;
  std::string json;        // a path, "-", or empty: none
  std::string torch_plan;  // the same
  std::string html;        // a path, or empty: none
  bool quiet = false;
};

template <typename Value>
absl::StatusOr<Value> Choose(const std::map<std::string, Value>& choices,
                             const std::string& text,
                             absl::string_view option) {
  const auto it = choices.find(text);
  if (it != choices.end()) return it->second;
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const auto& [name, value] : choices) names.push_back(name);
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": expected one of ", absl::StrJoin(names, ", "),
                   ", not \"", Printable(text), "\""));
}

class Parser {
 public:
  Parser() : app_("", "onnx-memopt train") {
    grad::StepOptions& step = args_.options.step;
    app_.add_option("MODEL", args_.model)->required();
    app_.add_option("-o,--output", args_.options.output)->required();
    app_.add_option("--initial-state", args_.options.initial_state);
    app_.add_option("--loss", loss_);
    app_.add_option("--loss-output", step.output);
    app_.add_option("--ignore-index", step.ignore_index);
    app_.add_option("--teacher", args_.options.teacher);
    for (CLI::Option* option :
         {app_.add_option("--temperature", distillation_.temperature),
          app_.add_option("--alpha", distillation_.alpha),
          app_.add_option("--match", matches_)->allow_extra_args(false),
          app_.add_option("--match-weight", distillation_.match_weight),
          app_.add_option("--teacher-output", distillation_.teacher_output),
          app_.add_option("--soft-output", distillation_.soft_output)}) {
      of_teacher_.push_back(option);
    }
    app_.add_option("--optimizer", optimizer_);
    app_.add_option("--momentum", step.momentum);
    app_.add_flag("--nesterov", step.nesterov);
    app_.add_option("--beta1", step.beta1);
    app_.add_option("--beta2", step.beta2);
    app_.add_option("--epsilon", step.epsilon);
    app_.add_option("--weight-decay", step.weight_decay);
    app_.add_option("--clip-norm", step.clip_norm);
    app_.add_option("--clip-value", step.clip_value);
    app_.add_flag("--gradients", step.gradients);
    app_.add_option("--freeze", step.freeze)->allow_extra_args(false);
    app_.add_option("--train", step.train)->allow_extra_args(false);
    app_.add_option("--batch", batch_);
    app_.add_option("--dim", dims_)->allow_extra_args(false);
    app_.add_option("--input-shape", input_shapes_)->allow_extra_args(false);
    app_.add_option("--checkpoint", checkpoint_);
    app_.add_option("--budget", budget_);
    app_.add_option("--session", session_);
    app_.add_option("--accumulate", step.accumulate);
    app_.add_option("--precision", precision_);
    app_.add_option("--loss-scale", step.loss_scale);
    app_.add_option("--loss-scale-steps", step.loss_scale_steps);
    app_.add_option("--emit-torch-plan", args_.torch_plan);
    app_.add_option("--json", args_.json);
    app_.add_option("--html", args_.html);
    app_.add_option("--order", order_);
    app_.add_option("--external-data", external_data_);
    app_.add_option("--external-dir", args_.options.external_dir);
    app_.add_flag("-q,--quiet", args_.quiet);
  }

  // The exit code if the program is to end here.
  std::optional<int> Parse(int argc, char** argv) {
    if (const auto code = ParseCommand(app_, kHelp, argc, argv)) return code;
    const absl::Status status = Finish();
    if (status.ok()) return std::nullopt;
    return UsageError("onnx-memopt train", status.message());
  }

  TrainArguments Take() { return std::move(args_); }

 private:
  absl::Status Finish() {
    using grad::Loss;
    using grad::Optimizer;
    TrainOptions& options = args_.options;
    if (absl::EndsWith(loss_, ".onnx") || absl::EndsWith(loss_, ".onnxtxt")) {
      options.loss_file = loss_;
    } else {
      ASSIGN_OR_RETURN(options.step.loss,
                       Choose<Loss>({{"cross-entropy", Loss::kCrossEntropy},
                                     {"mse", Loss::kMeanSquaredError},
                                     {"output", Loss::kOutput}},
                                    loss_, "--loss"));
    }
    ASSIGN_OR_RETURN(options.step.optimizer,
                     Choose<Optimizer>({{"none", Optimizer::kNone},
                                        {"sgd", Optimizer::kSgd},
                                        {"momentum", Optimizer::kMomentum},
                                        {"adam", Optimizer::kAdam},
                                        {"adamw", Optimizer::kAdamW}},
                                       optimizer_, "--optimizer"));
    ASSIGN_OR_RETURN(
        options.step.precision,
        Choose<grad::Precision>({{"float32", grad::Precision::kFloat32},
                                 {"float16", grad::Precision::kFloat16},
                                 {"bfloat16", grad::Precision::kBfloat16}},
                                precision_, "--precision"));
    ASSIGN_OR_RETURN(options.order,
                     Choose<NodeOrder>({{"default", NodeOrder::kDefault},
                                        {"file", NodeOrder::kFile}},
                                       order_, "--order"));
    ASSIGN_OR_RETURN(options.session,
                     Choose<StepSession>({{"default", StepSession::kDefault},
                                          {"bare", StepSession::kBare}},
                                         session_, "--session"));
    ASSIGN_OR_RETURN(
        options.external_data,
        Choose<ExternalDataMode>({{"auto", ExternalDataMode::kAuto},
                                  {"reference", ExternalDataMode::kReference},
                                  {"copy", ExternalDataMode::kCopy},
                                  {"all", ExternalDataMode::kAll}},
                                 external_data_, "--external-data"));
    if (!budget_.empty()) {
      ASSIGN_OR_RETURN(options.budget_bytes, ParseBytes(budget_));
      if (checkpoint_.empty()) checkpoint_ = "optimal";
      if (checkpoint_ != "optimal") {
        return absl::InvalidArgumentError(
            "--budget needs --checkpoint optimal");
      }
    }
    ASSIGN_OR_RETURN(
        options.checkpoints,
        Choose<Checkpoints>({{"none", Checkpoints::kNone},
                             {"sqrt", Checkpoints::kSqrt},
                             {"per-layer", Checkpoints::kPerLayer},
                             {"optimal", Checkpoints::kOptimal}},
                            checkpoint_.empty() ? "none" : checkpoint_,
                            "--checkpoint"));
    if (!args_.torch_plan.empty() &&
        options.checkpoints == Checkpoints::kNone) {
      return absl::InvalidArgumentError(
          "--emit-torch-plan needs --checkpoint or --budget");
    }
    if (!batch_.empty()) {
      ASSIGN_OR_RETURN(options.batch, ParseCount("--batch", batch_));
    }
    RETURN_IF_ERROR(FinishTeacher());
    for (const std::string& dim : dims_) {
      RETURN_IF_ERROR(AddNamedSize(dim, &args_.options.dims));
    }
    for (const std::string& shape : input_shapes_) {
      RETURN_IF_ERROR(AddInputShape(shape));
    }
    const int to_stdout = static_cast<int>(options.output == "-") +
                          static_cast<int>(options.initial_state == "-") +
                          static_cast<int>(args_.json == "-") +
                          static_cast<int>(args_.torch_plan == "-");
    if (to_stdout > 1) {
      return absl::InvalidArgumentError("only one output can go to stdout");
    }
    if (!args_.html.empty()) {
      if (options.output == "-" || args_.html == "-") {
        return absl::InvalidArgumentError(
            "--html needs files for the step and for the page");
      }
      RETURN_IF_ERROR(CheckPage());
    }
    return CheckNumbers(options.step);
  }

  absl::Status FinishTeacher() {
    for (const std::string& match : matches_) {
      const size_t sign = match.find('=');
      if (sign == 0 || sign == std::string::npos || sign + 1 == match.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--match: expected STUDENT=TEACHER, not \"",
                         Printable(match), "\""));
      }
      distillation_.match.emplace_back(match.substr(0, sign),
                                       match.substr(sign + 1));
    }
    if (!args_.options.teacher.empty()) {
      args_.options.step.distillation = distillation_;
      return absl::OkStatus();
    }
    for (const CLI::Option* option : of_teacher_) {
      if (option->count() == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(option->get_name(), " needs --teacher"));
    }
    return absl::OkStatus();
  }

  static absl::Status CheckNumbers(const grad::StepOptions& step) {
    const auto check = [](double value, bool in_range,
                          absl::string_view option) {
      if (in_range && std::isfinite(value)) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": ", value, " is out of range"));
    };
    const auto fraction = [](double x) { return x >= 0 && x < 1; };
    RETURN_IF_ERROR(check(step.momentum, step.momentum >= 0, "--momentum"));
    RETURN_IF_ERROR(check(step.beta1, fraction(step.beta1), "--beta1"));
    RETURN_IF_ERROR(check(step.beta2, fraction(step.beta2), "--beta2"));
    RETURN_IF_ERROR(check(step.epsilon, step.epsilon >= 0, "--epsilon"));
    RETURN_IF_ERROR(
        check(step.weight_decay, step.weight_decay >= 0, "--weight-decay"));
    RETURN_IF_ERROR(
        check(static_cast<double>(step.accumulate),
              step.accumulate >= 1 && step.accumulate <= kMaxMicroBatches,
              "--accumulate"));
    RETURN_IF_ERROR(check(step.loss_scale,
                          step.loss_scale >= 1 && step.loss_scale <= 1e30,
                          "--loss-scale"));
    RETURN_IF_ERROR(check(static_cast<double>(step.loss_scale_steps),
                          step.loss_scale_steps >= 1, "--loss-scale-steps"));
    const double norm = step.clip_norm.value_or(1);
    RETURN_IF_ERROR(check(norm, norm > 0, "--clip-norm"));
    const double value = step.clip_value.value_or(1);
    return check(value, value > 0, "--clip-value");
  }

  absl::Status AddInputShape(const std::string& text) {
    const size_t colon = text.rfind(':');
    const std::string name =
        colon == std::string::npos ? "" : text.substr(0, colon);
    const std::string list =
        colon == std::string::npos ? text : text.substr(colon + 1);
    std::vector<int64_t> sizes;
    for (absl::string_view part : absl::StrSplit(list, absl::ByAnyChar(",x"))) {
      int64_t size = 0;
      if (!absl::SimpleAtoi(part, &size) || size < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("--input-shape: expected NAME:N,N,..., not \"",
                         Printable(text), "\""));
      }
      sizes.push_back(size);
    }
    args_.options.input_shapes[name] = std::move(sizes);
    return absl::OkStatus();
  }

  CLI::App app_;
  TrainArguments args_;
  std::string loss_ = "cross-entropy";
  std::string optimizer_ = "sgd";
  std::string checkpoint_;
  std::string batch_;
  std::string budget_;
  std::string precision_ = "float32";
  std::string order_ = "default";
  std::string session_ = "default";
  std::string external_data_ = "auto";
  std::vector<std::string> dims_;
  std::vector<std::string> input_shapes_;
  grad::Distillation distillation_;
  std::vector<std::string> matches_;
  std::vector<const CLI::Option*> of_teacher_;
};

// Of a long list the first are printed; the JSON has all.
constexpr size_t kMaxPrinted = 20;

void PrintCheckpoints(const TrainResult& result, std::ostream& out) {
  if (result.segments.empty()) return;
  int64_t kept = 0;
  for (const grad::KeptValue& value : result.kept) kept += value.bytes;
  out << "checkpoints " << result.kept.size() << " values, "
      << FormatBytes(kept) << "\n";
  for (size_t i = 0; i < result.segments.size(); ++i) {
    if (i == kMaxPrinted) {
      out << "... and " << result.segments.size() - i << " more\n";
      break;
    }
    const grad::RecomputedSegment& segment = result.segments[i];
    out << "recomputed: " << segment.nodes
        << (segment.nodes == 1 ? " node" : " nodes") << " from \""
        << Printable(segment.first) << "\" to \"" << Printable(segment.last)
        << "\", " << FormatBytes(segment.bytes) << " not kept";
    if (!segment.modules.empty()) {
      out << ", in " << Printable(absl::StrJoin(segment.modules, ", "));
    }
    out << "\n";
  }
  out << "added time  " << absl::StrFormat("%.1f %%", 100 * result.overhead)
      << ", as modelled\n";
}

void Print(const TrainResult& result, std::ostream& out) {
  out << "parameters  " << result.parameters << " tensors, "
      << FormatCount(result.parameter_elements) << " elements, "
      << FormatBytes(result.parameter_bytes) << "\n"
      << "states      " << FormatBytes(result.state_bytes) << "\n"
      << (result.teacher_nodes > 0
              ? absl::StrCat("teacher     ", result.teacher_nodes,
                             " nodes, weights ",
                             FormatBytes(result.teacher_bytes), "\n")
              : "")
      << "saved for backward  "
      << (result.saved_bytes < 0 ? "unknown: a size is not known; give --dim"
                                 : FormatBytes(result.saved_bytes))
      << "\n"
      << (result.micro_batches > 1
              ? absl::StrCat("micro-batches  ", result.micro_batches,
                             " a step; the sums of their gradients take ",
                             FormatBytes(2 * result.parameter_bytes), "\n")
              : "")
      << "nodes       " << result.nodes << ", " << result.forward_nodes
      << " in the forward model\n";
  if (result.peak_first_bytes >= 0) {
    out << "predicted in ONNX Runtime  first run "
        << FormatBytes(result.peak_first_bytes) << ", then "
        << FormatBytes(result.peak_steady_bytes)
        << (result.session == StepSession::kBare
                ? ", without arena and memory pattern"
                : "")
        << "\n";
  }
  PrintCheckpoints(result, out);
  for (const BudgetPoint& point : result.curve) {
    out << "possible    " << FormatBytes(point.peak_bytes) << " at "
        << absl::StrFormat("%.1f %%", 100 * point.added_time)
        << " added time\n";
  }
  for (const std::string& name : result.frozen) {
    out << "frozen: \"" << Printable(name) << "\"\n";
  }
  for (const std::string& note : result.notes) out << "note: " << note << "\n";
  for (const std::string& file : result.outputs) {
    out << "wrote " << Printable(file) << "\n";
  }
}

std::string ToJson(const TrainResult& result) {
  nlohmann::ordered_json json;
  json["parameters"] = {{"tensors", result.parameters},
                        {"elements", result.parameter_elements},
                        {"bytes", result.parameter_bytes}};
  json["state_bytes"] = result.state_bytes;
  json["micro_batches"] = result.micro_batches;
  if (result.teacher_nodes > 0) {
    json["teacher"] = {{"nodes", result.teacher_nodes},
                       {"weight_bytes", result.teacher_bytes}};
  }
  const auto known = [](int64_t bytes) {
    return bytes < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(bytes);
  };
  json["saved_for_backward_bytes"] = known(result.saved_bytes);
  json["nodes"] = result.nodes;
  json["forward_nodes"] = result.forward_nodes;
  json["predicted"] = {{"peak_first_bytes", known(result.peak_first_bytes)},
                       {"peak_steady_bytes", known(result.peak_steady_bytes)}};
  const bool is_bare = result.session == StepSession::kBare;
  json["session"] = {{"enable_cpu_mem_arena", !is_bare},
                     {"enable_mem_pattern", !is_bare}};
  json["recomputed"] = nlohmann::ordered_json::array();
  for (const grad::RecomputedSegment& segment : result.segments) {
    json["recomputed"].push_back({{"first", segment.first},
                                  {"last", segment.last},
                                  {"nodes", segment.nodes},
                                  {"bytes", segment.bytes},
                                  {"seconds", segment.seconds},
                                  {"modules", segment.modules}});
  }
  json["kept"] = nlohmann::ordered_json::array();
  for (const grad::KeptValue& value : result.kept) {
    json["kept"].push_back({{"name", value.name},
                            {"module", value.module},
                            {"bytes", value.bytes}});
  }
  json["added_time"] = result.overhead;
  json["curve"] = nlohmann::ordered_json::array();
  for (const BudgetPoint& point : result.curve) {
    json["curve"].push_back(
        {{"peak_bytes", point.peak_bytes}, {"added_time", point.added_time}});
  }
  json["frozen"] = result.frozen;
  json["notes"] = result.notes;
  json["outputs"] = result.outputs;
  return json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

// It counts among the files that were written.
absl::Status WriteHtml(const std::string& path, const std::string& step,
                       TrainResult& result) {
  result.outputs.push_back(path);
  ASSIGN_OR_RETURN(const std::string html, TrainToHtml(result, step));
  return WriteText(path, html);
}

std::string TorchPlan(const TrainResult& result) {
  nlohmann::ordered_json json;
  json["format"] = "onnx-memopt torch plan";
  json["version"] = 1;
  json["peak_bytes"] =
      std::max(result.peak_first_bytes, result.peak_steady_bytes);
  json["added_time"] = result.overhead;
  json["modules"] = nlohmann::ordered_json::array();
  for (const grad::WrappedModule& wrapped : result.wrapped) {
    json["modules"].push_back({{"module", wrapped.module},
                               {"bytes", wrapped.bytes},
                               {"nodes", wrapped.nodes}});
  }
  return json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace

int RunTrain(int argc, char** argv) {
  Parser parser;
  if (const auto code = parser.Parse(argc, argv)) return *code;
  const TrainArguments arguments = parser.Take();
  absl::StatusOr<TrainResult> result =
      Train(arguments.model, arguments.options);
  if (!result.ok()) return ReportError(result.status());
  if (!arguments.json.empty()) {
    const absl::Status status = WriteText(arguments.json, ToJson(*result));
    if (!status.ok()) {
      std::cerr << "error: " << status.message() << "\n";
      return kExitModelError;
    }
  }
  if (!arguments.html.empty()) {
    const absl::Status status =
        WriteHtml(arguments.html, arguments.options.output, *result);
    if (!status.ok()) {
      std::cerr << "error: " << status.message() << "\n";
      return kExitModelError;
    }
  }
  if (!arguments.torch_plan.empty()) {
    const absl::Status status =
        WriteText(arguments.torch_plan, TorchPlan(*result));
    if (!status.ok()) {
      std::cerr << "error: " << status.message() << "\n";
      return kExitModelError;
    }
  }
  const bool to_stdout = arguments.json == "-" || arguments.torch_plan == "-" ||
                         arguments.options.output == "-" ||
                         arguments.options.initial_state == "-";
  if (!arguments.quiet) Print(*result, to_stdout ? std::cerr : std::cout);
  return kExitOk;
}

}  // namespace onnx_memopt::cli
