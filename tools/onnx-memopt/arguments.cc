#include "onnx-memopt/arguments.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "onnx-memopt/command_line.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"
#include "registry.h"

namespace onnx_memopt::cli {
namespace {

// In 80 columns, which the library's own layout does not keep to.
constexpr char kHelp[] =
    R"(Makes ONNX models fit into memory: says what lives when, and writes the
model back so that it needs less.

Usage: onnx-memopt [OPTIONS] MODEL [OUT]
       onnx-memopt COMMAND ...

  MODEL                    an .onnx or .onnxtxt file; - for stdin
  OUT, -o, --output OUT    the rewritten model; - for stdout; if not given,
                           STEM.memopt.onnx beside STEM.onnx

What to do:
  --analyze                report only: run no pass, write no model
  --dim NAME=N             size of a named dimension of the inputs;
                           NAME=N,N,... reports each size
  --input-shape [NAME:]N,N shape of an input, for example x:1,3,224,224 or
                           x:1x3x224x224; of the only input without NAME
  --passes LIST            passes to run, for example drop-dead,reorder{beam=9}
  --list-passes            list the passes with their options
  --max-slowdown PERCENT   by how much a run may take longer for less memory,
                           by the time model (10; with --budget: as much as
                           that takes)
  --budget SIZE            write the fastest model that takes no more than SIZE
                           in ONNX Runtime beside the loaded model, as
                           predicted, for example 512MiB; exit code 3, and the
                           smallest one written, if there is none

Weights outside the model file:
  --external-data MODE     auto       refer to them from the same folder, copy
                                      them to another one (the default)
                           reference  refer to them where they are
                           copy       copy them to OUT.data
                           all        move those in the model to OUT.data too
  --external-dir FOLDER    where they are, if not in the model's folder

Report:
  --json FILE              the report as JSON; - for stdout; if not given,
                           beside OUT
  --html FILE              a page to look at, in one file: memory over the
                           steps, the arena, tables of tensors and nodes
  --trace FILE             Chrome trace events, for Perfetto
  --csv FILE               a table of the tensors
  --dot FILE               the graph with bytes, for Graphviz
  --training               also what training the model would keep for the
                           backward pass, and plans that keep less
  --annotate               write lifetime and bytes of each node's results, and
                           what was done with it, into the model's metadata
  --top N                  tensors to list at the peak (10)
  -q, --quiet              no text report
  -v, --verbose            all warnings and formulas, times of the passes

Gates, for scripts; exit code 3 where one fails:
  --max-peak SIZE          weights, inputs and packed activations together take
                           more than SIZE, for example 2GiB
  --fail-on-growth         the rewritten model has a higher peak or more bytes
                           of weights

Commands, each with its own --help; those not built in are programs
onnx-memopt-COMMAND:
  train MODEL -o STEP      a model of one training step, in standard ONNX ops
  suggest-student MODEL    a smaller network of the same structure, for train
                           --teacher MODEL
  estimate MODEL           how much GPU memory training or serving takes, on
                           which GPU it fits, what to change
  verify BEFORE AFTER      run both models in ONNX Runtime and compare outputs,
                           memory and time; needs Python and onnxruntime
  tensors BEFORE AFTER     say which tensors of a model in 16 bits overflow;
                           needs Python, onnxruntime and onnx
  moments MODEL            what layers see of sample inputs, for the pass
                           factorize; needs Python, onnxruntime and onnx
  diff A.json B.json       what changed between two reports, for reviews

  -h, --help               this text
  --version                the version

Examples:
  onnx-memopt model.onnx                 write model.memopt.onnx and a report
  onnx-memopt model.onnx small.onnx      write small.onnx and small.json
  onnx-memopt model.onnx --analyze       only report
  onnx-memopt model.onnx --html model.html
  onnx-memopt bert.onnx --analyze --dim batch=8 --dim seq=128,512,2048
  onnx-memopt model.onnx --analyze --json - | jq .before.live_peak_bytes
  onnx-memopt model.onnx --analyze --max-peak 512MiB

Exit codes: 0 all went well, 1 the model or a file, 2 usage, 3 a gate or the
budget.
)";

absl::StatusOr<std::vector<int64_t>> ParseSizes(absl::string_view text,
                                                absl::string_view separators,
                                                absl::string_view option) {
  std::vector<int64_t> sizes;
  for (absl::string_view part :
       absl::StrSplit(text, absl::ByAnyChar(separators))) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(part, &size) || size < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          option, ": \"", Printable(part), "\" is not a positive number"));
    }
    sizes.push_back(size);
  }
  return sizes;
}

// "batch=8" or "batch=1,8,32".
absl::Status AddDim(const std::string& text, Options* options) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dim: expected NAME=N, not \"", Printable(text), "\""));
  }
  ASSIGN_OR_RETURN(
      std::vector<int64_t> sizes,
      ParseSizes(absl::string_view(text).substr(equals + 1), ",", "--dim"));
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  options->dims[text.substr(0, equals)] = std::move(sizes);
  return absl::OkStatus();
}

// "NAME:1,3,224,224" or "NAME:1x3x224x224". A name may itself have colons.
// Without a name it begins with a digit.
absl::Status AddInputShape(const std::string& text, Options* options) {
  const size_t colon = text.rfind(':');
  const bool nameless = colon == std::string::npos;
  if (nameless ? text.empty() || !absl::ascii_isdigit(text[0]) : colon == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--input-shape: expected NAME:N,N,... or N,N,..., not \"",
                     Printable(text), "\""));
  }
  const std::string name = nameless ? "" : text.substr(0, colon);
  ASSIGN_OR_RETURN(
      std::vector<int64_t> sizes,
      ParseSizes(absl::string_view(text).substr(nameless ? 0 : colon + 1), ",x",
                 "--input-shape"));
  if (!options->input_shapes.try_emplace(name, std::move(sizes)).second) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--input-shape: two shapes for ",
        nameless ? "the only input"
                 : absl::StrCat("input \"", Printable(name), "\"")));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExternalDataMode> ParseExternalData(absl::string_view text) {
  if (text == "auto") return ExternalDataMode::kAuto;
  if (text == "reference") return ExternalDataMode::kReference;
  if (text == "copy") return ExternalDataMode::kCopy;
  if (text == "all") return ExternalDataMode::kAll;
  return absl::InvalidArgumentError(
      absl::StrCat("--external-data: expected auto, reference, copy or all, "
                   "not \"",
                   Printable(text), "\""));
}

// "dir/model.onnx" -> "dir/model.memopt.onnx"
std::string DefaultOutput(const std::string& model) {
  const size_t slash = model.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = model.rfind('.');
  const bool has_extension = dot != std::string::npos && dot > name;
  const std::string stem = model.substr(0, has_extension ? dot : model.size());
  const std::string extension =
      has_extension && absl::EndsWith(model, ".onnxtxt") ? ".onnxtxt" : ".onnx";
  return absl::StrCat(stem, ".memopt", extension);
}

// The report beside a written model: its name with ".json" as extension.
std::string JsonBeside(const std::string& output) {
  for (absl::string_view extension : {".onnx", ".onnxtxt"}) {
    if (absl::EndsWith(output, extension)) {
      return absl::StrCat(output.substr(0, output.size() - extension.size()),
                          ".json");
    }
  }
  return absl::StrCat(output, ".json");
}

void ListPasses() {
  for (const pass::PassInfo& info : passes::RegisteredPasses()) {
    std::cout << info.name << ": " << info.summary << "\n";
    for (const auto& option : DescribeOptions(info)) {
      std::cout << "  " << option.key << "=" << option.default_text << "  "
                << option.help << "\n";
    }
  }
  std::cout << "\ndefault: " << passes::kDefaultPipeline << "\n";
}

class Parser {
 public:
  Parser() : app_("", "onnx-memopt") {
    app_.set_version_flag("--version",
                          std::string("onnx-memopt " ONNX_MEMOPT_VERSION));
    app_.add_option("MODEL", args_.model);
    app_.add_option("-o,--output,OUT", output_);
    app_.add_flag("--analyze", analyze_);
    app_.add_option("--dim", dims_)->allow_extra_args(false);
    app_.add_option("--input-shape,--input-shapes,--overwrite-input-shape",
                    input_shapes_)
        ->allow_extra_args(false);
    app_.add_option("--passes", args_.options.passes);
    app_.add_flag("--list-passes", list_passes_);
    app_.add_option("--external-data", external_data_);
    app_.add_option("--external-dir", args_.options.external_dir);
    app_.add_option("--json", args_.json);
    app_.add_option("--html", args_.html);
    app_.add_option("--trace", args_.trace);
    app_.add_option("--csv", args_.csv);
    app_.add_option("--dot", args_.dot);
    app_.add_flag("--annotate", args_.options.annotate);
    app_.add_flag("--training", args_.options.training);
    app_.add_option("--top", args_.top);
    app_.add_option("--max-peak", max_peak_);
    app_.add_option("--max-slowdown", max_slowdown_);
    app_.add_option("--budget", budget_);
    app_.add_flag("--fail-on-growth", args_.gates.fail_on_growth);
    app_.add_flag("-q,--quiet", args_.quiet);
    app_.add_flag("-v,--verbose", args_.verbose);
  }

  ParseResult Parse(int argc, char** argv) {
    if (const auto code = ParseCommand(app_, kHelp, argc, argv)) {
      return {.exit_code = code};
    }
    if (list_passes_) {
      ListPasses();
      return {.exit_code = kExitOk};
    }
    const absl::Status status = Finish();
    if (!status.ok()) {
      return {.exit_code = UsageError("onnx-memopt", status.message())};
    }
    return {.arguments = std::move(args_)};
  }

 private:
  absl::Status Finish() {
    if (args_.model.empty()) {
      return absl::InvalidArgumentError("no model is given");
    }
    for (const std::string& dim : dims_) {
      RETURN_IF_ERROR(AddDim(dim, &args_.options));
    }
    for (const std::string& shape : input_shapes_) {
      RETURN_IF_ERROR(AddInputShape(shape, &args_.options));
    }
    if (!max_peak_.empty()) {
      ASSIGN_OR_RETURN(args_.gates.max_peak_bytes, ParseBytes(max_peak_));
    }
    RETURN_IF_ERROR(FinishGoals());
    ASSIGN_OR_RETURN(args_.options.external_data,
                     ParseExternalData(external_data_));
    args_.options.rewrite = !analyze_;
    if (analyze_) {
      if (!output_.empty()) {
        return absl::InvalidArgumentError(
            "--analyze writes no model, so it takes no output");
      }
      if (args_.options.annotate) {
        return absl::InvalidArgumentError(
            "--analyze writes no model, so there is none to annotate");
      }
      return CheckStdout();
    }
    if (output_.empty() && args_.model == "-") {
      return absl::InvalidArgumentError(
          "a model from stdin needs an output: -o FILE, or -o -");
    }
    args_.options.output =
        output_.empty() ? DefaultOutput(args_.model) : output_;
    if (args_.options.output == "-") return CheckStdout();
    if (args_.json.empty()) args_.json = JsonBeside(args_.options.output);
    return CheckStdout();
  }

  absl::Status CheckStdout() const {
    std::vector<absl::string_view> both;
    if (args_.options.output == "-") both.emplace_back("the model");
    if (args_.json == "-") both.emplace_back("the report");
    if (args_.html == "-") both.emplace_back("the page");
    if (args_.trace == "-") both.emplace_back("the trace");
    if (args_.csv == "-") both.emplace_back("the table");
    if (args_.dot == "-") both.emplace_back("the graph");
    if (both.size() < 2) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(both[0], " and ", both[1], " cannot both go to stdout"));
  }

  absl::Status FinishGoals() {
    if (analyze_ && (!max_slowdown_.empty() || !budget_.empty())) {
      return absl::InvalidArgumentError(
          "--analyze rewrites nothing, so it takes neither --budget nor "
          "--max-slowdown");
    }
    if (!max_slowdown_.empty()) {
      double percent = 0;
      if (!absl::SimpleAtod(max_slowdown_, &percent) ||
          !std::isfinite(percent) || percent < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("--max-slowdown: \"", Printable(max_slowdown_),
                         "\" is not a number of per cent from 0 on"));
      }
      args_.options.max_slowdown = percent / 100;
    }
    if (!budget_.empty()) {
      ASSIGN_OR_RETURN(args_.options.budget_bytes, ParseBytes(budget_));
    }
    return absl::OkStatus();
  }

  CLI::App app_;
  Arguments args_;
  std::string output_;
  bool analyze_ = false;
  bool list_passes_ = false;
  std::vector<std::string> dims_;
  std::vector<std::string> input_shapes_;
  std::string max_peak_;
  std::string max_slowdown_;
  std::string budget_;
  std::string external_data_ = "auto";
};

}  // namespace

ParseResult ParseArguments(int argc, char** argv) {
  return Parser().Parse(argc, argv);
}

}  // namespace onnx_memopt::cli
