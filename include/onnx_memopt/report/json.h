// A report as JSON, by the schema in docs/report.md. Equal reports give equal
// bytes; only the fields called "seconds" differ from run to run.
//
//   std::string text = ReportToJson(report, "0.1.0");
#ifndef ONNX_MEMOPT_REPORT_JSON_H_
#define ONNX_MEMOPT_REPORT_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "onnx_memopt/report.h"

namespace onnx_memopt {

// Names that are not valid UTF-8 have U+FFFD in place of each bad byte.
std::string ReportToJson(const Report& report, absl::string_view tool_version);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_REPORT_JSON_H_
