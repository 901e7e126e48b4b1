// The report of analyze and optimize, as plain objects.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bindings.h"
#include "errors.h"
#include "onnx_memopt/report/csv.h"
#include "onnx_memopt/report/dot.h"
#include "onnx_memopt/report/html.h"
#include "onnx_memopt/report/json.h"
#include "onnx_memopt/report/read_json.h"
#include "onnx_memopt/report/text.h"
#include "onnx_memopt/report/trace.h"
#include "onnx_memopt/support/format.h"
#include "text.h"

namespace onnx_memopt::python {
namespace {

namespace nb = nanobind;

void BindModel(nb::module_& m) {
  nb::class_<ReportModel>(m, "ModelInfo", "The model that was read.")
      .def_prop_ro("path", Text(&ReportModel::path),
                   "As given; \"<memory>\" for a model in memory.")
      .def_prop_ro("sha256", Text(&ReportModel::sha256))
      .def_ro("opset", &ReportModel::opset)
      .def_ro("ir_version", &ReportModel::ir_version)
      .def_ro("nodes", &ReportModel::nodes)
      .def_ro("size_bytes", &ReportModel::size_bytes,
              "Of the model file alone.");
  nb::class_<ReportDim>(m, "Dim", "A named size of the inputs.")
      .def_prop_ro("name", Text(&ReportDim::name))
      .def_ro("value", &ReportDim::value)
      .def_ro("assumed", &ReportDim::assumed,
              "It was not given: numbers are for this value.");
  nb::class_<ReportWeights>(m, "Weights", "The weights of the model as read.")
      .def_ro("bytes", &ReportWeights::bytes)
      .def_ro("count", &ReportWeights::count)
      .def_ro("duplicate_bytes", &ReportWeights::duplicate_bytes,
              "What sharing equal weights would save.")
      .def_ro("transposed_bytes", &ReportWeights::transposed_bytes)
      .def_prop_ro("notes", Text(&ReportWeights::notes));
}

void BindPeaks(nb::module_& m) {
  nb::class_<ReportRuntimePeaks>(
      m, "RuntimePeaks",
      "What ONNX Runtime takes above the loaded model, as predicted.")
      .def_ro("first_peak_bytes", &ReportRuntimePeaks::first_peak_bytes)
      .def_ro("steady_peak_bytes", &ReportRuntimePeaks::steady_peak_bytes,
              "From the second run on.");
  nb::class_<ReportPeak>(m, "Peak", "Memory at the worst step.")
      .def_ro("live_peak_bytes", &ReportPeak::live_peak_bytes,
              "Activations, the sum at the worst step.")
      .def_ro("packed_peak_bytes", &ReportPeak::packed_peak_bytes,
              "With every activation at a fixed offset.")
      .def_ro("total_bytes", &ReportPeak::total_bytes,
              "Weights, inputs and the packed peak.")
      .def_ro("peak_step", &ReportPeak::peak_step, "-1: nothing is allocated.")
      .def_prop_ro("peak_node", Text(&ReportPeak::peak_node))
      .def_prop_ro("peak_op", Text(&ReportPeak::peak_op))
      .def_ro("runtime_bare", &ReportPeak::runtime_bare,
              "In ONNX Runtime without arena and memory pattern.")
      .def_ro("runtime_default", &ReportPeak::runtime_default,
              "In ONNX Runtime with session options as they come.")
      .def_prop_ro("live_peak_formulas", Text(&ReportPeak::live_peak_formulas),
                   "With unbound dims: the live peak is the largest of them.");
  nb::class_<ReportBudget>(m, "Budget", "What came of the budget.")
      .def_ro("bytes", &ReportBudget::bytes)
      .def_ro("reached_bytes", &ReportBudget::reached_bytes)
      .def_ro("met", &ReportBudget::met)
      .def_prop_ro("reason", Text(&ReportBudget::reason),
                   "What holds the peak; empty if it is met.");
  nb::class_<ReportSessionOptions>(
      m, "SessionOptionsReport",
      "Options of a session of ONNX Runtime, and what it takes with them.")
      .def_ro("enable_cpu_mem_arena",
              &ReportSessionOptions::enable_cpu_mem_arena)
      .def_ro("enable_mem_pattern", &ReportSessionOptions::enable_mem_pattern)
      .def_ro("enable_mem_reuse", &ReportSessionOptions::enable_mem_reuse)
      .def_prop_ro("execution_order",
                   Text(&ReportSessionOptions::execution_order),
                   "\"DEFAULT\" or \"PRIORITY_BASED\".")
      .def_prop_ro("disabled_optimizers",
                   Text(&ReportSessionOptions::disabled_optimizers),
                   "For InferenceSession(disabled_optimizers=...).")
      .def_ro("peaks", &ReportSessionOptions::peaks);
  nb::class_<ReportSweepPoint>(m, "SweepPoint",
                               "One point of a sweep over dims.")
      .def_ro("dims", &ReportSweepPoint::dims)
      .def_ro("weights_bytes", &ReportSweepPoint::weights_bytes)
      .def_ro("before", &ReportSweepPoint::before)
      .def_ro("after", &ReportSweepPoint::after);
}

void BindTables(nb::module_& m) {
  nb::class_<ReportTensor>(m, "Tensor", "A tensor, and when it lives.")
      .def_prop_ro("name", Text(&ReportTensor::name))
      .def_prop_ro("producer", Text(&ReportTensor::producer))
      .def_prop_ro("kind", Text(&ReportTensor::kind),
                   "\"input\", \"weight\" or \"activation\".")
      .def_prop_ro("dtype", Text(&ReportTensor::dtype))
      .def_prop_ro("shape", Text(&ReportTensor::shape))
      .def_ro("bytes", &ReportTensor::bytes, "None: unknown.")
      .def_prop_ro("bytes_formula", Text(&ReportTensor::bytes_formula))
      .def_ro("begin", &ReportTensor::begin)
      .def_ro("end", &ReportTensor::end, "The step after its last.")
      .def_ro("storage", &ReportTensor::storage,
              "Equal for tensors that share bytes.")
      .def_ro("graph", &ReportTensor::graph,
              "0: the main graph; otherwise a subgraph.")
      .def("__repr__", [](const ReportTensor& t) {
        return ToPython(absl::StrCat("<onnx_memopt.Tensor ", t.name, " ",
                                     t.dtype, t.shape, ">"));
      });
  nb::class_<ReportNode>(m, "Node", "A node, and what lives while it runs.")
      .def_ro("index", &ReportNode::index, "The step.")
      .def_prop_ro("name", Text(&ReportNode::name))
      .def_prop_ro("op", Text(&ReportNode::op))
      .def_ro("graph", &ReportNode::graph)
      .def_ro("output_bytes", &ReportNode::output_bytes)
      .def_ro("live_bytes", &ReportNode::live_bytes)
      .def_ro("flops", &ReportNode::flops)
      .def_ro("traffic_bytes", &ReportNode::traffic_bytes)
      .def_ro("inputs", &ReportNode::inputs, "Indices of Report.tensors.")
      .def_ro("outputs", &ReportNode::outputs, "Indices of Report.tensors.")
      .def("__repr__", [](const ReportNode& n) {
        return ToPython(
            absl::StrCat("<onnx_memopt.Node ", n.op, " ", n.name, ">"));
      });
  nb::class_<ReportPass>(m, "PassRun", "What a pass did.")
      .def_prop_ro("name", Text(&ReportPass::name))
      .def_ro("changed", &ReportPass::changed)
      .def_ro("seconds", &ReportPass::seconds)
      .def_prop_ro("remarks", Text(&ReportPass::remarks));
}

nb::str Page(const Report& report) {
  return ToPython(ValueOrRaise(ReportToHtml(report, ONNX_MEMOPT_VERSION)));
}

const ReportSessionOptions* Recommended(const Report& report) {
  return report.session_options.empty()
             ? nullptr
             : &report.session_options[report.recommended_session];
}

void BindForms(nb::class_<Report>& report) {
  report
      .def(
          "to_json",
          [](const Report& r) {
            return ToPython(ReportToJson(r, ONNX_MEMOPT_VERSION));
          },
          "The report as docs/report.md describes it.")
      .def_static(
          "from_json",
          [](const std::string& text) {
            absl::StatusOr<Report> read = ReportFromJson(text);
            if (!read.ok()) {
              Raise(absl::InvalidArgumentError(read.status().message()));
            }
            return *std::move(read);
          },
          nb::arg("text"),
          "A report that was written as JSON, without nodes and profile.")
      .def(
          "to_text",
          [](const Report& r, size_t top, bool verbose) {
            return ToPython(
                ReportToText(r, {.max_tensors = top, .verbose = verbose}));
          },
          nb::kw_only(), nb::arg("top") = 10, nb::arg("verbose") = false,
          "As the program prints it; `top` tensors at the peak.")
      .def("to_html", &Page, "The page of --html, one file without a network.")
      .def(
          "to_csv", [](const Report& r) { return ToPython(TensorsToCsv(r)); },
          "The tensors as a table.")
      .def(
          "to_trace",
          [](const Report& r) { return ToPython(ReportToTrace(r)); },
          "Chrome trace events, for Perfetto.")
      .def(
          "to_dot", [](const Report& r) { return ToPython(ReportToDot(r)); },
          "The graph in Graphviz's language.")
      .def("__str__",
           [](const Report& r) { return ToPython(ReportToText(r, {})); })
      .def("__repr__",
           [](const Report& r) {
             const ReportPeak& peak = r.after ? *r.after : r.before;
             return ToPython(absl::StrCat(
                 "<onnx_memopt.Report of ", r.model.path, ": live peak ",
                 FormatBytes(r.before.live_peak_bytes),
                 r.after
                     ? absl::StrCat(" -> ", FormatBytes(peak.live_peak_bytes))
                     : "",
                 ">"));
           })
      .def("_repr_html_",
           [](const Report& r) { return ToPython(ReportToSummary(r)); });
}

}  // namespace

void BindReport(nb::module_& m) {
  BindModel(m);
  BindPeaks(m);
  BindTables(m);
  nb::class_<Report> report(
      m, "Report",
      "What was found and done. Bytes are exact; str() is the program's text, "
      "and notebooks show a table.");
  report.def_ro("model", &Report::model)
      .def_ro("dims", &Report::dims)
      .def_ro("complete", &Report::complete,
              "False: the size of a tensor is unknown, and peaks are lower "
              "bounds.")
      .def_prop_ro("unknown_tensors", Text(&Report::unknown_tensors))
      .def_ro("weights", &Report::weights)
      .def_ro("weights_after_bytes", &Report::weights_after_bytes)
      .def_ro("inputs_bytes", &Report::inputs_bytes,
              "Owned by the caller, not part of the peaks.")
      .def_ro("total_flops", &Report::total_flops)
      .def_ro("before", &Report::before)
      .def_ro("after", &Report::after, "None if no pass ran.")
      .def_ro("time_ratio", &Report::time_ratio,
              "Modelled time of a run after the passes over that before.")
      .def_ro("budget", &Report::budget)
      .def_ro("session_options", &Report::session_options,
              "Those that were compared, the defaults first.")
      .def_prop_ro("recommended_session", &Recommended,
                   nb::rv_policy::reference_internal,
                   nb::for_getter(nb::sig("def recommended_session(self) -> "
                                          "SessionOptionsReport | None")),
                   "The best of them; None in a report from JSON without.")
      .def_ro("tensors", &Report::tensors)
      .def_ro("nodes", &Report::nodes)
      .def_ro("inner_nodes", &Report::inner_nodes, "Those of subgraphs.")
      .def_ro("at_peak", &Report::at_peak, "The largest first.")
      .def_ro("passes", &Report::passes)
      .def_ro("sweep", &Report::sweep)
      .def_prop_ro("warnings", Text(&Report::warnings))
      .def_prop_ro("outputs", Text(&Report::outputs),
                   "Files that were written.");
  BindForms(report);
}

}  // namespace onnx_memopt::python
