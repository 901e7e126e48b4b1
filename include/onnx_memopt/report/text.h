// A report as a person reads it on a terminal: at most 80 columns, the numbers
// first, names shortened in the middle.
//
//   std::cout << ReportToText(report, {.max_tensors = 10});
#ifndef ONNX_MEMOPT_REPORT_TEXT_H_
#define ONNX_MEMOPT_REPORT_TEXT_H_

#include <cstddef>
#include <string>

#include "onnx_memopt/report.h"

namespace onnx_memopt {

struct TextOptions {
  size_t max_tensors = 10;  // lines of the table of tensors live at the peak
  bool verbose = false;     // all warnings and unknown tensors, seconds
};

std::string ReportToText(const Report& report, const TextOptions& options);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_REPORT_TEXT_H_
