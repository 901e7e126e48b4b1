// The tensors of a report as CSV (RFC 4180), one row each, for spreadsheets.
//
//   std::string text = TensorsToCsv(report);
//   // graph,name,producer,kind,dtype,shape,bytes,begin,end,storage,...
//
// An unknown size is an empty cell. A name that a spreadsheet would take for a
// formula, since it begins with = + - or @, has an apostrophe before it.
#ifndef ONNX_MEMOPT_REPORT_CSV_H_
#define ONNX_MEMOPT_REPORT_CSV_H_

#include <string>

#include "onnx_memopt/report.h"

namespace onnx_memopt {

std::string TensorsToCsv(const Report& report);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_REPORT_CSV_H_
