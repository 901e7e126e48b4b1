#include "onnx-memopt/command_line.h"

#include <cstddef>
#include <iostream>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "onnx-memopt/arguments.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::cli {
namespace {

class Help final : public CLI::Formatter {
 public:
  explicit Help(const char* text) : text_(text) {}

  std::string make_help(const CLI::App* /*app*/, std::string /*name*/,
                        CLI::AppFormatMode /*mode*/) const override {
    return text_;
  }

 private:
  const char* text_;
};

}  // namespace

std::optional<int> ParseCommand(CLI::App& app, const char* help, int argc,
                                char** argv) {
  app.formatter(std::make_shared<Help>(help));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) return UsageError(app.get_name(), e.what());
    app.exit(e);  // --help, --version
    return kExitOk;
  }
  return std::nullopt;
}

int UsageError(absl::string_view command, absl::string_view message) {
  std::cerr << "error: " << Printable(message) << "; see " << command
            << " --help\n";
  return kExitUsage;
}

int ReportError(const absl::Status& status) {
  std::cerr << "error: " << status.message() << "\n";
  return status.code() == absl::StatusCode::kOutOfRange ? kExitUsage
                                                        : kExitModelError;
}

absl::Status AddNamedSize(const std::string& text,
                          std::map<std::string, int64_t>* dims) {
  const size_t equals = text.rfind('=');
  int64_t size = 0;
  if (equals == std::string::npos || equals == 0 ||
      !absl::SimpleAtoi(text.substr(equals + 1), &size) || size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dim: expected NAME=N, not \"", Printable(text), "\""));
  }
  (*dims)[text.substr(0, equals)] = size;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ParseCount(absl::string_view option,
                                   const std::string& text) {
  int64_t count = 0;
  if (absl::SimpleAtoi(text, &count) && count >= 1) return count;
  return absl::InvalidArgumentError(absl::StrCat(
      option, ": \"", Printable(text), "\" is not a positive number"));
}

}  // namespace onnx_memopt::cli
