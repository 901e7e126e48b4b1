#include "estimate/allocator_advice.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "onnx_memopt/estimate/allocator.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::estimate {
namespace {

constexpr int kSteps = 2;
// What is lost below that is not worth a setting.
constexpr double kWorthwhile = 0.03;

BestFitRules RuntimeArena(bool doubles) {
  return {
      .alignment = 256, .first_region = int64_t{1} << 20, .doubles = doubles};
}

void AdvisePyTorch(int64_t live, EstimateAllocators* a) {
  const int64_t rounding = a->caching_allocated_bytes - live;
  const int64_t fragments =
      a->caching_reserved_bytes - a->caching_allocated_bytes;
  const double share =
      live > 0 ? static_cast<double>(fragments) / static_cast<double>(live) : 0;
  a->advice.push_back(absl::StrFormat(
      "PyTorch: %s reserved for %s in use; rounding takes %s, fragmentation %s "
      "(%.1f%%)",
      FormatBytes(a->caching_reserved_bytes), FormatBytes(live),
      FormatBytes(rounding), FormatBytes(fragments), 100 * share));
  const int64_t saved =
      a->caching_reserved_bytes - a->expandable_reserved_bytes;
  const bool helps =
      static_cast<double>(saved) > kWorthwhile * static_cast<double>(live);
  a->advice.push_back(absl::StrCat(
      "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: ",
      FormatBytes(a->expandable_reserved_bytes), " reserved, ",
      saved > 0 ? absl::StrCat(FormatBytes(saved), " less") : "no less",
      helps ? ": worth setting"
            : "; it helps more where sizes differ from step to step"));
  a->advice.push_back(
      a->idle_bytes > 0
          ? absl::StrCat("torch.cuda.empty_cache() between steps gives back ",
                         FormatBytes(a->idle_bytes),
                         ", which the next step takes again: it helps another "
                         "process on the GPU, or before a step of other sizes")
          : "torch.cuda.empty_cache() between steps gives back nothing: no "
            "segment is empty then");
}

}  // namespace

EstimateAllocators SimulateAllocators(const StageEstimate& stage) {
  const auto reserved = [&](const BestFitRules& rules) {
    return SimulateBfc(stage.trace, kSteps, rules).peak_reserved_bytes;
  };
  EstimateAllocators a;
  a.caching_allocated_bytes = stage.caching.peak_allocated_bytes;
  a.caching_reserved_bytes = stage.caching.peak_reserved_bytes;
  a.idle_bytes = stage.caching.idle_bytes;
  a.expandable_reserved_bytes =
      SimulateExpandable(stage.trace, kSteps).peak_reserved_bytes;
  a.tensorflow_reserved_bytes = reserved(kTensorFlowArena);
  a.runtime_reserved_bytes = reserved(RuntimeArena(/*doubles=*/true));
  a.runtime_same_reserved_bytes = reserved(RuntimeArena(/*doubles=*/false));
  AdvisePyTorch(stage.live_peak_bytes, &a);
  a.advice.push_back(absl::StrCat(
      "TensorFlow: ", FormatBytes(a.tensorflow_reserved_bytes),
      " with memory growth (TF_FORCE_GPU_ALLOW_GROWTH=true), in regions that "
      "double and are never given back; without it the whole GPU is taken at "
      "the start"));
  a.advice.push_back(absl::StrCat(
      "ONNX Runtime, for the same allocations: ",
      FormatBytes(a.runtime_reserved_bytes),
      " with arena_extend_strategy kNextPowerOfTwo (the default), ",
      FormatBytes(a.runtime_same_reserved_bytes),
      " with kSameAsRequested; gpu_mem_limit bounds it"));
  return a;
}

}  // namespace onnx_memopt::estimate
