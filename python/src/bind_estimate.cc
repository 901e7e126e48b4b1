// estimate: its report goes to Python as JSON and text.

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "bindings.h"
#include "errors.h"
#include "interruptible.h"
#include "onnx_memopt/estimate.h"
#include "text.h"

namespace onnx_memopt::python {

namespace nb = nanobind;

void BindEstimate(nb::module_& module) {
  nb::class_<EstimateOptions>(module, "EstimateOptions",
                              "What `estimate` is asked.")
      .def(nb::init<>())
      .def_rw("dims", &EstimateOptions::dims)
      .def_rw("external_dir", &EstimateOptions::external_dir)
      .def_rw("batch", &EstimateOptions::batch, nb::arg().none())
      .def_rw("batch_dim", &EstimateOptions::batch_dim)
      .def_rw("training", &EstimateOptions::training)
      .def_rw("optimizer", &EstimateOptions::optimizer)
      .def_rw("precision", &EstimateOptions::precision)
      .def_rw("loss", &EstimateOptions::loss)
      .def_rw("checkpoint", &EstimateOptions::checkpoint)
      .def_rw("attention", &EstimateOptions::attention)
      .def_rw("accumulate", &EstimateOptions::accumulate)
      .def_rw("data_parallel", &EstimateOptions::data_parallel)
      .def_rw("zero", &EstimateOptions::zero)
      .def_rw("offload_optimizer", &EstimateOptions::offload_optimizer)
      .def_rw("offload_parameters", &EstimateOptions::offload_parameters)
      .def_rw("tensor_parallel", &EstimateOptions::tensor_parallel)
      .def_rw("sequence_parallel", &EstimateOptions::sequence_parallel)
      .def_rw("pipeline_parallel", &EstimateOptions::pipeline_parallel)
      .def_rw("micro_batches", &EstimateOptions::micro_batches)
      .def_rw("schedule", &EstimateOptions::schedule)
      .def_rw("gpu", &EstimateOptions::gpu)
      .def_rw("memory_bytes", &EstimateOptions::memory_bytes, nb::arg().none())
      .def_rw("max_batch", &EstimateOptions::max_batch);
  module.def(
      "estimate",
      [](const std::string& path, const EstimateOptions& options) {
        const EstimateReport report =
            ValueOrRaise(RunInterruptible<EstimateReport>(
                nb::none(), [path, options](const ReportPhase&) {
                  return Estimate(path, options);
                }));
        return std::make_pair(
            ToPython(EstimateToJson(report, ONNX_MEMOPT_VERSION)),
            ToPython(EstimateToText(report)));
      },
      nb::arg("path"), nb::arg("options"),
      "The estimate for a model file, as JSON and as text.");
}

}  // namespace onnx_memopt::python
