// The numbers of the time model: how long kernels of ONNX Runtime's CPU
// provider take, by kind. They are of one kind of machine (kMachine), with two
// threads; bench/fit_time.py finds them on another one, and says how well they
// fit. Ratios of two models on one machine depend on them little.
#ifndef ONNX_MEMOPT_LIB_ANALYSIS_TIME_FACTS_H_
#define ONNX_MEMOPT_LIB_ANALYSIS_TIME_FACTS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "onnx_memopt/analysis/time_model.h"

namespace onnx_memopt::analysis::time_facts {

inline constexpr const char kMachine[] =
    "x86-64 with AVX-512, 2 cores with 2 MiB of second-level cache each";

// Seconds of a node = fixed + flops * flop + weights * weight + near * near
// + far * far.
struct Row {
  KernelKind kind;
  absl::string_view name;
  double fixed_us;   // a call
  double flop_ps;    // a floating-point operation
  double weight_ps;  // a byte of weights
  double near_ps;    // a byte of operands and results, up to kNearBytes
  double far_ps;     // a byte beyond
};

inline constexpr Row kRows[] = {
    {KernelKind::kView, "view", 0.5, 0, 0, 0, 0},
    {KernelKind::kMove, "move", 2.3, 0, 0, 7.7, 54},
    {KernelKind::kElementwise, "elementwise", 1.6, 0, 0, 18, 24},
    {KernelKind::kTranscendental, "transcendental", 2.0, 0, 0, 36, 42},
    {KernelKind::kModerate, "moderate", 1.9, 6.6, 0, 31, 17},
    {KernelKind::kLrn, "lrn", 1.9, 760, 0, 0, 0},
    {KernelKind::kProduct, "product", 10, 3.2, 31, 0, 91},
    {KernelKind::kBatchedProduct, "batched-product", 5, 1.4, 0, 54, 67},
    {KernelKind::kConv, "conv", 10, 2.7, 34, 69, 49},
    {KernelKind::kPointwiseConv, "pointwise-conv", 5.9, 2.8, 31, 17, 5.7},
    {KernelKind::kDepthwiseConv, "depthwise-conv", 10, 1.4, 231, 18, 20},
};

// What one node reads and writes up to here is in the cache.
inline constexpr int64_t kNearBytes = 2 << 20;

// A body whose weights are no more reads them from the cache, at this part of
// the time; found on bert in parts.
inline constexpr int64_t kNearWeightBytes = 64 << 20;
inline constexpr double kNearWeights = 0.5;

// One trip of a body, beside its nodes; and one run of a node with bodies.
inline constexpr double kTripUs = 0.5;
inline constexpr double kBodyUs = 10;
// A byte that is copied to or from a stack of slices.
inline constexpr double kStackPs = 50;

// A convolution whose filters the runtime could not lay out beforehand.
inline constexpr double kUnpackedConv = 1.5;
// A byte of weights that is laid out in every run.
inline constexpr double kUnpackedWeightPs = 100;

}  // namespace onnx_memopt::analysis::time_facts

#endif  // ONNX_MEMOPT_LIB_ANALYSIS_TIME_FACTS_H_
