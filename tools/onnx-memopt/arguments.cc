#include "onnx-memopt/arguments.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"
#include "registry.h"

namespace onnx_memopt::cli {
namespace {

constexpr char kExamples[] = R"(Examples:
  onnx-memopt model.onnx                      write model.memopt.onnx and a report
  onnx-memopt model.onnx -o small.onnx        write small.onnx
  onnx-memopt model.onnx --analyze            only report
  onnx-memopt bert.onnx --analyze --dim batch=8 --dim seq=128,512,2048
  onnx-memopt model.onnx --analyze --json - | jq .before.live_peak_bytes
  onnx-memopt model.onnx --analyze --max-peak 512MiB     exit 3 if it needs more

Exit codes: 0 ok, 1 the model or a file, 2 usage, 3 a gate (--max-peak,
--fail-on-growth) failed.)";

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
absl::Status AddInputShape(const std::string& text, Options* options) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--input-shape: expected NAME:D,D,..., not \"", Printable(text), "\""));
  }
  ASSIGN_OR_RETURN(options->input_shapes[text.substr(0, colon)],
                   ParseSizes(absl::string_view(text).substr(colon + 1), ",x",
                              "--input-shape"));
  return absl::OkStatus();
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
  Parser() : app_("Makes ONNX models fit into memory.", "onnx-memopt") {
    app_.footer(kExamples);
    app_.set_version_flag("--version",
                          std::string("onnx-memopt " ONNX_MEMOPT_VERSION));
    app_.add_option("MODEL", args_.model,
                    "an .onnx or .onnxtxt file, or - for stdin");
    app_.add_option("-o,--output,OUT", output_,
                    "the rewritten model; - for stdout "
                    "[MODEL-stem.memopt.onnx]");
    app_.add_flag("--analyze", analyze_, "report only; write no model");
    app_.add_option("--dim", dims_,
                    "NAME=N binds a named dimension; NAME=N,N,... reports "
                    "each")
        ->allow_extra_args(false);
    app_.add_option("--input-shape,--input-shapes,--overwrite-input-shape",
                    input_shapes_, "NAME:D,D,... sets an input's shape")
        ->allow_extra_args(false);
    app_.add_option("--passes", args_.options.passes,
                    "the pipeline, for example drop-dead,reorder{beam=128}");
    app_.add_flag("--list-passes", list_passes_, "list the passes, and end");
    app_.add_option("--external-data", external_data_,
                    "weights outside the model file: auto, reference, copy, "
                    "all")
        ->transform(
            CLI::CheckedTransformer(std::map<std::string, ExternalDataMode>{
                {"auto", ExternalDataMode::kAuto},
                {"reference", ExternalDataMode::kReference},
                {"copy", ExternalDataMode::kCopy},
                {"all", ExternalDataMode::kAll}}))
        // In place of the mapping above as CLI11 prints it.
        ->option_text("MODE");
    app_.add_option("--external-dir", args_.options.external_dir,
                    "folder of the external data [the model's]");
    app_.add_option("--json", args_.json,
                    "the report as JSON; - for stdout [beside the output]");
    app_.add_option("--top", args_.top, "tensors listed at the peak [10]");
    app_.add_option("--max-peak", max_peak_,
                    "fail if weights, inputs and packed activations together "
                    "take more, for example 2GiB");
    app_.add_flag("--fail-on-growth", args_.fail_on_growth,
                  "fail if the packed peak is higher after the passes");
    app_.add_flag("-q,--quiet", args_.quiet, "no text report");
    app_.add_flag("-v,--verbose", args_.verbose,
                  "all warnings, times of the passes");
  }

  ParseResult Parse(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
      if (e.get_exit_code() == 0) {  // --help, --version
        app_.exit(e);
        return {.exit_code = kExitOk};
      }
      return Usage(e.what());
    }
    if (list_passes_) {
      ListPasses();
      return {.exit_code = kExitOk};
    }
    const absl::Status status = Finish();
    if (!status.ok()) return Usage(status.message());
    return {.arguments = std::move(args_)};
  }

 private:
  static ParseResult Usage(absl::string_view message) {
    std::cerr << "error: " << Printable(message)
              << "; see onnx-memopt --help\n";
    return {.exit_code = kExitUsage};
  }

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
      ASSIGN_OR_RETURN(args_.max_peak_bytes, ParseBytes(max_peak_));
    }
    args_.options.external_data = external_data_;
    args_.options.rewrite = !analyze_;
    if (analyze_) {
      if (!output_.empty()) {
        return absl::InvalidArgumentError(
            "--analyze writes no model, so it takes no output");
      }
      return absl::OkStatus();
    }
    if (output_.empty() && args_.model == "-") {
      return absl::InvalidArgumentError(
          "a model from stdin needs an output: -o FILE, or -o -");
    }
    args_.options.output =
        output_.empty() ? DefaultOutput(args_.model) : output_;
    if (args_.options.output == "-") {
      if (args_.json == "-") {
        return absl::InvalidArgumentError(
            "the model and the report cannot both go to stdout");
      }
      return absl::OkStatus();
    }
    if (args_.json.empty()) args_.json = JsonBeside(args_.options.output);
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
  ExternalDataMode external_data_ = ExternalDataMode::kAuto;
};

}  // namespace

ParseResult ParseArguments(int argc, char** argv) {
  return Parser().Parse(argc, argv);
}

}  // namespace onnx_memopt::cli
