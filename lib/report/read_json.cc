#include "onnx_memopt/report/read_json.h"

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt {
namespace {

using Json = nlohmann::json;

// Reads a document and keeps the first error, so that those who ask need not
// look after each field.
class Reader {
 public:
  const absl::Status& status() const { return status_; }

  // Null, after an error, if there is no such object.
  const Json& Object(const Json& parent, const std::string& where,
                     const char* key) {
    const Json& json = Member(parent, where, key);
    if (!json.is_object()) Fail(where, key, "an object");
    return json;
  }
  const Json& List(const Json& parent, const std::string& where,
                   const char* key) {
    const Json& json = Member(parent, where, key);
    if (json.is_array()) return json;
    Fail(where, key, "a list");
    return empty_list_;
  }
  std::string Text(const Json& parent, const std::string& where,
                   const char* key) {
    const Json& json = Member(parent, where, key);
    if (json.is_string()) return json.get<std::string>();
    Fail(where, key, "a string");
    return "";
  }
  std::string TextOrNull(const Json& parent, const std::string& where,
                         const char* key) {
    return Member(parent, where, key).is_null() ? "" : Text(parent, where, key);
  }
  bool Bool(const Json& parent, const std::string& where, const char* key) {
    const Json& json = Member(parent, where, key);
    if (json.is_boolean()) return json.get<bool>();
    Fail(where, key, "true or false");
    return false;
  }
  int64_t Number(const Json& parent, const std::string& where, const char* key,
                 int64_t least = 0) {
    const std::optional<int64_t> number =
        Integer(Member(parent, where, key), least);
    if (!number) Fail(where, key, "a whole number");
    return number.value_or(0);
  }
  std::optional<int64_t> NumberOrNull(const Json& parent,
                                      const std::string& where,
                                      const char* key) {
    if (Member(parent, where, key).is_null()) return std::nullopt;
    return Number(parent, where, key);
  }
  std::vector<std::string> Texts(const Json& parent, const std::string& where,
                                 const char* key) {
    std::vector<std::string> texts;
    for (const Json& json : List(parent, where, key)) {
      if (json.is_string()) {
        texts.push_back(json.get<std::string>());
      } else {
        Fail(where, key, "a list of strings");
      }
    }
    return texts;
  }

  static std::optional<int64_t> Integer(const Json& json, int64_t least) {
    if (!json.is_number_integer()) return std::nullopt;
    if (json.is_number_unsigned() &&
        json.get<uint64_t>() >
            static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return std::nullopt;
    }
    const auto number = json.get<int64_t>();
    if (number < least) return std::nullopt;
    return number;
  }

  void Fail(const std::string& where, const std::string& key,
            const char* expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(where, Printable(key), ": expected ", expected));
  }

 private:
  const Json& Member(const Json& parent, const std::string& where,
                     const char* key) {
    if (!parent.is_object()) return null_;
    const auto it = parent.find(key);
    if (it == parent.end()) {
      Fail(where, key, "it to be there");
      return null_;
    }
    return *it;
  }

  absl::Status status_;
  const Json null_;
  const Json empty_list_ = Json::array();
};

ReportRuntimePeaks ReadRuntime(Reader& reader, const Json& json,
                               const std::string& where) {
  return {.first_peak_bytes = reader.Number(json, where, "first_peak_bytes"),
          .steady_peak_bytes = reader.Number(json, where, "steady_peak_bytes")};
}

ReportPeak ReadPeak(Reader& reader, const Json& json,
                    const std::string& where) {
  ReportPeak peak{
      .live_peak_bytes = reader.Number(json, where, "live_peak_bytes"),
      .packed_peak_bytes = reader.Number(json, where, "packed_peak_bytes"),
      .total_bytes = reader.Number(json, where, "total_bytes"),
      .peak_step = reader.Number(json, where, "peak_step", /*least=*/-1),
      .peak_node = reader.Text(json, where, "peak_node"),
      .peak_op = reader.Text(json, where, "peak_op")};
  const Json& runtime = reader.Object(json, where, "runtime");
  const std::string inside = where + "runtime.";
  peak.runtime_bare = ReadRuntime(
      reader, reader.Object(runtime, inside, "bare"), inside + "bare.");
  peak.runtime_default = ReadRuntime(
      reader, reader.Object(runtime, inside, "default"), inside + "default.");
  return peak;
}

std::optional<ReportPeak> ReadPeakOrNull(Reader& reader, const Json& parent,
                                         const std::string& where,
                                         const char* key) {
  const auto it = parent.find(key);
  if (it != parent.end() && it->is_null()) return std::nullopt;
  return ReadPeak(reader, reader.Object(parent, where, key),
                  absl::StrCat(where, key, "."));
}

std::vector<ReportTensor> ReadTensors(Reader& reader, const Json& parent,
                                      const char* key) {
  const std::string where = absl::StrCat(key, "[].");
  std::vector<ReportTensor> tensors;
  for (const Json& json : reader.List(parent, "", key)) {
    ReportTensor tensor{.name = reader.Text(json, where, "name"),
                        .producer = reader.TextOrNull(json, where, "producer"),
                        .kind = reader.Text(json, where, "kind"),
                        .dtype = reader.TextOrNull(json, where, "dtype"),
                        .shape = reader.TextOrNull(json, where, "shape"),
                        .bytes = reader.NumberOrNull(json, where, "bytes"),
                        .begin = reader.Number(json, where, "begin"),
                        .end = reader.Number(json, where, "end"),
                        .storage = reader.Number(json, where, "storage")};
    if (json.is_object() && json.contains("graph")) {
      tensor.graph = reader.Number(json, where, "graph");
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::vector<ReportPass> ReadPasses(Reader& reader, const Json& parent) {
  std::vector<ReportPass> passes;
  for (const Json& json : reader.List(parent, "", "passes")) {
    passes.push_back({.name = reader.Text(json, "passes[].", "name"),
                      .changed = reader.Bool(json, "passes[].", "changed"),
                      .remarks = reader.Texts(json, "passes[].", "remarks")});
  }
  return passes;
}

std::vector<ReportSweepPoint> ReadSweep(Reader& reader, const Json& parent) {
  const std::string where = "sweep[].";
  std::vector<ReportSweepPoint> sweep;
  for (const Json& json : reader.List(parent, "", "sweep")) {
    if (!json.is_object()) {
      reader.Fail("", "sweep[]", "an object");
      break;
    }
    ReportSweepPoint point;
    for (const auto& [name, size] :
         reader.Object(json, where, "dims").items()) {
      const std::optional<int64_t> value = Reader::Integer(size, 1);
      if (!value) reader.Fail("sweep[].dims.", name, "a positive number");
      point.dims.emplace_back(name, value.value_or(0));
    }
    point.weights_bytes = reader.Number(json, where, "weights_bytes");
    point.before = ReadPeak(reader, reader.Object(json, where, "before"),
                            where + "before.");
    point.after = ReadPeakOrNull(reader, json, where, "after");
    sweep.push_back(std::move(point));
  }
  return sweep;
}

}  // namespace

absl::StatusOr<Report> ReportFromJson(absl::string_view text) {
  const Json json = Json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                                /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("schema_version")) {
    return absl::InvalidArgumentError("this is no JSON report of onnx-memopt");
  }
  Reader reader;
  if (reader.Number(json, "", "schema_version") != kReportSchemaVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("schema_version: expected ", kReportSchemaVersion));
  }
  Report report;
  const Json& model = reader.Object(json, "", "model");
  report.model = {.path = reader.Text(model, "model.", "path"),
                  .sha256 = reader.Text(model, "model.", "sha256"),
                  .opset = reader.Number(model, "model.", "opset"),
                  .nodes = reader.Number(model, "model.", "nodes"),
                  .size_bytes = reader.Number(model, "model.", "size_bytes")};
  for (const auto& [name, dim] : reader.Object(json, "", "dims").items()) {
    report.dims.push_back({.name = name,
                           .value = reader.Number(dim, "dims.*.", "value"),
                           .assumed = reader.Bool(dim, "dims.*.", "assumed")});
  }
  report.complete = reader.Bool(json, "", "complete");
  report.unknown_tensors = reader.Texts(json, "", "unknown_tensors");
  const Json& weights = reader.Object(json, "", "weights");
  report.weights.bytes = reader.Number(weights, "weights.", "bytes");
  report.weights.count = reader.Number(weights, "weights.", "count");
  report.weights_after_bytes =
      reader.Number(weights, "weights.", "after_bytes");
  report.inputs_bytes = reader.Number(json, "", "inputs_bytes");
  report.total_flops = reader.Number(json, "", "total_flops");
  report.before =
      ReadPeak(reader, reader.Object(json, "", "before"), "before.");
  report.after = ReadPeakOrNull(reader, json, "", "after");
  report.at_peak = ReadTensors(reader, json, "at_peak");
  report.passes = ReadPasses(reader, json);
  report.sweep = ReadSweep(reader, json);
  report.warnings = reader.Texts(json, "", "warnings");
  report.tensors = ReadTensors(reader, json, "tensors");
  if (!reader.status().ok()) return reader.status();
  return report;
}

}  // namespace onnx_memopt
