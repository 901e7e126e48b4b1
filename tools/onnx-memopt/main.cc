// onnx-memopt: the command line. It only reads arguments, calls the library and
// prints; `onnx-memopt --help` says what it does.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "onnx-memopt/arguments.h"
#include "onnx-memopt/command_line.h"
#include "onnx-memopt/commands.h"
#include "onnx-memopt/extensions.h"
#include "onnx-memopt/write_text.h"
#include "onnx_memopt/optimize.h"
#include "onnx_memopt/report/csv.h"
#include "onnx_memopt/report/dot.h"
#include "onnx_memopt/report/gates.h"
#include "onnx_memopt/report/html.h"
#include "onnx_memopt/report/json.h"
#include "onnx_memopt/report/text.h"
#include "onnx_memopt/report/trace.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::cli {
namespace {

// One line on a terminal that says what is being done; it is gone when the
// report comes.
class ProgressLine {
 public:
  explicit ProgressLine(bool enabled)
      : enabled_(enabled && isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() { Clear(); }

  void Show(const std::string& phase) {
    if (enabled_) std::cerr << "\r\x1b[K" << phase << " ..." << std::flush;
  }
  void Clear() {
    if (enabled_) std::cerr << "\r\x1b[K" << std::flush;
  }

 private:
  bool enabled_;
};

// A form of the report, and where it goes.
struct Form {
  std::string path;  // empty: it is not asked for
  absl::StatusOr<std::string> (*text)(const Report&);
};

std::vector<Form> FormsOf(const Arguments& arguments) {
  return {
      {arguments.json,
       [](const Report& report) -> absl::StatusOr<std::string> {
         return ReportToJson(report, ONNX_MEMOPT_VERSION);
       }},
      {arguments.html,
       [](const Report& report) {
         return ReportToHtml(report, ONNX_MEMOPT_VERSION);
       }},
      {arguments.trace,
       [](const Report& report) -> absl::StatusOr<std::string> {
         return ReportToTrace(report);
       }},
      {arguments.csv,
       [](const Report& report) -> absl::StatusOr<std::string> {
         return TensorsToCsv(report);
       }},
      {arguments.dot,
       [](const Report& report) -> absl::StatusOr<std::string> {
         return ReportToDot(report);
       }},
  };
}

// Each form has the names of all of them.
absl::Status WriteForms(const std::vector<Form>& forms, Report* report) {
  for (const Form& form : forms) {
    if (!form.path.empty() && form.path != "-") {
      report->outputs.push_back(form.path);
    }
  }
  for (const Form& form : forms) {
    if (form.path.empty()) continue;
    ASSIGN_OR_RETURN(const std::string text, form.text(*report));
    RETURN_IF_ERROR(WriteText(form.path, text));
  }
  return absl::OkStatus();
}

// For a shell.
std::string Quoted(const std::string& text) {
  const bool is_plain =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return absl::ascii_isalnum(c) ||
               std::string_view("./_-=+,:@%").find(c) != std::string_view::npos;
      });
  if (is_plain) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// How to check what was written; empty where that takes files that there are
// not.
std::string VerifyHint(const Arguments& arguments, const Report& report) {
  const std::string& output = arguments.options.output;
  if (!report.after || arguments.model == "-" || output == "-") return "";
  std::string hint = absl::StrCat("check it: onnx-memopt verify ",
                                  Quoted(arguments.model), " ", Quoted(output));
  for (const ReportDim& dim : report.dims) {
    // INPUT[INDEX] is this program's name for a dimension that has none.
    if (dim.assumed || absl::EndsWith(dim.name, "]")) continue;
    absl::StrAppend(&hint, " --dim ",
                    Quoted(absl::StrCat(dim.name, "=", dim.value)));
  }
  return hint;
}

int CheckGates(const Gates& gates, const Report& report) {
  const std::vector<std::string> failed = FailedGates(report, gates);
  for (const std::string& reason : failed) {
    std::cerr << "gate failed: " << reason << "\n";
  }
  return failed.empty() ? kExitOk : kExitGateFailed;
}

int Main(int argc, char** argv) {
  if (const std::optional<int> code = RunCommand(argc, argv)) return *code;
  if (const std::optional<int> code = RunExtension(argc, argv)) return *code;
  ParseResult parsed = ParseArguments(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  Arguments& arguments = parsed.arguments;
  // What cannot be written is said before the model is read.
  if (!arguments.html.empty()) {
    const absl::Status status = CheckPage();
    if (!status.ok()) return ReportError(status);
  }

  ProgressLine progress(!arguments.quiet);
  arguments.options.progress = [&](const std::string& phase) {
    progress.Show(phase);
  };
  absl::StatusOr<Report> report = Optimize(arguments.model, arguments.options);
  progress.Clear();
  if (!report.ok()) return ReportError(report.status());

  const std::vector<Form> forms = FormsOf(arguments);
  const absl::Status status = WriteForms(forms, &*report);
  if (!status.ok()) return ReportError(status);
  const bool stdout_has_form =
      std::any_of(forms.begin(), forms.end(),
                  [](const Form& form) { return form.path == "-"; });
  if (!arguments.quiet && !stdout_has_form) {
    // Stdout may hold the model.
    std::ostream& out = arguments.options.output == "-" ? std::cerr : std::cout;
    out << ReportToText(
        *report, {.max_tensors = arguments.top, .verbose = arguments.verbose});
    for (const std::string& file : report->outputs) {
      out << "wrote " << Printable(file) << "\n";
    }
    const std::string hint = VerifyHint(arguments, *report);
    if (!hint.empty()) out << Printable(hint) << "\n";
  }
  return CheckGates(arguments.gates, *report);
}

}  // namespace
}  // namespace onnx_memopt::cli

int main(int argc, char** argv) {
  // Nothing in the project throws; the standard library may, when memory ends.
  try {
    return onnx_memopt::cli::Main(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << "\n";
    return onnx_memopt::cli::kExitModelError;
  }
}
