// What each file of this folder adds to the module onnx_memopt._core. The
// functions take plain arguments; python/onnx_memopt/_api.py makes them
// convenient.
#ifndef ONNX_MEMOPT_PYTHON_BINDINGS_H_
#define ONNX_MEMOPT_PYTHON_BINDINGS_H_

#include <nanobind/nanobind.h>

#include <string>

#include "absl/strings/string_view.h"
#include "onnx_memopt/options.h"
#include "onnx_memopt/report.h"

namespace onnx_memopt::python {

void BindReport(nanobind::module_& module);
void BindOptimize(nanobind::module_& module);
void BindTrain(nanobind::module_& module);
void BindEstimate(nanobind::module_& module);

// "auto", "reference", "copy" or "all".
ExternalDataMode ParseExternalData(const std::string& text);

// Raises OptionError with `message`.
[[noreturn]] void RaiseOptionError(absl::string_view message);

// A summary for notebooks.
std::string ReportToSummary(const Report& report);

}  // namespace onnx_memopt::python

#endif  // ONNX_MEMOPT_PYTHON_BINDINGS_H_
