#include "onnx_memopt/analysis/memory_profile.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/block_results.h"
#include "llvm/ADT/STLExtras.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {
namespace {

using ir::BlockId;
using ir::Node;
using ir::NodeId;
using ir::Step;

BlockProfile ProfileBlock(const ir::Graph& graph,
                          const std::vector<NodeId>& steps,
                          const std::vector<BlockProfile>& profiles,
                          const std::vector<const Storage*>& storages,
                          const Sizes& sizes) {
  BlockProfile profile;
  // A block without nodes still holds what it is given.
  const size_t count = std::max<size_t>(steps.size(), 1);
  std::vector<int64_t> begins(count);
  std::vector<int64_t> ends(count + 1);
  for (const Storage* storage : storages) {
    const int64_t bytes = storage->size_bytes.value_or(0);
    const auto begin = static_cast<size_t>(storage->range.begin);
    const auto end = std::min(static_cast<size_t>(storage->range.end), count);
    begins[begin] = SaturatingAdd(begins[begin], bytes);
    ends[end] = SaturatingAdd(ends[end], bytes);
  }
  profile.live_bytes.resize(steps.size());
  profile.nested_bytes.resize(steps.size());
  int64_t live = 0;
  for (size_t i = 0; i < count; ++i) {
    live = SaturatingAdd(live - ends[i], begins[i]);
    int64_t here = live;
    if (i < steps.size()) {
      const Node& node = graph.node(steps[i]);
      int64_t nested = 0;
      for (BlockId block : node.blocks) {
        nested = std::max(nested, profiles[ir::Index(block)].peak_bytes);
      }
      if (nested > 0) {
        for (size_t r = 0; r < ResultsFromBlocks(node); ++r) {
          if (r >= node.results.size() || node.results[r] == ir::kNoValue) {
            continue;
          }
          nested -= sizes.bytes(node.results[r]).value_or(0);
        }
        profile.nested_bytes[i] = std::max<int64_t>(nested, 0);
      }
      here = SaturatingAdd(live, profile.nested_bytes[i]);
      profile.live_bytes[i] = here;
    }
    if (here > profile.peak_bytes) {
      profile.peak_bytes = here;
      profile.peak_step = i < steps.size() ? static_cast<Step>(i) : -1;
    }
  }
  return profile;
}

}  // namespace

absl::StatusOr<MemoryProfile> MemoryProfile::Compute(
    const ir::Graph& graph, AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  ASSIGN_OR_RETURN(const Liveness* liveness, analyses.Get<Liveness>());
  MemoryProfile result;
  result.blocks_.resize(graph.num_blocks());
  std::vector<std::vector<const Storage*>> by_block(graph.num_blocks());
  for (const Storage& storage : liveness->storages()) {
    if (storage.kind != StorageKind::kActivation) continue;
    by_block[ir::Index(storage.block)].push_back(&storage);
    result.complete_ = result.complete_ && storage.size_bytes.has_value();
  }
  // Nested blocks before those that hold them.
  const std::vector<BlockId>& blocks = timeline->blocks();
  for (const BlockId block : llvm::reverse(blocks)) {
    result.blocks_[ir::Index(block)] =
        ProfileBlock(graph, timeline->steps(block), result.blocks_,
                     by_block[ir::Index(block)], *sizes);
  }
  // At the peak of the main graph, and at those of the subgraphs that run then.
  for (BlockId block = ir::kMainBlock; block != ir::kNoBlock;) {
    const BlockProfile& profile = result.block(block);
    const Step peak = profile.peak_step;
    if (peak < 0) break;
    for (const Storage* storage : by_block[ir::Index(block)]) {
      if (storage->range.begin > peak || peak >= storage->range.end) continue;
      // What a subgraph returns becomes the result of its node.
      const auto& results = graph.block(block).results;
      if (block != ir::kMainBlock &&
          std::any_of(storage->values.begin(), storage->values.end(),
                      [&](ir::ValueId value) {
                        return llvm::is_contained(results, value);
                      })) {
        continue;
      }
      result.at_peak_.push_back(StorageId(
          static_cast<uint32_t>(storage - liveness->storages().data())));
    }
    const Node& node =
        graph.node(timeline->steps(block)[static_cast<size_t>(peak)]);
    BlockId next = ir::kNoBlock;
    if (profile.nested_bytes[static_cast<size_t>(peak)] > 0) {
      for (BlockId nested : node.blocks) {
        if (next == ir::kNoBlock ||
            result.block(nested).peak_bytes > result.block(next).peak_bytes) {
          next = nested;
        }
      }
    }
    block = next;
  }
  std::sort(
      result.at_peak_.begin(), result.at_peak_.end(),
      [&](StorageId a, StorageId b) {
        const int64_t bytes_a = liveness->storage(a).size_bytes.value_or(0);
        const int64_t bytes_b = liveness->storage(b).size_bytes.value_or(0);
        return bytes_a != bytes_b ? bytes_a > bytes_b : a < b;
      });
  return result;
}

void MemoryProfile::Print(const ir::Graph& /*graph*/, std::string* out) const {
  absl::StrAppend(out, "peak ", main().peak_bytes, " bytes at step ",
                  main().peak_step, complete() ? "" : " (incomplete)", "\n");
  for (size_t i = 0; i < main().live_bytes.size(); ++i) {
    absl::StrAppend(out, "  ", i, ": ", main().live_bytes[i], "\n");
  }
}

namespace {

// Live bytes of one block at each step, as formulas; nullopt if one is unknown.
std::optional<std::vector<ir::Dim>> SymbolicSteps(
    const std::vector<const Storage*>& storages, size_t steps,
    const Sizes& sizes) {
  std::vector<std::vector<ir::Dim>> begins(steps + 1);
  std::vector<std::vector<ir::Dim>> ends(steps + 1);
  for (const Storage* storage : storages) {
    const std::optional<ir::Dim>& size =
        sizes.symbolic_bytes(storage->values.front());
    if (!size) return std::nullopt;
    begins[static_cast<size_t>(storage->range.begin)].push_back(*size);
    ends[std::min(static_cast<size_t>(storage->range.end), steps)].push_back(
        *size);
  }
  std::vector<ir::Dim> live_bytes;
  std::optional<ir::Dim> live = ir::Dim(0);
  for (size_t i = 0; i < steps; ++i) {
    for (const ir::Dim& size : ends[i]) {
      live = Sub(*live, size);
      if (!live) return std::nullopt;
    }
    for (const ir::Dim& size : begins[i]) {
      live = Add(*live, size);
      if (!live) return std::nullopt;
    }
    live_bytes.push_back(*live);
  }
  return live_bytes;
}

// True if `a` is at least `b` for all sizes.
bool Dominates(const ir::Dim& a, const ir::Dim& b) {
  const std::optional<ir::Dim> difference = Sub(a, b);
  return difference && KnownAtLeast(*difference, 0);
}

}  // namespace

absl::StatusOr<std::vector<ir::Dim>> SymbolicPeak(const ir::Graph& graph,
                                                  AnalysisManager& analyses,
                                                  size_t max_terms) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  ASSIGN_OR_RETURN(const Liveness* liveness, analyses.Get<Liveness>());
  ASSIGN_OR_RETURN(const MemoryProfile* profile, analyses.Get<MemoryProfile>());
  std::vector<const Storage*> storages;
  for (const Storage& storage : liveness->storages()) {
    if (storage.kind == StorageKind::kActivation &&
        storage.block == ir::kMainBlock) {
      storages.push_back(&storage);
    }
  }
  const size_t count = timeline->steps(ir::kMainBlock).size();
  const std::optional<std::vector<ir::Dim>> steps =
      SymbolicSteps(storages, count, *sizes);
  if (!steps || !profile->complete()) return std::vector<ir::Dim>();
  std::vector<ir::Dim> peak;
  for (size_t i = 0; i < count; ++i) {
    // Subgraphs add their number for all names = 1.
    const std::optional<ir::Dim> total =
        Add((*steps)[i], ir::Dim(profile->main().nested_bytes[i]));
    if (!total) return std::vector<ir::Dim>();
    const bool covered = std::any_of(
        peak.begin(), peak.end(),
        [&](const ir::Dim& other) { return Dominates(other, *total); });
    if (covered) continue;
    std::erase_if(
        peak, [&](const ir::Dim& other) { return Dominates(*total, other); });
    peak.push_back(*total);
  }
  // More terms than that say nothing to a reader: the largest for sizes of 256.
  ir::Bindings typical = AssumedBindings(graph);
  for (auto& [name, size] : typical) size = 256;
  std::sort(peak.begin(), peak.end(), [&](const ir::Dim& a, const ir::Dim& b) {
    const int64_t bytes_a = a.Evaluate(typical).value_or(0);
    const int64_t bytes_b = b.Evaluate(typical).value_or(0);
    return bytes_a != bytes_b ? bytes_a > bytes_b : a.ToString() < b.ToString();
  });
  if (peak.size() > max_terms) peak.resize(max_terms);
  return peak;
}

}  // namespace onnx_memopt::analysis
