// The page that tools/report builds, as it is embedded: generated sources
// define these.
//
//   if (PageHead().empty()) ...  // built without it
#ifndef ONNX_MEMOPT_LIB_REPORT_PAGE_H_
#define ONNX_MEMOPT_LIB_REPORT_PAGE_H_

#include "absl/strings/string_view.h"

namespace onnx_memopt {

// What comes before the JSON report, and what after it. Empty: no page.
absl::string_view PageHead();
absl::string_view PageTail();

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_LIB_REPORT_PAGE_H_
