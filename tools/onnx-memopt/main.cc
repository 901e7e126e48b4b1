// onnx-memopt: the command line. It only reads arguments, calls the library and
// prints; `onnx-memopt --help` says what it does.

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "onnx-memopt/arguments.h"
#include "onnx-memopt/estimate_command.h"
#include "onnx-memopt/extensions.h"
#include "onnx_memopt/optimize.h"
#include "onnx_memopt/report/gates.h"
#include "onnx_memopt/report/json.h"
#include "onnx_memopt/report/text.h"
#include "onnx_memopt/support/atomic_file.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::cli {
namespace {

int Fail(const absl::Status& status) {
  std::cerr << "error: " << status.message() << "\n";
  return status.code() == absl::StatusCode::kOutOfRange ? kExitUsage
                                                        : kExitModelError;
}

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

absl::Status WriteJson(const std::string& path, const Report& report) {
  const std::string json = ReportToJson(report, ONNX_MEMOPT_VERSION);
  if (path == "-") {
    std::cout << json << std::flush;
    return std::cout.good()
               ? absl::OkStatus()
               : absl::UnavailableError("stdout: the report was not written");
  }
  absl::StatusOr<AtomicFile> file = AtomicFile::Create(path);
  absl::Status status = file.status();
  if (status.ok()) status = file->writer().Append(json);
  if (status.ok()) status = file->Commit();
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(Printable(path), ": ", status.message()));
}

int CheckGates(const Gates& gates, const Report& report) {
  const std::vector<std::string> failed = FailedGates(report, gates);
  for (const std::string& reason : failed) {
    std::cerr << "gate failed: " << reason << "\n";
  }
  return failed.empty() ? kExitOk : kExitGateFailed;
}

int Main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "estimate") {
    return RunEstimate(argc - 1, argv + 1);
  }
  if (const std::optional<int> code = RunExtension(argc, argv)) return *code;
  ParseResult parsed = ParseArguments(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  Arguments& arguments = parsed.arguments;

  ProgressLine progress(!arguments.quiet);
  arguments.options.progress = [&](const std::string& phase) {
    progress.Show(phase);
  };
  absl::StatusOr<Report> report = Optimize(arguments.model, arguments.options);
  progress.Clear();
  if (!report.ok()) return Fail(report.status());

  if (!arguments.json.empty()) {
    if (arguments.json != "-") report->outputs.push_back(arguments.json);
    const absl::Status status = WriteJson(arguments.json, *report);
    if (!status.ok()) return Fail(status);
  }
  if (!arguments.quiet && arguments.json != "-") {
    // Stdout may hold the model.
    std::ostream& out = arguments.options.output == "-" ? std::cerr : std::cout;
    out << ReportToText(
        *report, {.max_tensors = arguments.top, .verbose = arguments.verbose});
    for (const std::string& file : report->outputs) {
      out << "wrote " << Printable(file) << "\n";
    }
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
