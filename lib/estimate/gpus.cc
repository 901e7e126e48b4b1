#include "onnx_memopt/estimate/gpus.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "estimate/gpus_json.h"
#include "nlohmann/json.hpp"
#include "onnx_memopt/support/near_names.h"

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
  std::vector<std::string> keys;
  for (const Gpu& gpu : AllGpus()) keys.push_back(Key(gpu.name));
  std::vector<std::string> names;
  for (const size_t i : NearNames(Key(name.substr(0, 64)), keys, count)) {
    names.push_back(AllGpus()[i].name);
  }
  return names;
}

}  // namespace onnx_memopt::estimate
