#include "onnx-memopt/diff_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "onnx-memopt/arguments.h"
#include "onnx-memopt/command_line.h"
#include "onnx_memopt/report/diff.h"
#include "onnx_memopt/report/read_json.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/mapped_file.h"
#include "onnx_memopt/support/unique_fd.h"

namespace onnx_memopt::cli {
namespace {

constexpr char kHelp[] =
    R"(Says what changed between two JSON reports, of two versions of a model or of
two settings: memory, the tensors at the peak, what the passes did.

Usage: onnx-memopt diff [OPTIONS] A.json B.json

  A.json, B.json           reports of onnx-memopt --json; - for stdin

  --markdown               for a comment in a review
  --max-growth PERCENT     exit code 3 if weights, inputs, a peak or what ONNX
                           Runtime takes grew by more than that, or if a size
                           in B.json is unknown

  -h, --help               this text

Examples:
  onnx-memopt diff main.json branch.json --max-growth 2
  onnx-memopt diff main.json branch.json --markdown > comment.md

Exit codes: 0 all went well, 1 a file, 2 usage, 3 it grew.
)";

// A report of a million nodes has less.
constexpr int64_t kMaxBytes = int64_t{4} << 30;

struct DiffArguments {
  std::string a;
  std::string b;
  bool markdown = false;
  std::optional<double> max_growth;
};

int Usage(absl::string_view message) {
  return UsageError("onnx-memopt diff", message);
}

// Pipes too: a shell gives one for what a command prints.
absl::StatusOr<std::string> ReadAll(const std::string& path) {
  if (path == "-") return ReadToEnd(STDIN_FILENO, kMaxBytes);
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return ErrnoStatus(errno);
  return ReadToEnd(fd.get(), kMaxBytes);
}

absl::StatusOr<Report> Read(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadAll(path);
  absl::StatusOr<Report> report =
      text.ok() ? ReportFromJson(*text) : text.status();
  if (report.ok()) return report;
  return absl::Status(report.status().code(),
                      absl::StrCat(path == "-" ? "stdin" : Printable(path),
                                   ": ", report.status().message()));
}

int Diff(const DiffArguments& arguments) {
  std::vector<Report> reports;
  for (const std::string& path : {arguments.a, arguments.b}) {
    absl::StatusOr<Report> report = Read(path);
    if (!report.ok()) {
      std::cerr << "error: " << report.status().message() << "\n";
      return kExitModelError;
    }
    reports.push_back(*std::move(report));
  }
  const ReportDiff diff = DiffReports(reports[0], reports[1]);
  std::cout << (arguments.markdown ? DiffToMarkdown(diff) : DiffToText(diff))
            << std::flush;
  if (!std::cout.good()) {
    std::cerr << "error: stdout: the difference was not written\n";
    return kExitModelError;
  }
  if (!arguments.max_growth) return kExitOk;
  const std::vector<std::string> failed = Growth(diff, *arguments.max_growth);
  for (const std::string& reason : failed) {
    std::cerr << "gate failed: " << reason << "\n";
  }
  return failed.empty() ? kExitOk : kExitGateFailed;
}

}  // namespace

int RunDiff(int argc, char** argv) {
  DiffArguments arguments;
  std::string max_growth;
  CLI::App app("", "onnx-memopt diff");
  app.add_option("A", arguments.a);
  app.add_option("B", arguments.b);
  app.add_flag("--markdown", arguments.markdown);
  app.add_option("--max-growth", max_growth);
  if (const auto code = ParseCommand(app, kHelp, argc, argv)) return *code;
  if (arguments.b.empty()) return Usage("expected two reports");
  if (arguments.a == "-" && arguments.b == "-") {
    return Usage("only one of the reports can come from stdin");
  }
  if (!max_growth.empty()) {
    double percent = 0;
    if (!absl::SimpleAtod(max_growth, &percent) || !(percent >= 0)) {
      return Usage(absl::StrCat("--max-growth: expected a percentage, not \"",
                                max_growth, "\""));
    }
    arguments.max_growth = percent;
  }
  return Diff(arguments);
}

}  // namespace onnx_memopt::cli
