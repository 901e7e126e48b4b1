#include "onnx_memopt/report/html.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/report/json.h"
#include "onnx_memopt/support/status_macros.h"
#include "report/page.h"

namespace onnx_memopt {
namespace {

// The two line ends of Unicode that were none to JavaScript once begin with
// these bytes; the last byte tells which.
constexpr absl::string_view kLineSeparators = "\xe2\x80";

// JSON in a script element. What could end the element or begin a comment is
// only ever inside a string, where an escape stands for it.
void AppendEscaped(absl::string_view json, std::string* out) {
  out->reserve(out->size() + json.size() + json.size() / 16);
  size_t done = 0;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    absl::string_view escape;
    size_t length = 1;
    if (c == '<') {
      escape = "\\u003c";
    } else if (c == '>') {
      escape = "\\u003e";
    } else if (c == '&') {
      escape = "\\u0026";
    } else if (json.substr(i, 2) == kLineSeparators && i + 2 < json.size() &&
               (json[i + 2] == '\xa8' || json[i + 2] == '\xa9')) {
      escape = json[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      length = 3;
    } else {
      continue;
    }
    absl::StrAppend(out, json.substr(done, i - done), escape);
    done = i + length;
    i = done - 1;
  }
  absl::StrAppend(out, json.substr(done));
}

}  // namespace

absl::Status CheckPage() {
  if (!PageHead().empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      "this build of onnx-memopt has no HTML report: it was made without "
      "Node.js; ./dev build makes one that has");
}

absl::StatusOr<std::string> JsonToHtml(absl::string_view json) {
  RETURN_IF_ERROR(CheckPage());
  std::string out(PageHead());
  AppendEscaped(json, &out);
  absl::StrAppend(&out, PageTail());
  return out;
}

absl::StatusOr<std::string> ReportToHtml(const Report& report,
                                         absl::string_view tool_version) {
  return JsonToHtml(ReportToJson(report, tool_version));
}

}  // namespace onnx_memopt
