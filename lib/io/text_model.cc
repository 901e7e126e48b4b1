#include "io/text_model.h"

#include <exception>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "onnx/defs/parser.h"
#include "onnx/defs/printer.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

// ONNX's parser recurses over brackets: a subgraph takes two or three.
constexpr int kMaxBrackets = 256;

absl::Status CheckBrackets(absl::string_view text) {
  int depth = 0;
  int line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '\n':
        ++line;
        break;
      case '#':
        while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
        break;
      case '"':
        for (++i; i < text.size() && text[i] != '"'; ++i) {
          if (text[i] == '\\') ++i;
        }
        break;
      case '(':
      case '{':
      case '[':
      case '<':
        if (++depth > kMaxBrackets) {
          return absl::InvalidArgumentError(
              absl::StrCat("line ", line, ": brackets are nested more than ",
                           kMaxBrackets, " deep"));
        }
        break;
      case ')':
      case '}':
      case ']':
        --depth;
        break;
      case '>':
        if (i == 0 || text[i - 1] != '=') --depth;
        break;
      default:
        break;
    }
  }
  return absl::OkStatus();
}

// The parser says "[ParseError at position (line: 3 column: 14)]", then the
// line in question, then what is wrong, each on a line of its own.
std::string OneLine(absl::string_view message) {
  int line = 0;
  int column = 0;
  absl::string_view rest = message;
  const auto number_after = [&](absl::string_view key, int* number) {
    const size_t at = rest.find(key);
    if (at == absl::string_view::npos) return false;
    rest.remove_prefix(at + key.size());
    size_t digits = 0;
    while (digits < rest.size() && absl::ascii_isdigit(rest[digits])) ++digits;
    return absl::SimpleAtoi(rest.substr(0, digits), number);
  };
  std::string where;
  if (number_after("(line: ", &line) && number_after("column: ", &column)) {
    where = absl::StrCat("line ", line, ", column ", column, ": ");
    const size_t context = rest.find("Error context: ");
    const size_t end =
        context == absl::string_view::npos ? context : rest.find('\n', context);
    if (end != absl::string_view::npos) rest.remove_prefix(end + 1);
    rest = rest.substr(0, rest.find('\n'));
  } else {
    rest = message;
  }
  rest = absl::StripSuffix(absl::StripAsciiWhitespace(rest), ".");
  return absl::StrCat(where,
                      Printable(absl::StrReplaceAll(rest, {{"\n", "; "}})));
}

}  // namespace

absl::StatusOr<onnx::ModelProto> ParseModelText(absl::string_view text) {
  RETURN_IF_ERROR(CheckBrackets(text));
  onnx::ModelProto model;
  // Numbers that do not fit throw.
  try {
    onnx::OnnxParser parser(std::string_view(text.data(), text.size()));
    const onnx::Common::Status status = parser.Parse(model);
    if (!status.IsOK()) {
      return absl::InvalidArgumentError(OneLine(status.ErrorMessage()));
    }
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("not valid model text: ", OneLine(error.what())));
  }
  return model;
}

absl::StatusOr<std::string> PrintModelText(const onnx::ModelProto& model) {
  try {
    std::string text = onnx::ProtoToString(model);
    text.push_back('\n');
    const absl::StatusOr<onnx::ModelProto> again = ParseModelText(text);
    if (!again.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("ONNX's text syntax cannot express this model; write "
                       ".onnx (",
                       again.status().message(), ")"));
    }
    return text;
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("ONNX's text syntax cannot express this model; write "
                     ".onnx (",
                     OneLine(error.what()), ")"));
  }
}

bool IsTextPath(absl::string_view path) {
  return absl::EndsWith(path, ".onnxtxt");
}

}  // namespace onnx_memopt::io
