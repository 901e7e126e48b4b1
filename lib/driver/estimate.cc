#include "onnx_memopt/estimate.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "driver/estimate_loaded.h"
#include "onnx_memopt/estimate/build_report.h"
#include "onnx_memopt/estimate/configuration.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

using estimate::CheckpointKind;
using estimate::Configuration;
using estimate::LossKind;

// Larger ones are mistakes, and products of them would not fit a number.
constexpr int64_t kMostGpus = 1 << 16;
constexpr int64_t kMostSamples = 1 << 24;

template <typename Rows>
absl::Status UnknownName(absl::string_view option, absl::string_view name,
                         const Rows& rows) {
  std::vector<std::string> names;
  names.reserve(rows.size());
  for (const auto& row : rows) names.emplace_back(row.name);
  return absl::OutOfRangeError(
      absl::StrCat(option, ": there is no \"", Printable(Ellipsize(name, 40)),
                   "\"; expected one of ", absl::StrJoin(names, ", ")));
}

absl::Status CheckRange(absl::string_view option, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat(option, ": ", value, " is not a number from 1 to ", most));
}

absl::Status SetNames(const EstimateOptions& options, Configuration* c) {
  c->optimizer = estimate::FindOptimizer(options.optimizer);
  if (c->optimizer == nullptr) {
    return UnknownName("--optimizer", options.optimizer,
                       estimate::AllOptimizers());
  }
  c->precision = estimate::FindPrecision(options.precision);
  if (c->precision == nullptr) {
    return UnknownName("--precision", options.precision,
                       estimate::AllPrecisions());
  }
  struct Named {
    absl::string_view name;
  };
  if (options.loss == "auto") {
    c->loss = LossKind::kAuto;
  } else if (options.loss == "cross-entropy") {
    c->loss = LossKind::kCrossEntropy;
  } else if (options.loss == "mse") {
    c->loss = LossKind::kMeanSquaredError;
  } else if (options.loss == "none") {
    c->loss = LossKind::kNone;
  } else {
    return UnknownName(
        "--loss", options.loss,
        std::array<Named, 4>{{{"auto"}, {"cross-entropy"}, {"mse"}, {"none"}}});
  }
  c->fused_attention = options.attention == "fused";
  if (!c->fused_attention && options.attention != "graph") {
    return UnknownName("--attention", options.attention,
                       std::array<Named, 2>{{{"graph"}, {"fused"}}});
  }
  c->gpipe = options.schedule == "gpipe";
  if (!c->gpipe && options.schedule != "1f1b") {
    return UnknownName("--schedule", options.schedule,
                       std::array<Named, 2>{{{"1f1b"}, {"gpipe"}}});
  }
  return absl::OkStatus();
}

bool IsNumber(absl::string_view text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number);
}

absl::Status SetCheckpoint(const std::string& text, Configuration* c) {
  if (text == "none") {
    c->checkpoint = CheckpointKind::kNone;
  } else if (text == "selective") {
    c->checkpoint = CheckpointKind::kSelective;
  } else if (text == "full") {
    c->checkpoint = CheckpointKind::kFull;
  } else if (text == "sqrt") {
    c->checkpoint = CheckpointKind::kSqrt;
  } else if (absl::SimpleAtoi(text, &c->checkpoint_every) &&
             c->checkpoint_every >= 1) {
    c->checkpoint = CheckpointKind::kEvery;
  } else if (text == "fit") {
    c->checkpoint = CheckpointKind::kBudget;
  } else if (const absl::StatusOr<int64_t> bytes = ParseBytes(text);
             bytes.ok() && !IsNumber(text)) {
    c->checkpoint = CheckpointKind::kBudget;
    c->checkpoint_budget_bytes = *bytes;
  } else {
    return absl::OutOfRangeError(
        absl::StrCat("--checkpoint: expected none, selective, full, sqrt, how "
                     "many blocks go together, fit, or how much memory there "
                     "is (8GiB), not \"",
                     Printable(Ellipsize(text, 40)), "\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<Configuration> ToConfiguration(const EstimateOptions& options) {
  Configuration c;
  c.training = options.training;
  RETURN_IF_ERROR(SetNames(options, &c));
  RETURN_IF_ERROR(SetCheckpoint(options.checkpoint, &c));
  if (options.batch) {
    RETURN_IF_ERROR(CheckRange("--batch", *options.batch, kMostSamples));
  }
  RETURN_IF_ERROR(CheckRange("--accumulate", options.accumulate, kMostSamples));
  RETURN_IF_ERROR(CheckRange("--dp", options.data_parallel, kMostGpus));
  RETURN_IF_ERROR(CheckRange("--tp", options.tensor_parallel, kMostGpus));
  RETURN_IF_ERROR(CheckRange("--pp", options.pipeline_parallel, kMostGpus));
  RETURN_IF_ERROR(
      CheckRange("--micro-batches", options.micro_batches, kMostSamples));
  if (options.zero < 0 || options.zero > 3) {
    return absl::OutOfRangeError(
        absl::StrCat("--zero: ", options.zero, " is not a level from 0 to 3"));
  }
  if (options.offload_parameters && options.zero != 3) {
    return absl::OutOfRangeError(
        "--offload parameters needs --zero 3: lower levels keep all parameters "
        "on every GPU");
  }
  c.accumulate = options.accumulate;
  c.data_parallel = options.data_parallel;
  c.zero = options.zero;
  c.offload_optimizer = options.offload_optimizer;
  c.offload_parameters = options.offload_parameters;
  c.tensor_parallel = options.tensor_parallel;
  c.sequence_parallel = options.sequence_parallel;
  c.pipeline_parallel = options.pipeline_parallel;
  c.micro_batches = options.micro_batches;
  return c;
}

absl::Status WithPath(const std::string& path, const absl::Status& status) {
  if (status.ok() || status.code() == absl::StatusCode::kOutOfRange) {
    return status;
  }
  return absl::Status(
      status.code(), absl::StrCat(path == "-" ? "stdin" : Printable(path), ": ",
                                  status.message()));
}

class EstimateRun {
 public:
  EstimateRun(const std::string& path, const EstimateOptions& options)
      : path_(path), options_(options) {}

  absl::StatusOr<EstimateReport> Execute(
      const Configuration& configuration,
      const std::shared_ptr<const io::LoadedModel>& model) {
    io::ImportOptions import;
    for (const auto& [name, size] : options_.dims) import.dims[name] = size;
    const absl::Status checked = CheckImportOptions(*model, import);
    if (!checked.ok()) return absl::OutOfRangeError(checked.message());
    // Sizes stay symbolic, so that other lengths can be tried.
    absl::StatusOr<ir::Graph> graph = io::Import(model, {});
    if (!graph.ok()) return WithPath(path_, graph.status());
    for (const auto& [name, size] : options_.dims) graph->assumed[name] = size;
    RETURN_IF_ERROR(FindBatch(*graph));
    RETURN_IF_ERROR(FindUnbound(*graph));
    estimate::ReportRequest request{
        .batch_symbol = batch_,
        .batch = Batch(),
        .gpu = options_.gpu,
        .memory_bytes = options_.memory_bytes,
        .max_batch = options_.max_batch,
        .checkpoint_to_fit = options_.checkpoint == "fit"};
    ir::Graph lengths;
    if (options_.max_batch && !length_.empty()) {
      lengths = graph->Clone();
      request.length_symbol = length_;
      request.length_graph = &lengths;
      request.length = options_.dims.at(length_);
    }
    absl::StatusOr<EstimateReport> report =
        BuildEstimate(*graph, configuration, request);
    if (!report.ok()) return WithPath(path_, report.status());
    report->path = path_;
    for (const auto& [name, size] : options_.dims) {
      report->dims.emplace_back(name, size);
    }
    return report;
  }

 private:
  absl::Status FindBatch(const ir::Graph& graph) {
    batch_ = options_.batch_dim;
    if (batch_.empty()) {
      batch_ = estimate::FindBatchSymbol(graph);
      return absl::OkStatus();
    }
    if (std::find(graph.symbols.begin(), graph.symbols.end(), batch_) !=
        graph.symbols.end()) {
      return absl::OkStatus();
    }
    return absl::OutOfRangeError(absl::StrCat(
        "--batch-dim: the inputs have no dimension \"", Printable(batch_),
        "\"; they have ",
        graph.symbols.empty() ? "none with a name"
                              : absl::StrJoin(graph.symbols, ", ")));
  }

  // The batch may be given as --dim too.
  std::optional<int64_t> Batch() const {
    if (options_.batch || batch_.empty()) return options_.batch;
    const auto it = options_.dims.find(batch_);
    return it == options_.dims.end() ? std::optional<int64_t>(1) : it->second;
  }

  absl::Status FindUnbound(const ir::Graph& graph) {
    std::vector<std::string> unbound;
    for (const std::string& name : graph.symbols) {
      if (name == batch_) continue;
      if (!options_.dims.contains(name)) {
        unbound.push_back(Printable(name));
      } else if (length_.empty()) {
        length_ = name;
      }
    }
    if (unbound.empty()) return absl::OkStatus();
    return absl::OutOfRangeError(
        absl::StrCat("the size of ", absl::StrJoin(unbound, ", "),
                     unbound.size() == 1 ? " is" : " are", " not known: give ",
                     unbound.size() == 1 ? "it" : "them", " with --dim ",
                     unbound[0], "=SIZE"));
  }

  const std::string& path_;
  const EstimateOptions& options_;
  std::string batch_;   // a symbolic dimension, or empty
  std::string length_;  // another one that has a size
};

}  // namespace

absl::StatusOr<EstimateReport> Estimate(const std::string& path,
                                        const EstimateOptions& options) {
  ASSIGN_OR_RETURN(const Configuration configuration, ToConfiguration(options));
  absl::StatusOr<std::shared_ptr<const io::LoadedModel>> loaded =
      io::Load(path, {.external_dir = options.external_dir});
  if (!loaded.ok()) return WithPath(path, loaded.status());
  return EstimateRun(path, options).Execute(configuration, *loaded);
}

absl::StatusOr<EstimateReport> EstimateLoaded(
    const std::shared_ptr<const io::LoadedModel>& model,
    const EstimateOptions& options) {
  ASSIGN_OR_RETURN(const Configuration configuration, ToConfiguration(options));
  return EstimateRun(model->path(), options).Execute(configuration, model);
}

}  // namespace onnx_memopt
