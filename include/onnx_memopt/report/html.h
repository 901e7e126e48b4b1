// A report as one HTML file that needs no network: the page of tools/report
// with the JSON report inside.
//
//   ASSIGN_OR_RETURN(std::string page, ReportToHtml(report, "0.1.0"));
//
// Names of a model are data to the page: in the file they cannot end the
// element that they are in, and the page's Content-Security-Policy lets only
// its own script run.
#ifndef ONNX_MEMOPT_REPORT_HTML_H_
#define ONNX_MEMOPT_REPORT_HTML_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/report.h"

namespace onnx_memopt {

// An error if this build was made without the page, for want of Node.js.
absl::Status CheckPage();

// The page for a report that is JSON already: also that of an estimate.
absl::StatusOr<std::string> JsonToHtml(absl::string_view json);

absl::StatusOr<std::string> ReportToHtml(const Report& report,
                                         absl::string_view tool_version);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_REPORT_HTML_H_
