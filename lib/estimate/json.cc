// An estimate as JSON; docs/estimating.md lists the fields.
#include "nlohmann/json.hpp"

#include <string>
#include <vector>

#include "onnx_memopt/estimate_report.h"

namespace onnx_memopt {
namespace {

using Json = nlohmann::ordered_json;

Json Terms(const std::vector<EstimateTerm>& terms) {
  Json list = Json::array();
  for (const EstimateTerm& term : terms) {
    list.push_back({{"name", term.name},
                    {"bytes", term.bytes},
                    {"formula", term.formula}});
  }
  return list;
}

Json ToJson(const EstimateAdvice& row) {
  return {{"change", row.change},
          {"flags", row.flags},
          {"cost", row.cost},
          {"total_bytes", row.total_bytes},
          {"saved_bytes", row.saved_bytes}};
}

Json ToJson(const EstimateGpuRow& row) {
  return {{"gpus", row.gpus},
          {"units", row.units},
          {"parameters", row.parameters},
          {"states_bytes", row.states_bytes},
          {"activation_bytes", row.saved_bytes},
          {"in_flight", row.in_flight},
          {"live_peak_bytes", row.live_peak_bytes},
          {"total_bytes", row.total_bytes},
          {"host_bytes", row.host_bytes},
          {"fullest", row.fullest}};
}

Json ToJson(const EstimateFit& fit) {
  return {
      {"gpu", fit.gpu},
      {"class", fit.kind},
      {"memory_bytes", fit.memory_bytes},
      {"bandwidth_gbs", fit.bandwidth_gbs},
      {"nvlink_gbs", fit.nvlink_gbs},
      {"tflops",
       {{"fp32", fit.tflops_32},
        {"tf32", fit.tflops_tf32},
        {"fp16", fit.tflops_16},
        {"fp8", fit.tflops_8}}},
      {"source", {{"title", fit.source}, {"address", fit.address}}},
      {"fits", fit.fits},
      {"free_bytes", fit.free_bytes},
      {"changes", fit.changes},
      {"flags", fit.flags},
      {"changed_total_bytes",
       fit.changes.empty() ? Json(nullptr) : Json(fit.changed_total_bytes)}};
}

Json ToJson(const EstimateCheckpoint& c) {
  return {{"first", c.first},
          {"last", c.last},
          {"units", c.units},
          {"flops", c.flops}};
}

Json ToJson(const EstimateCurvePoint& point) {
  return {{"flags", point.flags},
          {"total_bytes", point.total_bytes},
          {"overhead", point.overhead}};
}

Json ToJson(const EstimateAllocators& a) {
  return {{"caching_allocated_bytes", a.caching_allocated_bytes},
          {"caching_reserved_bytes", a.caching_reserved_bytes},
          {"expandable_reserved_bytes", a.expandable_reserved_bytes},
          {"idle_bytes", a.idle_bytes},
          {"tensorflow_reserved_bytes", a.tensorflow_reserved_bytes},
          {"runtime_reserved_bytes", a.runtime_reserved_bytes},
          {"runtime_same_reserved_bytes", a.runtime_same_reserved_bytes},
          {"advice", a.advice}};
}

Json Timeline(const std::vector<EstimatePoint>& points) {
  Json list = Json::array();
  for (const EstimatePoint& point : points) {
    list.push_back({{"phase", point.phase},
                    {"unit", point.unit},
                    {"recompute", point.recompute},
                    {"live_bytes", point.live_bytes}});
  }
  return list;
}

Json ToJson(const EstimateUnit& unit) {
  return {{"name", unit.name},
          {"op", unit.op},
          {"saved_bytes", unit.saved_bytes},
          {"flops", unit.flops},
          {"cut", unit.cut}};
}

template <typename Rows>
Json List(const Rows& rows) {
  Json list = Json::array();
  for (const auto& row : rows) list.push_back(ToJson(row));
  return list;
}

}  // namespace

std::string EstimateToJson(const EstimateReport& r,
                           const std::string& tool_version) {
  Json dims = Json::object();
  for (const auto& [name, size] : r.dims) dims[name] = size;
  Json tensors = Json::array();
  for (const EstimateTensor& tensor : r.at_peak) {
    tensors.push_back({{"name", tensor.name},
                       {"category", tensor.category},
                       {"bytes", tensor.bytes}});
  }
  Json buckets = Json::array();
  for (const EstimateBucket& bucket : r.buckets) {
    buckets.push_back({{"length", bucket.length}, {"batch", bucket.batch}});
  }
  Json json = {
      {"schema_version", kEstimateSchemaVersion},
      {"tool", {{"name", "onnx-memopt"}, {"version", tool_version}}},
      {"model", r.path},
      {"parameters", r.parameters},
      {"constant_bytes", r.constant_bytes},
      {"training", r.training},
      {"setup", r.setup},
      {"batch", r.batch},
      {"dims", dims},
      {"gpus", r.gpus},
      {"total_bytes", r.total_bytes},
      {"live_peak_bytes", r.live_peak_bytes},
      {"terms", Terms(r.terms)},
      {"peak", {{"phase", r.peak_phase}, {"unit", r.peak_unit}}},
      {"saved_activation_bytes", r.saved_activation_bytes},
      {"activation_bytes_a_sample", r.activation_bytes_a_sample},
      {"recompute_overhead", r.recompute_overhead},
      {"checkpoints", List(r.checkpoints)},
      {"checkpoint_curve", List(r.checkpoint_curve)},
      {"allocators", ToJson(r.allocators)},
      {"timeline", Timeline(r.timeline)},
      {"at_peak", tensors},
      {"units", List(r.units)},
      {"per_gpu", List(r.per_gpu)},
      {"pooled_bytes", r.pooled_bytes},
      {"host_bytes", r.host_bytes},
      {"rule_of_thumb",
       {{"bytes", r.rule_of_thumb_bytes},
        {"terms", Terms(r.rule_of_thumb)},
        {"notes", r.rule_of_thumb_notes}}},
      {"published", Terms(r.published)},
      {"budget_bytes", r.budget_bytes ? Json(*r.budget_bytes) : Json(nullptr)},
      {"budget", r.budget_name},
      {"fits_budget",
       r.budget_bytes ? Json(r.total_bytes <= *r.budget_bytes) : Json(nullptr)},
      {"max_batch", r.max_batch ? Json(*r.max_batch) : Json(nullptr)},
      {"max_length", r.max_length ? Json(*r.max_length) : Json(nullptr)},
      {"buckets", {{"dimension", r.length_name}, {"rows", buckets}}},
      {"fits", List(r.fits)},
      {"advice", List(r.advice)},
      {"combination", r.combination ? ToJson(*r.combination) : Json(nullptr)},
      {"notes", r.notes}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace onnx_memopt
