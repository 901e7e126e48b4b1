#include "onnx_memopt/report/json.h"

#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace onnx_memopt {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(const std::optional<int64_t>& number) {
  return number ? Json(*number) : Json(nullptr);
}

Json OrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// What is behind them differs between machines.
double InThousandths(double ratio) { return std::round(ratio * 1000) / 1000; }

Json ToJson(const ReportRuntimePeaks& peaks) {
  return {{"first_peak_bytes", peaks.first_peak_bytes},
          {"steady_peak_bytes", peaks.steady_peak_bytes}};
}

Json ToJson(const ReportPeak& peak) {
  Json json = {{"live_peak_bytes", peak.live_peak_bytes},
               {"packed_peak_bytes", peak.packed_peak_bytes},
               {"total_bytes", peak.total_bytes},
               {"peak_step", peak.peak_step},
               {"peak_node", peak.peak_node},
               {"peak_op", peak.peak_op},
               {"runtime",
                {{"bare", ToJson(peak.runtime_bare)},
                 {"default", ToJson(peak.runtime_default)}}}};
  if (!peak.live_peak_formulas.empty()) {
    json["live_peak_formulas"] = peak.live_peak_formulas;
  }
  return json;
}

Json ToJson(const std::optional<ReportPeak>& peak) {
  return peak ? ToJson(*peak) : Json(nullptr);
}

Json ToJson(const std::optional<ReportBudget>& budget) {
  if (!budget) return nullptr;
  return {{"bytes", budget->bytes},
          {"reached_bytes", budget->reached_bytes},
          {"met", budget->met},
          {"reason", OrNull(budget->reason)}};
}

Json ToJson(const ReportCheckpoint& checkpoint) {
  return {{"first", checkpoint.first},
          {"last", checkpoint.last},
          {"nodes", checkpoint.nodes},
          {"bytes", checkpoint.bytes}};
}

Json ToJson(const ReportPlan& plan) {
  return {{"peak_bytes", plan.peak_bytes},
          {"added_time", InThousandths(plan.added_time)}};
}

Json OptionsToJson(const ReportSessionOptions& session) {
  return {{"enable_cpu_mem_arena", session.enable_cpu_mem_arena},
          {"enable_mem_pattern", session.enable_mem_pattern},
          {"enable_mem_reuse", session.enable_mem_reuse},
          {"execution_order", session.execution_order},
          {"disabled_optimizers", session.disabled_optimizers}};
}

Json SessionsToJson(const Report& report) {
  Json candidates = Json::array();
  for (const ReportSessionOptions& session : report.session_options) {
    candidates.push_back(
        {{"options", OptionsToJson(session)},
         {"first_peak_bytes", session.peaks.first_peak_bytes},
         {"steady_peak_bytes", session.peaks.steady_peak_bytes}});
  }
  const size_t best = report.recommended_session;
  return {{"recommended", best < report.session_options.size()
                              ? OptionsToJson(report.session_options[best])
                              : Json(nullptr)},
          {"candidates", std::move(candidates)}};
}

Json ToJson(const ReportTensor& tensor) {
  Json json = {
      {"name", tensor.name},           {"producer", OrNull(tensor.producer)},
      {"kind", tensor.kind},           {"dtype", OrNull(tensor.dtype)},
      {"shape", OrNull(tensor.shape)}, {"bytes", OrNull(tensor.bytes)},
      {"begin", tensor.begin},         {"end", tensor.end},
      {"storage", tensor.storage}};
  if (!tensor.bytes_formula.empty()) {
    json["bytes_formula"] = tensor.bytes_formula;
  }
  if (tensor.graph != 0) json["graph"] = tensor.graph;
  return json;
}

Json ToJson(const ReportNode& node) {
  Json json = {{"index", node.index},
               {"name", node.name},
               {"op", node.op},
               {"output_bytes", OrNull(node.output_bytes)},
               {"live_bytes", node.live_bytes},
               {"flops", OrNull(node.flops)},
               {"traffic_bytes", OrNull(node.traffic_bytes)}};
  if (node.graph != 0) json["graph"] = node.graph;
  return json;
}

Json ToJson(const ReportPass& pass) {
  return {{"name", pass.name},
          {"changed", pass.changed},
          {"seconds", pass.seconds},
          {"remarks", pass.remarks}};
}

Json ToJson(const ReportSweepPoint& point) {
  Json dims = Json::object();
  for (const auto& [name, value] : point.dims) dims[name] = value;
  return {{"dims", dims},
          {"weights_bytes", point.weights_bytes},
          {"before", ToJson(point.before)},
          {"after", ToJson(point.after)}};
}

// Names in a model need not be UTF-8: what is not becomes U+FFFD.
std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

template <typename T>
Json ListToJson(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(ToJson(item));
  return list;
}

// The last members of the report, one row a line: a large model's rows are
// never all in memory as JSON values, and are found by line.
template <typename T>
void AppendRows(absl::string_view key, const std::vector<T>& rows,
                std::string* out) {
  absl::StrAppend(out, ",\n \"", key, "\": [");
  const char* separator = "\n  ";
  for (const T& row : rows) {
    absl::StrAppend(out, separator, Dump(ToJson(row), /*indent=*/-1));
    separator = ",\n  ";
  }
  absl::StrAppend(out, rows.empty() ? "]" : "\n ]");
}

// One member of all items, without spaces, on a line of its own.
template <typename Item, typename Field>
void AppendColumn(absl::string_view key, const std::vector<Item>& items,
                  Field Item::* field, std::string* out) {
  absl::StrAppend(out, out->back() == '{' ? "" : ",", "\n    \"", key, "\": [");
  const char* separator = "";
  for (const Item& item : items) {
    if constexpr (std::is_integral_v<Field>) {
      absl::StrAppend(out, separator, item.*field);
    } else {
      absl::StrAppend(out, separator, Dump(Json(item.*field), /*indent=*/-1));
    }
    separator = ",";
  }
  out->append("]");
}

// By column, since it has an item for each node and each activation, twice.
void AppendProfile(absl::string_view key, const ReportProfile& profile,
                   std::string* out) {
  absl::StrAppend(out, "\n  \"", key,
                  "\": {\n   \"arena_bytes\": ", profile.arena_bytes,
                  ",\n   \"steps\": {");
  AppendColumn("name", profile.steps, &ReportStep::name, out);
  AppendColumn("op", profile.steps, &ReportStep::op, out);
  AppendColumn("graph", profile.steps, &ReportStep::graph, out);
  AppendColumn("live_bytes", profile.steps, &ReportStep::live_bytes, out);
  out->append("\n   },\n   \"buffers\": {");
  AppendColumn("tensor", profile.buffers, &ReportBuffer::tensor, out);
  AppendColumn("begin", profile.buffers, &ReportBuffer::begin, out);
  AppendColumn("end", profile.buffers, &ReportBuffer::end, out);
  AppendColumn("bytes", profile.buffers, &ReportBuffer::bytes, out);
  AppendColumn("offset_bytes", profile.buffers, &ReportBuffer::offset_bytes,
               out);
  out->append("\n   }\n  }");
}

}  // namespace

std::string ReportToJson(const Report& report, absl::string_view tool_version) {
  Json dims = Json::object();
  for (const ReportDim& dim : report.dims) {
    dims[dim.name] = {{"value", dim.value}, {"assumed", dim.assumed}};
  }
  const Json json = {
      {"schema_version", kReportSchemaVersion},
      {"tool",
       {{"name", "onnx-memopt"}, {"version", std::string(tool_version)}}},
      {"model",
       {{"path", report.model.path},
        {"sha256", report.model.sha256},
        {"opset", report.model.opset},
        {"ir_version", report.model.ir_version},
        {"nodes", report.model.nodes},
        {"size_bytes", report.model.size_bytes}}},
      {"dims", dims},
      {"complete", report.complete},
      {"unknown_tensors", report.unknown_tensors},
      {"weights",
       {{"bytes", report.weights.bytes},
        {"count", report.weights.count},
        {"duplicate_bytes", report.weights.duplicate_bytes},
        {"transposed_bytes", report.weights.transposed_bytes},
        {"after_bytes", report.weights_after_bytes},
        {"notes", report.weights.notes}}},
      {"inputs_bytes", report.inputs_bytes},
      {"total_flops", report.total_flops},
      {"before", ToJson(report.before)},
      {"after", ToJson(report.after)},
      {"time_ratio", report.time_ratio ? Json(InThousandths(*report.time_ratio))
                                       : Json(nullptr)},
      {"budget", ToJson(report.budget)},
      {"checkpoints", ListToJson(report.checkpoints)},
      {"pareto", ListToJson(report.pareto)},
      {"session_options", SessionsToJson(report)},
      {"at_peak", ListToJson(report.at_peak)},
      {"passes", ListToJson(report.passes)},
      {"sweep", ListToJson(report.sweep)},
      {"warnings", report.warnings},
      {"outputs", report.outputs},
  };
  std::string out = Dump(json, /*indent=*/1);
  out.resize(out.size() - 2);  // the object goes on
  AppendRows("nodes", report.nodes, &out);
  AppendRows("inner_nodes", report.inner_nodes, &out);
  AppendRows("tensors", report.tensors, &out);
  out.append(",\n \"profile\": {");
  AppendProfile("before", report.profile_before, &out);
  out.append(",");
  if (report.profile_after) {
    AppendProfile("after", *report.profile_after, &out);
  } else {
    out.append("\n  \"after\": null");
  }
  out.append("\n }");
  out.append("\n}\n");
  return out;
}

}  // namespace onnx_memopt
