// optimize and analyze.

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bindings.h"
#include "errors.h"
#include "interruptible.h"
#include "onnx_memopt/optimize.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::python {

namespace nb = nanobind;

void RaiseOptionError(absl::string_view message) {
  Raise(absl::OutOfRangeError(message));
}

ExternalDataMode ParseExternalData(const std::string& text) {
  if (text == "auto") return ExternalDataMode::kAuto;
  if (text == "reference") return ExternalDataMode::kReference;
  if (text == "copy") return ExternalDataMode::kCopy;
  if (text == "all") return ExternalDataMode::kAll;
  RaiseOptionError(absl::StrCat(
      "external_data: expected auto, reference, copy or all, not \"",
      Printable(text), "\""));
}

namespace {

std::optional<std::string> BytesOf(const std::optional<nb::bytes>& data) {
  if (!data) return std::nullopt;
  return std::string(data->c_str(), data->size());
}

struct Result {
  Report report;
  std::optional<std::string> model;  // of a model in memory
};

std::pair<Report, std::optional<nb::bytes>> OptimizeModel(
    const std::string& path, const std::optional<nb::bytes>& data,
    std::map<std::string, std::vector<int64_t>> dims,
    std::map<std::string, std::vector<int64_t>> input_shapes, bool rewrite,
    std::string passes, std::optional<double> max_slowdown,
    std::optional<int64_t> budget_bytes, std::string output,
    const std::string& external_data, bool annotate, std::string external_dir,
    const nb::object& progress) {
  if (max_slowdown && !(*max_slowdown >= 0)) {
    RaiseOptionError("max_slowdown: expected a number from 0 on");
  }
  if (budget_bytes && *budget_bytes < 0) {
    RaiseOptionError("budget: expected a number of bytes from 0 on");
  }
  Options options{.dims = std::move(dims),
                  .input_shapes = std::move(input_shapes),
                  .rewrite = rewrite,
                  .passes = std::move(passes),
                  .max_slowdown = max_slowdown,
                  .budget_bytes = budget_bytes,
                  .output = std::move(output),
                  .external_data = ParseExternalData(external_data),
                  .annotate = annotate,
                  .external_dir = std::move(external_dir)};
  Result result = ValueOrRaise(RunInterruptible<Result>(
      progress,
      [path, bytes = BytesOf(data), options = std::move(options)](
          const ReportPhase& phase) mutable -> absl::StatusOr<Result> {
        options.progress = phase;
        absl::StatusOr<Report> report = absl::UnknownError("");
        std::optional<std::string> model;
        if (bytes) {
          if (options.rewrite) model.emplace();
          report = OptimizeBytes(*std::move(bytes), options,
                                 model ? &*model : nullptr);
        } else {
          report = Optimize(path, options);
        }
        if (!report.ok()) return report.status();
        return Result{*std::move(report), std::move(model)};
      }));
  std::optional<nb::bytes> model;
  if (result.model) model.emplace(result.model->data(), result.model->size());
  return {std::move(result.report), std::move(model)};
}

}  // namespace

void BindOptimize(nb::module_& module) {
  module.def("optimize", &OptimizeModel, nb::arg("path"),
             nb::arg("data").none(), nb::kw_only(), nb::arg("dims"),
             nb::arg("input_shapes"), nb::arg("rewrite"), nb::arg("passes"),
             nb::arg("max_slowdown").none(), nb::arg("budget_bytes").none(),
             nb::arg("output"), nb::arg("external_data"), nb::arg("annotate"),
             nb::arg("external_dir"), nb::arg("progress").none(),
             "Analyses a model file, or data where it is given, and rewrites "
             "it; with data, the rewritten model is the second result.");
}

}  // namespace onnx_memopt::python
