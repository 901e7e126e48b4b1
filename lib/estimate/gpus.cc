#include "onnx_memopt/estimate/gpus.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "estimate/gpus_json.h"
#include "nlohmann/json.hpp"

namespace onnx_memopt::estimate {
namespace {

std::vector<Gpu> Parse() {
  std::vector<Gpu> gpus;
  const nlohmann::json table =
      nlohmann::json::parse(kGpusJson, nullptr, /*allow_exceptions=*/false);
  if (!table.is_object()) return gpus;
  const nlohmann::json none = nlohmann::json::object();
  const nlohmann::json sources = table.value("sources", none);
  for (const nlohmann::json& row :
       table.value("gpus", nlohmann::json::array())) {
    const nlohmann::json tflops = row.value("tflops", none);
    const nlohmann::json source = sources.value(row.value("source", ""), none);
    gpus.push_back({.name = row.value("name", ""),
                    .vendor = row.value("vendor", ""),
                    .kind = row.value("class", ""),
                    .memory_bytes = static_cast<int64_t>(
                        row.value("memory_gib", 0.0) * (1 << 30)),
                    .bandwidth_gbs = row.value("bandwidth_gbs", 0.0),
                    .nvlink_gbs = row.value("nvlink_gbs", 0.0),
                    .tflops_32 = tflops.value("fp32", 0.0),
                    .tflops_tf32 = tflops.value("tf32", 0.0),
                    .tflops_16 = tflops.value("fp16", 0.0),
                    .tflops_8 = tflops.value("fp8", 0.0),
                    .bfloat16 = tflops.contains("bf16"),
                    .source = source.value("title", ""),
                    .address = source.value("address", "")});
  }
  return gpus;
}

// Letters and digits alone: "a100 80gb" is "A100-80GB".
std::string Key(absl::string_view name) {
  std::string key;
  for (const char c : name) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c))) {
      key.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
    }
  }
  return key;
}

size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

const std::vector<Gpu>& AllGpus() {
  static const auto* const kGpus = new std::vector<Gpu>(Parse());
  return *kGpus;
}

const Gpu* FindGpu(absl::string_view name) {
  const std::string key = Key(name);
  for (const Gpu& gpu : AllGpus()) {
    if (Key(gpu.name) == key) return &gpu;
  }
  return nullptr;
}

std::vector<std::string> NearGpuNames(absl::string_view name, size_t count) {
  // A name may be anything: its beginning is enough to compare.
  const std::string key = Key(name.substr(0, 64));
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const Gpu& gpu : AllGpus()) {
    const std::string other = Key(gpu.name);
    const bool part = !key.empty() && (absl::StrContains(other, key) ||
                                       absl::StrContains(key, other));
    ranked.emplace_back(part ? 0 : EditDistance(key, other), gpu.name);
  }
  std::stable_sort(
      ranked.begin(), ranked.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(count, ranked.size()); ++i) {
    names.push_back(ranked[i].second);
  }
  return names;
}

}  // namespace onnx_memopt::estimate
