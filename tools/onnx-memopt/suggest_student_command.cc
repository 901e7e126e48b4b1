#include "onnx-memopt/suggest_student_command.h"

#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "onnx-memopt/arguments.h"
#include "onnx-memopt/command_line.h"
#include "onnx-memopt/write_text.h"
#include "onnx_memopt/suggest_student.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::cli {
namespace {

constexpr char kHelp[] =
    R"(Proposes a smaller network of the same structure, untrained: fewer of its
repeated blocks, and narrower ones. "train STUDENT --teacher MODEL" trains it.

Usage: onnx-memopt suggest-student [OPTIONS] MODEL [-o STUDENT]

  MODEL                    an .onnx or .onnxtxt file; - for stdin
  -o, --output STUDENT     the student; - for stdout. If not given, only its size
                           is said

Size:
  --layers N               of each run of equal blocks at most N are kept
  --layers-ratio R         or this part of them: 0.5, if nothing else is given
  --width R                hidden width, heads, channels, above 0 and at most 1;
                           a head keeps its size, and inputs and outputs theirs
  --narrow-output NAME     this output may be narrower, too; may be repeated
  --seed N                 of the weights (0)

Estimates, of training with Adam in PyTorch:
  --batch N                samples at a time
  --dim NAME=N             size of a named dimension of the inputs

Output:
  --json FILE              what is printed, as JSON; - for stdout
  --external-dir FOLDER    where external data is, if not in the model's folder
  -q, --quiet              print nothing
  -h, --help               this text

Exit codes: 0 all went well, 1 the model or a file, 2 usage, or a width that an
operator of the model does not let change.
)";

struct SuggestArguments {
  std::string model;
  StudentOptions options;
  std::string json;  // a path, "-", or empty: none
  bool quiet = false;
};

std::string Known(const std::optional<int64_t>& bytes) {
  return bytes ? FormatBytes(*bytes) : std::string("unknown");
}

void Print(const StudentResult& result, std::ostream& out) {
  for (const StudentLayers& layers : result.layers) {
    out << "layers      " << layers.before << " -> " << layers.after
        << ", blocks of " << layers.nodes << " nodes from \""
        << Printable(layers.first_node) << "\" on\n";
  }
  for (const StudentWidth& width : result.widths) {
    out << "width       " << width.from << " -> " << width.to << ", in "
        << width.weights
        << (width.weights == 1 ? " axis of a weight\n" : " axes of weights\n");
  }
  const auto row = [&](absl::string_view what, absl::string_view model,
                       absl::string_view student) {
    out << absl::StrFormat("%-30s %12s %12s\n", what, model, student);
  };
  const StudentMemory& a = result.teacher;
  const StudentMemory& b = result.student;
  row("", "model", "student");
  row("parameters", FormatCount(a.parameters), FormatCount(b.parameters));
  row("bytes of parameters", FormatBytes(a.parameter_bytes),
      FormatBytes(b.parameter_bytes));
  row(absl::StrCat("training, Adam, batch ", result.batch),
      Known(a.training_bytes), Known(b.training_bytes));
  row("  saved activations", Known(a.saved_activation_bytes),
      Known(b.saved_activation_bytes));
  for (const std::string& note : result.notes) out << "note: " << note << "\n";
  for (const std::string& file : result.outputs) {
    out << "wrote " << Printable(file) << "\n";
  }
}

nlohmann::ordered_json ToJson(const StudentMemory& memory) {
  const auto known = [](const std::optional<int64_t>& bytes) {
    return bytes ? nlohmann::ordered_json(*bytes) : nlohmann::ordered_json();
  };
  return {{"parameters", memory.parameters},
          {"parameter_bytes", memory.parameter_bytes},
          {"training_bytes", known(memory.training_bytes)},
          {"saved_activation_bytes", known(memory.saved_activation_bytes)}};
}

std::string ToJson(const StudentResult& result) {
  nlohmann::ordered_json json;
  json["layers"] = nlohmann::ordered_json::array();
  for (const StudentLayers& layers : result.layers) {
    json["layers"].push_back({{"first_node", layers.first_node},
                              {"nodes", layers.nodes},
                              {"before", layers.before},
                              {"after", layers.after}});
  }
  json["widths"] = nlohmann::ordered_json::array();
  for (const StudentWidth& width : result.widths) {
    json["widths"].push_back(
        {{"from", width.from}, {"to", width.to}, {"weights", width.weights}});
  }
  json["batch"] = result.batch;
  json["model"] = ToJson(result.teacher);
  json["student"] = ToJson(result.student);
  json["notes"] = result.notes;
  json["outputs"] = result.outputs;
  return json.dump(2, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace

int RunSuggestStudent(int argc, char** argv) {
  SuggestArguments arguments;
  StudentOptions& options = arguments.options;
  std::vector<std::string> dims;
  CLI::App app("", "onnx-memopt suggest-student");
  app.add_option("MODEL", arguments.model)->required();
  app.add_option("-o,--output", options.output);
  app.add_option("--layers", options.layers);
  app.add_option("--layers-ratio", options.layers_ratio);
  app.add_option("--width", options.width);
  app.add_option("--narrow-output", options.narrow_outputs)
      ->allow_extra_args(false);
  app.add_option("--seed", options.seed);
  app.add_option("--batch", options.batch);
  app.add_option("--dim", dims)->allow_extra_args(false);
  app.add_option("--json", arguments.json);
  app.add_option("--external-dir", options.external_dir);
  app.add_flag("-q,--quiet", arguments.quiet);
  if (const auto code = ParseCommand(app, kHelp, argc, argv)) return *code;
  for (const std::string& dim : dims) {
    const absl::Status status = AddNamedSize(dim, &options.dims);
    if (!status.ok()) {
      return UsageError("onnx-memopt suggest-student", status.message());
    }
  }
  if (arguments.json == "-" && options.output == "-") {
    return UsageError("onnx-memopt suggest-student",
                      "only one output can go to stdout");
  }
  const absl::StatusOr<StudentResult> result =
      SuggestStudent(arguments.model, options);
  if (!result.ok()) return ReportError(result.status());
  if (!arguments.json.empty()) {
    const absl::Status status = WriteText(arguments.json, ToJson(*result));
    if (!status.ok()) return ReportError(status);
  }
  const bool to_stdout = arguments.json == "-" || options.output == "-";
  if (!arguments.quiet) Print(*result, to_stdout ? std::cerr : std::cout);
  return kExitOk;
}

}  // namespace onnx_memopt::cli
