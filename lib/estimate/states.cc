#include "onnx_memopt/estimate/states.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::estimate {
namespace {

constexpr std::array<PrecisionRow, 7> kPrecisions = {{
    {"fp32", 4, 4, 0, 4, 4, false, "everything in float32"},
    {"fp16", 2, 2, 4, 4, 2, false,
     "float16 with float32 master weights and optimizer state"},
    {"bf16", 2, 2, 4, 4, 2, false,
     "bfloat16 with float32 master weights and optimizer state"},
    {"autocast-fp16", 4, 4, 0, 4, 2, true,
     "float32 weights, float16 in what torch.autocast runs in it"},
    {"autocast-bf16", 4, 4, 0, 4, 2, true,
     "float32 weights, bfloat16 in what torch.autocast runs in it"},
    {"bf16-pure", 2, 2, 0, 2, 2, false,
     "everything in bfloat16, no master weights"},
    {"fp8", 1, 2, 4, 4, 2, false,
     "8-bit weights, bfloat16 gradients and activations, float32 master "
     "weights and optimizer state"},
}};

constexpr std::array<OptimizerRow, 7> kOptimizers = {{
    {"sgd", StateKind::kPerElement, 0, 0, "0"},
    {"momentum", StateKind::kPerElement, 1, 0, "N * state"},
    {"adam", StateKind::kPerElement, 2, 1, "2 N * state"},
    {"adamw", StateKind::kPerElement, 2, 1, "2 N * state"},
    {"adafactor", StateKind::kFactored, 1, 1,
     "(rows + columns) * state a matrix"},
    {"adam8bit", StateKind::kBlockwise8, 2, 0,
     "2 N * 1 B + 4 B for each 256 of them"},
    {"lion", StateKind::kPerElement, 1, 1, "N * state"},
}};

// bitsandbytes: state of smaller tensors stays in float32.
constexpr int64_t kSmallest8BitTensor = 4096;
constexpr int64_t kBlock = 256;

template <typename Rows>
auto Find(const Rows& rows, absl::string_view name) {
  const auto it = std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
    return row.name == name;
  });
  return it == rows.end() ? nullptr : &*it;
}

int64_t Times(int64_t a, int64_t b) {
  return CheckedMul(a, b).value_or(INT64_MAX);
}

}  // namespace

absl::Span<const PrecisionRow> AllPrecisions() { return kPrecisions; }
absl::Span<const OptimizerRow> AllOptimizers() { return kOptimizers; }
const PrecisionRow* FindPrecision(absl::string_view name) {
  return Find(kPrecisions, name);
}
const OptimizerRow* FindOptimizer(absl::string_view name) {
  return Find(kOptimizers, name);
}

int64_t OptimizerStateBytes(const OptimizerRow& optimizer,
                            const PrecisionRow& precision,
                            absl::Span<const int64_t> dims) {
  int64_t elements = 1;
  for (int64_t dim : dims) elements = Times(elements, dim);
  switch (optimizer.kind) {
    case StateKind::kPerElement:
      break;
    case StateKind::kFactored: {
      if (dims.size() < 2) break;
      const int64_t rows = dims[dims.size() - 2];
      const int64_t columns = dims.back();
      if (rows == 0 || columns == 0) return 0;
      const int64_t matrices = elements / rows / columns;
      return Times(Times(matrices, SaturatingAdd(rows, columns)),
                   precision.state_bytes);
    }
    case StateKind::kBlockwise8: {
      if (elements < kSmallest8BitTensor) {
        return Times(elements, Times(optimizer.moments, 4));
      }
      const int64_t scales = Times(4, CeilDiv(elements, kBlock));
      return Times(optimizer.moments, SaturatingAdd(elements, scales));
    }
  }
  return Times(elements, Times(optimizer.moments, precision.state_bytes));
}

StateBytes Partition(const StateBytes& whole, const ZeroOptions& zero) {
  StateBytes part = whole;
  const int64_t ranks = std::max<int64_t>(zero.ranks, 1);
  if (zero.level >= 1) {
    part.master = CeilDiv(part.master, ranks);
    part.optimizer = CeilDiv(part.optimizer, ranks);
  }
  if (zero.level >= 2) part.gradients = CeilDiv(part.gradients, ranks);
  if (zero.level >= 3) part.parameters = CeilDiv(part.parameters, ranks);
  if (zero.offload_optimizer) {
    part.master = 0;
    part.optimizer = 0;
    // Partitioned gradients follow the optimizer that reads them.
    if (zero.level >= 2) part.gradients = 0;
  }
  if (zero.offload_parameters && zero.level >= 3) part.parameters = 0;
  return part;
}

int64_t OffloadedBytes(const StateBytes& whole, const ZeroOptions& zero) {
  ZeroOptions kept = zero;
  kept.offload_optimizer = false;
  kept.offload_parameters = false;
  const StateBytes with = Partition(whole, kept);
  const StateBytes without = Partition(whole, zero);
  return SaturatingAdd(SaturatingAdd(with.parameters - without.parameters,
                                     with.gradients - without.gradients),
                       SaturatingAdd(with.master - without.master,
                                     with.optimizer - without.optimizer));
}

}  // namespace onnx_memopt::estimate
