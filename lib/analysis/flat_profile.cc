#include "onnx_memopt/analysis/flat_profile.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/block_results.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/packing.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {

using ir::BlockId;
using ir::Node;
using ir::NodeId;
using ir::Step;
using ir::ValueId;

class FlatProfileBuilder {
 public:
  FlatProfileBuilder(const ir::Graph& graph, const Timeline& timeline,
                     const Liveness& liveness, const MemoryProfile& profile)
      : graph_(graph),
        timeline_(timeline),
        liveness_(liveness),
        profile_(profile) {}

  FlatProfile Build() {
    AddBlock(ir::kMainBlock);
    AddBuffers();
    AddLiveBytes();
    return std::move(out_);
  }

  bool has_subgraphs() const { return first_.size() > 1; }

 private:
  // Of a shown block: the flat steps of its own, with one more for the end.
  using FlatSteps = std::vector<Step>;

  void AddBlock(BlockId block) {
    FlatSteps flat;
    for (const NodeId id : timeline_.steps(block)) {
      flat.push_back(static_cast<Step>(out_.steps_.size()));
      out_.steps_.push_back({.node = id, .block = block});
      const BlockId inner = Largest(graph_.node(id));
      if (inner != ir::kNoBlock) {
        AddBlock(inner);
        ShareResults(graph_.node(id), inner);
      }
    }
    // A subgraph without nodes still holds what it is given: at its node's
    // step.
    const auto next = static_cast<Step>(out_.steps_.size());
    if (flat.empty() && block != ir::kMainBlock) flat.push_back(next - 1);
    flat.push_back(next);
    first_[block] = std::move(flat);
  }

  // The subgraph that needs the most; kNoBlock if none needs anything.
  BlockId Largest(const Node& node) const {
    // A call's body is in its caller's steps.
    if (node.is_call) return ir::kNoBlock;
    BlockId largest = ir::kNoBlock;
    int64_t bytes = 0;
    for (const BlockId block : node.blocks) {
      if (profile_.block(block).peak_bytes > bytes) {
        bytes = profile_.block(block).peak_bytes;
        largest = block;
      }
    }
    return largest;
  }

  void ShareResults(const Node& node, BlockId inner) {
    const size_t count = std::min(ResultsFromBlocks(node), node.results.size());
    for (size_t i = 0; i < count; ++i) {
      const ValueId inside = BlockResult(node, graph_.block(inner), i);
      if (node.results[i] == ir::kNoValue || inside == ir::kNoValue) continue;
      const StorageId from = liveness_.storage_of(inside);
      const StorageId to = liveness_.storage_of(node.results[i]);
      if (from == kNoStorage || to == kNoStorage) continue;
      const Storage& source = liveness_.storage(from);
      const Storage& target = liveness_.storage(to);
      if (source.kind != StorageKind::kActivation || source.block != inner ||
          target.kind != StorageKind::kActivation ||
          target.values.front() != node.results[i] ||
          source.size_bytes != target.size_bytes || made_inside_.contains(to) ||
          !becomes_.try_emplace(from, to).second) {
        continue;
      }
      made_inside_[to] = from;
    }
  }

  // The first flat step of a storage: inside the subgraph that makes it, at any
  // depth.
  Step Begin(StorageId id) const {
    for (auto it = made_inside_.find(id); it != made_inside_.end();
         it = made_inside_.find(id)) {
      id = it->second;
    }
    const Storage& storage = liveness_.storage(id);
    const FlatSteps& flat = first_.find(storage.block)->second;
    return At(flat, storage.range.begin);
  }

  static Step At(const FlatSteps& flat, Step step) {
    return flat[std::min(static_cast<size_t>(step), flat.size() - 1)];
  }

  void AddBuffers() {
    const std::vector<Storage>& storages = liveness_.storages();
    for (size_t i = 0; i < storages.size(); ++i) {
      const Storage& storage = storages[i];
      const StorageId id{static_cast<uint32_t>(i)};
      const auto flat = first_.find(storage.block);
      if (storage.kind != StorageKind::kActivation || flat == first_.end() ||
          !storage.size_bytes || becomes_.contains(id)) {
        continue;
      }
      const LiveRange range{Begin(id), At(flat->second, storage.range.end)};
      // A model without nodes has no step to show it at.
      if (range.begin >= range.end) continue;
      out_.buffers_.push_back(
          {.storage = id, .range = range, .size_bytes = *storage.size_bytes});
    }
  }

  void AddLiveBytes() {
    const size_t count = out_.steps_.size();
    std::vector<int64_t> begins(count + 1);
    std::vector<int64_t> ends(count + 1);
    for (const FlatBuffer& buffer : out_.buffers_) {
      int64_t& begin = begins[static_cast<size_t>(buffer.range.begin)];
      int64_t& end = ends[static_cast<size_t>(buffer.range.end)];
      begin = SaturatingAdd(begin, buffer.size_bytes);
      end = SaturatingAdd(end, buffer.size_bytes);
    }
    int64_t live = 0;
    for (size_t i = 0; i < count; ++i) {
      live = SaturatingAdd(live - ends[i], begins[i]);
      out_.steps_[i].live_bytes = live;
    }
  }

  const ir::Graph& graph_;
  const Timeline& timeline_;
  const Liveness& liveness_;
  const MemoryProfile& profile_;
  llvm::DenseMap<BlockId, FlatSteps> first_;      // of blocks that are shown
  llvm::DenseMap<StorageId, StorageId> becomes_;  // a block's -> its node's
  llvm::DenseMap<StorageId, StorageId> made_inside_;  // and back
  FlatProfile out_;
};

absl::StatusOr<FlatProfile> FlatProfile::Compute(const ir::Graph& graph,
                                                 AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const Liveness* liveness, analyses.Get<Liveness>());
  ASSIGN_OR_RETURN(const MemoryProfile* profile, analyses.Get<MemoryProfile>());
  FlatProfileBuilder builder(graph, *timeline, *liveness, *profile);
  FlatProfile flat = builder.Build();
  if (!builder.has_subgraphs()) {
    ASSIGN_OR_RETURN(const Packing* packing, analyses.Get<Packing>());
    for (FlatBuffer& buffer : flat.buffers_) {
      buffer.offset_bytes = packing->offset_bytes(buffer.storage).value_or(0);
    }
    flat.arena_bytes_ = packing->arena_bytes();
    return flat;
  }
  std::vector<plan::Buffer> buffers;
  buffers.reserve(flat.buffers_.size());
  for (const FlatBuffer& buffer : flat.buffers_) {
    buffers.push_back({.begin = buffer.range.begin,
                       .end = buffer.range.end,
                       .size_bytes = buffer.size_bytes});
  }
  ASSIGN_OR_RETURN(const plan::OffsetPlan plan, plan::PackFirstFit(buffers));
  RETURN_IF_ERROR(plan::ValidateOffsets(buffers, plan));
  for (size_t i = 0; i < buffers.size(); ++i) {
    flat.buffers_[i].offset_bytes = plan.offset_bytes[i];
  }
  flat.arena_bytes_ = plan.arena_bytes;
  return flat;
}

void FlatProfile::Print(const ir::Graph& graph, std::string* out) const {
  absl::StrAppend(out, "arena ", arena_bytes_, " bytes\n");
  for (size_t i = 0; i < steps_.size(); ++i) {
    absl::StrAppend(out, "  ", i, ": ",
                    Printable(graph.DisplayName(steps_[i].node)), " block ",
                    ir::Index(steps_[i].block), " live ", steps_[i].live_bytes,
                    "\n");
  }
  for (const FlatBuffer& buffer : buffers_) {
    absl::StrAppend(out, "  storage ", static_cast<uint32_t>(buffer.storage),
                    " [", buffer.range.begin, ", ", buffer.range.end, ") ",
                    buffer.size_bytes, " bytes at ", buffer.offset_bytes, "\n");
  }
}

}  // namespace onnx_memopt::analysis
