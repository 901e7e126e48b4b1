// The module onnx_memopt._core: the C++ library for Python.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "bindings.h"
#include "errors.h"
#include "interruptible.h"
#include "onnx_memopt/support/format.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  using namespace onnx_memopt;  // NOLINT(google-build-using-namespace)
  module.doc() = "The C++ library of onnx-memopt; use the package onnx_memopt.";
  module.attr("__version__") = ONNX_MEMOPT_VERSION;
  python::BindReport(module);
  python::BindOptimize(module);
  python::BindTrain(module);
  python::BindEstimate(module);
  module.def(
      "parse_bytes",
      [](const std::string& text) {
        absl::StatusOr<int64_t> bytes = ParseBytes(text);
        if (!bytes.ok()) python::RaiseOptionError(bytes.status().message());
        return *bytes;
      },
      nb::arg("text"), "A size such as \"512MiB\" in bytes.");
  module.def("format_bytes", &FormatBytes, nb::arg("size_bytes"),
             "Bytes for people: \"12.8 MiB\".");
  module.def("_wait_for_interrupted", &python::WaitForInterrupted);
  nb::module_::import_("atexit").attr("register")(
      module.attr("_wait_for_interrupted"));
}
