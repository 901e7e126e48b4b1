#include "onnx_memopt/rewrite/working_memory.h"

#include <algorithm>

#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/analysis/kernel_scratch.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/analysis/load_growth.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/rewrite/outline.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {
namespace {

// Storages of the main graph that a rewritten run holds, too, each with the
// step from which on it does.
absl::StatusOr<llvm::DenseMap<uint32_t, ir::Step>> Held(
    const ir::Graph& graph, analysis::AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const analysis::Liveness* liveness,
                   analyses.Get<analysis::Liveness>());
  ASSIGN_OR_RETURN(const analysis::LoadGrowth* growth,
                   analyses.Get<analysis::LoadGrowth>());
  llvm::DenseMap<uint32_t, ir::Step> held;
  const auto add = [&](ir::ValueId value, bool is_copy) {
    const analysis::StorageId id = liveness->storage_of(value);
    if (id == analysis::kNoStorage) return;
    held[static_cast<uint32_t>(id)] = is_copy
                                          ? liveness->range(value).begin + 1
                                          : liveness->storage(id).range.begin;
  };
  for (ir::ValueId result : graph.block(ir::kMainBlock).results) {
    // Outputs are never views: a Reshape copies where its result is one.
    const ir::NodeId producer = graph.value(result).producer;
    add(result,
        producer != ir::kNoNode && graph.node(producer).info->view_of >= 0);
  }
  for (ir::NodeId node : graph.block(ir::kMainBlock).nodes) {
    for (ir::ValueId result : graph.node(node).results) {
      if (result != ir::kNoValue && growth->is_folded(result)) {
        add(result, /*is_copy=*/false);
      }
    }
  }
  return held;
}

// What kernels take beside their operands and results. Convolutions take next
// to nothing in the layout that the runtime gives them.
absl::Status AddScratch(const ir::Graph& graph,
                        analysis::AnalysisManager& analyses, ir::BlockId block,
                        WorkingMemory* memory) {
  const auto& nodes = graph.block(block).nodes;
  // With calls of functions, steps are not positions.
  if (memory->bytes.size() != nodes.size()) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      const std::vector<int64_t> scratch,
      analysis::KernelScratch(graph, analyses, block, RewriteOptions()));
  for (size_t p = 0; p < nodes.size(); ++p) {
    if (IsConvolution(graph.node(nodes[p]))) continue;
    memory->bytes[p] = SaturatingAdd(memory->bytes[p], scratch[p]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WorkingMemory> WorkingMemoryOf(
    const ir::Graph& graph, analysis::AnalysisManager& analyses,
    ir::BlockId block) {
  ASSIGN_OR_RETURN(const analysis::MemoryProfile* profile,
                   analyses.Get<analysis::MemoryProfile>());
  WorkingMemory memory{.bytes = profile->block(block).live_bytes};
  RETURN_IF_ERROR(AddScratch(graph, analyses, block, &memory));
  if (block == ir::kMainBlock) {
    ASSIGN_OR_RETURN(const analysis::Liveness* liveness,
                     analyses.Get<analysis::Liveness>());
    const absl::StatusOr<llvm::DenseMap<uint32_t, ir::Step>> held =
        Held(graph, analyses);
    RETURN_IF_ERROR(held.status());
    std::vector<int64_t> change(memory.bytes.size() + 1, 0);
    for (const auto& [index, begin] : *held) {
      const analysis::Storage& storage =
          liveness->storage(analysis::StorageId(index));
      if (storage.kind != analysis::StorageKind::kActivation ||
          storage.block != block) {
        continue;
      }
      const auto size = static_cast<ir::Step>(memory.bytes.size());
      const int64_t bytes = storage.size_bytes.value_or(0);
      const ir::Step end = std::min(storage.range.end, size);
      change[static_cast<size_t>(std::min(begin, end))] += bytes;
      change[static_cast<size_t>(end)] -= bytes;
    }
    int64_t now = 0;
    for (size_t step = 0; step < memory.bytes.size(); ++step) {
      now += change[step];
      memory.bytes[step] = std::max<int64_t>(0, memory.bytes[step] - now);
    }
  }
  if (!memory.bytes.empty()) {
    memory.peak_step = static_cast<int>(
        std::max_element(memory.bytes.begin(), memory.bytes.end()) -
        memory.bytes.begin());
  }
  return memory;
}

std::vector<int> LowerPeaks(const ir::Graph& graph, const WorkingMemory& memory,
                            int count) {
  const auto& nodes = graph.block(ir::kMainBlock).nodes;
  const auto& bytes = memory.bytes;
  std::vector<int> peaks;
  if (bytes.size() != nodes.size() || memory.peak_step < 0) return peaks;
  for (size_t p = 0; p < nodes.size(); ++p) {
    const int64_t before = p == 0 ? 0 : bytes[p - 1];
    const int64_t behind = p + 1 == nodes.size() ? 0 : bytes[p + 1];
    if (graph.node(nodes[p]).blocks.empty() &&
        2 * bytes[p] >= bytes[static_cast<size_t>(memory.peak_step)] &&
        bytes[p] > before && bytes[p] >= behind) {
      peaks.push_back(static_cast<int>(p));
    }
  }
  std::stable_sort(peaks.begin(), peaks.end(), [&](int a, int b) {
    return bytes[static_cast<size_t>(a)] > bytes[static_cast<size_t>(b)];
  });
  peaks.resize(std::min(peaks.size(), static_cast<size_t>(std::max(count, 0))));
  return peaks;
}

}  // namespace onnx_memopt::rewrite
