#include "onnx-memopt-opt/predict.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

using analysis::ExecutionOrder;
using analysis::MappedWeights;
using analysis::RuntimeOptions;
using analysis::RuntimeTarget;

absl::Status Set(const std::string& key, const std::string& value,
                 RuntimeOptions* options) {
  const bool on = value == "on";
  if (on || value == "off") {
    if (key == "arena") options->arena = on;
    if (key == "pattern") options->pattern = on;
    if (key == "reuse") options->reuse = on;
    if (key == "folding") options->folding = on;
    if (key == "fusion") options->fusion = on;
    if (key == "arena" || key == "pattern" || key == "reuse" ||
        key == "folding" || key == "fusion") {
      return absl::OkStatus();
    }
  }
  if (key == "threads" && absl::SimpleAtoi(value, &options->threads) &&
      options->threads > 0) {
    return absl::OkStatus();
  }
  if (key == "mapped" &&
      (value == "none" || value == "original" || value == "all")) {
    options->mapped_weights = value == "none"       ? MappedWeights::kNone
                              : value == "original" ? MappedWeights::kOriginal
                                                    : MappedWeights::kAll;
    return absl::OkStatus();
  }
  if (key == "order" &&
      (value == "default" || value == "priority" || value == "file")) {
    options->execution_order = value == "default" ? ExecutionOrder::kDefault
                               : value == "file"
                                   ? ExecutionOrder::kFile
                                   : ExecutionOrder::kPriorityBased;
    return absl::OkStatus();
  }
  if (key == "target" && (value == "ideal" || value == "onnxruntime")) {
    options->target =
        value == "ideal" ? RuntimeTarget::kIdeal : RuntimeTarget::kOnnxRuntime;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--predict: expected default, bare, or some of arena=on|off, "
      "pattern=on|off, reuse=on|off, folding=on|off, fusion=on|off, "
      "threads=N, "
      "mapped=none|original|all, "
      "order=default|priority|file, target=ideal|onnxruntime; not \"",
      key, value.empty() ? "" : "=", value, "\""));
}

// "+bytes" and "-bytes", each with the node of the main graph, and a number
// that an allocation and its end have in common.
absl::StatusOr<nlohmann::ordered_json> Trace(
    const ir::Graph& graph, analysis::AnalysisManager& analyses,
    const RuntimeOptions& options, const std::vector<ir::NodeId>& order) {
  using Kind = analysis::MemoryEvent::Kind;
  ASSIGN_OR_RETURN(const std::vector<analysis::MemoryEvent> events,
                   TraceFirstRun(graph, analyses, options));
  nlohmann::ordered_json json = nlohmann::json::array();
  std::map<int32_t, int64_t> sizes;
  for (const analysis::MemoryEvent& event : events) {
    if (event.kind == Kind::kTouch || event.kind == Kind::kMap) continue;
    const bool frees = event.kind == Kind::kFree;
    if (!frees) sizes[event.id] = event.size_bytes;
    const auto at = static_cast<size_t>(event.position);
    json.push_back({absl::StrCat(frees ? "-" : "+", sizes[event.id]),
                    event.position < 0 ? "" : graph.DisplayName(order[at]),
                    event.id});
  }
  return json;
}

absl::StatusOr<RuntimeOptions> Parse(const std::string& text) {
  RuntimeOptions options;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    if (part == "default" || part == "trace") continue;
    if (part == "bare") {
      options = analysis::Bare(options);
      continue;
    }
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    RETURN_IF_ERROR(Set(pair.first, pair.second, &options));
  }
  return options;
}

}  // namespace

absl::StatusOr<std::string> Predict(const ir::Graph& graph,
                                    analysis::AnalysisManager& analyses,
                                    const std::string& text) {
  ASSIGN_OR_RETURN(const RuntimeOptions options, Parse(text));
  ASSIGN_OR_RETURN(const analysis::RuntimePrediction prediction,
                   PredictRuntime(graph, analyses, options));
  nlohmann::ordered_json json;
  json["options"] = text;
  json["first"] = prediction.peak_first_bytes;
  json["steady"] = prediction.peak_steady_bytes;
  json["pattern"] = prediction.pattern_bytes;
  json["arena"] = prediction.arena_bytes;
  json["mapped_weights"] = prediction.mapped_weight_bytes;
  json["scratch_at_peak"] = prediction.scratch_at_peak_bytes;
  json["complete"] = prediction.complete;
  json["peak_node"] = prediction.peak_node == ir::kNoNode
                          ? ""
                          : graph.DisplayName(prediction.peak_node);
  for (ir::ValueId value : prediction.unknown) {
    json["unknown"].push_back(graph.value(value).name);
  }
  json["order"] = nlohmann::json::array();
  for (ir::NodeId node : prediction.order) {
    json["order"].push_back(graph.DisplayName(node));
  }
  for (const analysis::LiveBuffer& buffer : prediction.at_peak) {
    json["at_peak"].push_back(
        {graph.value(buffer.value).name, buffer.size_bytes});
  }
  if (absl::StrContains(text, "trace")) {
    ASSIGN_OR_RETURN(json["trace"],
                     Trace(graph, analyses, options, prediction.order));
  }
  // A name in a model file may be any bytes.
  return json.dump(-1, ' ', /*ensure_ascii=*/true,
                   nlohmann::json::error_handler_t::replace);
}

}  // namespace onnx_memopt
