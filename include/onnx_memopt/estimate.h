// How much memory a model takes in training or serving, from the graph alone:
// weights are not read, nothing is run.
//
//   EstimateOptions options{.batch = 32, .optimizer = "adam",
//                           .precision = "fp16", .gpu = "A100-80GB"};
//   absl::StatusOr<EstimateReport> report = Estimate("model.onnx", options);
//   std::cout << EstimateToText(*report);
//
// Errors: kOutOfRange for options that do not fit (a wrong name, a degree that
// does not divide), anything else for the model file.
#ifndef ONNX_MEMOPT_ESTIMATE_H_
#define ONNX_MEMOPT_ESTIMATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "onnx_memopt/estimate_report.h"

namespace onnx_memopt {

struct EstimateOptions {
  // Sizes of named dimensions of the inputs; all but the batch must be given.
  std::map<std::string, int64_t> dims;
  std::string external_dir;
  // Samples that one GPU works on at a time; not given: the model's own.
  std::optional<int64_t> batch;
  // The named dimension that is the batch; empty: the first of the inputs.
  std::string batch_dim;

  bool training = true;  // else serving: forward alone
  std::string optimizer = "adam";
  std::string precision = "fp32";
  std::string loss = "auto";  // "cross-entropy", "mse", "none"
  // "selective", "full", "sqrt", a number of blocks; a size ("8GiB"): the least
  // that keeps the total below it; "fit": below the GPU's memory.
  std::string checkpoint = "none";
  std::string attention = "graph";  // as the graph has it; "fused"
  int64_t accumulate = 1;

  int64_t data_parallel = 1;
  int zero = 0;
  bool offload_optimizer = false;
  bool offload_parameters = false;
  int64_t tensor_parallel = 1;
  bool sequence_parallel = false;
  int64_t pipeline_parallel = 1;
  int64_t micro_batches = 1;
  std::string schedule = "1f1b";  // "gpipe"

  std::string gpu;                      // a name, "all", or empty
  std::optional<int64_t> memory_bytes;  // in place of a GPU
  bool max_batch = false;
};

absl::StatusOr<EstimateReport> Estimate(const std::string& path,
                                        const EstimateOptions& options);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_ESTIMATE_H_
