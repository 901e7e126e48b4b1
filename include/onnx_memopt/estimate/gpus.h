// The table of GPUs: data/gpus.json, embedded when the library is built.
//
//   const Gpu* gpu = FindGpu("a100-80gb");   // case does not matter
#ifndef ONNX_MEMOPT_ESTIMATE_GPUS_H_
#define ONNX_MEMOPT_ESTIMATE_GPUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace onnx_memopt::estimate {

struct Gpu {
  std::string name;
  std::string vendor;
  std::string kind;  // "consumer", "workstation", "data centre"
  int64_t memory_bytes = 0;
  double bandwidth_gbs = 0;
  double nvlink_gbs = 0;  // or AMD's Infinity Fabric; 0: none
  // Dense matrix arithmetic; 0: not supported, or not fast.
  double tflops_32 = 0;
  double tflops_tf32 = 0;
  double tflops_16 = 0;
  double tflops_8 = 0;
  bool bfloat16 = false;
  std::string source;  // the vendor's document
  std::string address;
};

// In the order of the file.
const std::vector<Gpu>& AllGpus();
// nullptr: not in the table.
const Gpu* FindGpu(absl::string_view name);
// Names that look like this one, the likeliest first.
std::vector<std::string> NearGpuNames(absl::string_view name, size_t count);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_ESTIMATE_GPUS_H_
