// A report as Chrome trace events, for Perfetto (ui.perfetto.dev) and
// chrome://tracing.
//
//   std::string json = ReportToTrace(report);
//
// A process each for the model before and after the passes. It has a counter of
// live bytes, a track with the node of each step, and tracks of tensor
// lifetimes: as few as there are, none with two tensors at a time. A step lasts
// a millisecond, so that step 12 begins at 12 ms.
#ifndef ONNX_MEMOPT_REPORT_TRACE_H_
#define ONNX_MEMOPT_REPORT_TRACE_H_

#include <string>

#include "onnx_memopt/report.h"

namespace onnx_memopt {

std::string ReportToTrace(const Report& report);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_REPORT_TRACE_H_
