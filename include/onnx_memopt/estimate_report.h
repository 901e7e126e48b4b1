// What an estimate says, as plain data; docs/estimating.md explains it.
// lib/estimate writes it as text and as JSON.
//
//   std::cout << EstimateToText(report);
#ifndef ONNX_MEMOPT_ESTIMATE_REPORT_H_
#define ONNX_MEMOPT_ESTIMATE_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace onnx_memopt {

inline constexpr int kEstimateSchemaVersion = 1;

struct EstimateTerm {
  std::string name;
  int64_t bytes = 0;
  std::string formula;
};

// Of one stage of the pipeline; all its GPUs have the same.
struct EstimateGpuRow {
  std::string gpus;          // "0", "0-3"
  std::string units;         // the part of the model
  int64_t parameters = 0;    // numbers, before ZeRO
  int64_t states_bytes = 0;  // weights, gradients, optimizer, on the GPU
  int64_t saved_bytes = 0;   // of all micro-batches in flight
  int64_t in_flight = 1;
  int64_t live_peak_bytes = 0;
  int64_t total_bytes = 0;
  int64_t host_bytes = 0;
  bool fullest = false;
};

struct EstimatePoint {
  std::string phase;
  std::string unit;  // empty where it is no unit of the model
  bool recompute = false;
  int64_t live_bytes = 0;
};

// A unit of the model: a node, or several that run as one operator.
struct EstimateUnit {
  std::string name;
  std::string op;
  int64_t saved_bytes = 0;  // that its backward frees
  int64_t flops = 0;        // forward
  // One activation crosses before it: a block to checkpoint may begin here.
  bool cut = false;
};

struct EstimateTensor {
  std::string name;
  std::string category;
  int64_t bytes = 0;
};

// Units that are not kept but computed again.
struct EstimateCheckpoint {
  std::string first;  // names of units
  std::string last;
  int64_t units = 0;
  int64_t flops = 0;  // of computing them again
};

// A point of the curve of memory against recomputation.
struct EstimateCurvePoint {
  std::string flags;
  int64_t total_bytes = 0;
  double overhead = 0;  // a part of a step's arithmetic
};

// What allocators take from the device for the same step.
struct EstimateAllocators {
  int64_t caching_allocated_bytes = 0;      // PyTorch's: rounded
  int64_t caching_reserved_bytes = 0;       // and fragmented
  int64_t expandable_reserved_bytes = 0;    // with expandable segments
  int64_t idle_bytes = 0;                   // what empty_cache() gives back
  int64_t tensorflow_reserved_bytes = 0;    // with memory growth
  int64_t runtime_reserved_bytes = 0;       // ONNX Runtime's arena
  int64_t runtime_same_reserved_bytes = 0;  // with kSameAsRequested
  std::vector<std::string> advice;
};

struct EstimateAdvice {
  std::string change;
  std::string flags;  // on the command line; empty: a change of the model
  std::string cost;
  int64_t total_bytes = 0;
  int64_t saved_bytes = 0;  // against the estimate as asked for
};

struct EstimateFit {
  std::string gpu;
  std::string kind;
  int64_t memory_bytes = 0;
  double bandwidth_gbs = 0;
  double nvlink_gbs = 0;
  // Dense; 0: not supported, or not fast.
  double tflops_32 = 0;
  double tflops_tf32 = 0;
  double tflops_16 = 0;
  double tflops_8 = 0;
  std::string source;  // of these figures: the vendor's document
  std::string address;
  bool fits = false;
  int64_t free_bytes = 0;  // negative: what is missing
  // Where it does not fit: the cheapest changes that make it fit; empty: none
  // that are known here.
  std::vector<std::string> changes;
  std::string flags;
  int64_t changed_total_bytes = 0;
};

struct EstimateBucket {
  int64_t length = 0;
  int64_t batch = 0;
};

struct EstimateReport {
  std::string path;
  int64_t parameters = 0;
  int64_t constant_bytes = 0;
  int64_t batch = 1;
  std::string batch_source;  // how the batch is known: a name, or a number
  std::vector<std::pair<std::string, int64_t>> dims;
  bool training = true;
  std::string setup;  // "Adam, fp16, batch 8, 4 GPUs: ..."
  int64_t gpus = 1;

  // Of the fullest GPU, at its peak.
  std::vector<EstimateTerm> terms;
  int64_t live_peak_bytes = 0;
  EstimateAllocators allocators;
  int64_t total_bytes = 0;
  int64_t saved_activation_bytes = 0;  // of one micro-batch
  int64_t activation_bytes_a_sample = 0;
  double recompute_overhead = 0;
  std::vector<EstimateCheckpoint> checkpoints;
  // From no recomputation to the least memory.
  std::vector<EstimateCurvePoint> checkpoint_curve;
  std::string peak_phase;
  std::string peak_unit;
  std::vector<EstimatePoint> timeline;
  std::vector<EstimateUnit> units;
  std::vector<EstimateTensor> at_peak;  // the largest first
  std::vector<EstimateGpuRow> per_gpu;
  int64_t pooled_bytes = 0;  // all GPUs together
  int64_t host_bytes = 0;    // offloaded, all GPUs together

  std::vector<EstimateTerm> rule_of_thumb;  // its summands
  int64_t rule_of_thumb_bytes = 0;
  std::vector<std::string> rule_of_thumb_notes;  // why it is off
  std::vector<EstimateTerm> published;  // others' formulas for this set-up

  std::optional<int64_t> budget_bytes;
  std::string budget_name;  // "A100-80GB", "24 GiB"
  std::optional<int64_t> max_batch;
  std::string length_name;            // the dimension of `buckets`
  std::optional<int64_t> max_length;  // for the batch that was asked for
  std::vector<EstimateBucket> buckets;
  std::vector<EstimateFit> fits;
  std::vector<EstimateAdvice> advice;  // the largest effect first
  std::optional<EstimateAdvice> combination;
  std::vector<std::string> notes;

  // Files for other tools.
  std::string deepspeed_json;
  std::string accelerate_yaml;
};

// At most 80 columns.
std::string EstimateToText(const EstimateReport& report);
std::string EstimateToJson(const EstimateReport& report,
                           const std::string& tool_version);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_ESTIMATE_REPORT_H_
