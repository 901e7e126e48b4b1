#include "onnx_memopt/analysis/packing.h"

#include "absl/strings/str_cat.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {

absl::StatusOr<Packing> Packing::Compute(const ir::Graph& /*graph*/,
                                         AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Liveness* liveness, analyses.Get<Liveness>());
  ASSIGN_OR_RETURN(const MemoryProfile* profile, analyses.Get<MemoryProfile>());
  const std::vector<Storage>& storages = liveness->storages();
  std::vector<plan::Buffer> buffers;
  std::vector<size_t> storage_of_buffer;
  for (size_t i = 0; i < storages.size(); ++i) {
    const Storage& storage = storages[i];
    if (storage.kind != StorageKind::kActivation ||
        storage.block != ir::kMainBlock || !storage.size_bytes) {
      continue;
    }
    buffers.push_back({.begin = storage.range.begin,
                       .end = storage.range.end,
                       .size_bytes = *storage.size_bytes});
    storage_of_buffer.push_back(i);
  }
  // What subgraphs allocate while their node runs.
  const std::vector<int64_t>& nested = profile->main().nested_bytes;
  for (size_t step = 0; step < nested.size(); ++step) {
    if (nested[step] == 0) continue;
    buffers.push_back({.begin = static_cast<int32_t>(step),
                       .end = static_cast<int32_t>(step) + 1,
                       .size_bytes = nested[step]});
  }
  ASSIGN_OR_RETURN(plan::OffsetPlan plan, plan::PackFirstFit(buffers));
  RETURN_IF_ERROR(plan::ValidateOffsets(buffers, plan));
  Packing packing;
  packing.arena_bytes_ = plan.arena_bytes;
  packing.offsets_.resize(storages.size());
  for (size_t i = 0; i < storage_of_buffer.size(); ++i) {
    packing.offsets_[storage_of_buffer[i]] = plan.offset_bytes[i];
  }
  return packing;
}

void Packing::Print(const ir::Graph& /*graph*/, std::string* out) const {
  absl::StrAppend(out, "arena ", arena_bytes_, " bytes\n");
  for (size_t i = 0; i < offsets_.size(); ++i) {
    if (offsets_[i]) {
      absl::StrAppend(out, "  storage ", i, " at ", *offsets_[i], "\n");
    }
  }
}

}  // namespace onnx_memopt::analysis
