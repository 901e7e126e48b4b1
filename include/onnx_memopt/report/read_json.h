// The inverse of ReportToJson, for what is compared of two reports: all but the
// nodes and the profile.
//
//   ASSIGN_OR_RETURN(Report report, ReportFromJson(text));
//   report.before.live_peak_bytes;
#ifndef ONNX_MEMOPT_REPORT_READ_JSON_H_
#define ONNX_MEMOPT_REPORT_READ_JSON_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/report.h"

namespace onnx_memopt {

// Fields that are not known are skipped: a later version may have added them.
// Errors name the field: "before.live_peak_bytes: expected a number of bytes".
absl::StatusOr<Report> ReportFromJson(absl::string_view text);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_REPORT_READ_JSON_H_
