#include "onnx_memopt/analysis/liveness.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/analysis/aliases.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {

using ir::BlockId;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::Step;
using ir::ValueId;

class LivenessBuilder {
 public:
  LivenessBuilder(const ir::Graph& graph, const Timeline& timeline,
                  const Aliases& aliases, const Sizes& sizes)
      : graph_(graph), timeline_(timeline), aliases_(aliases), sizes_(sizes) {
    out_.storage_of_.resize(graph.num_values(), kNoStorage);
    out_.ranges_.resize(graph.num_values());
    last_use_.resize(graph.num_values(), -1);
    // Every value has at most one of its own.
    out_.storages_.reserve(graph.num_values());
  }

  Liveness Build() {
    for (BlockId block : timeline_.blocks()) {
      FindLastUses(block);
      Place(block);
    }
    return std::move(out_);
  }

 private:
  // Last uses of the values that `block` defines: by its own steps, and by
  // subgraphs at the step that holds them.
  void FindLastUses(BlockId block) {
    const auto& steps = timeline_.steps(block);
    std::vector<ValueId> uses;
    for (size_t i = 0; i < steps.size(); ++i) {
      uses.clear();
      CollectUses(graph_, steps[i], &uses);
      for (ValueId value : uses) {
        if (TimelineBlock(value) == block) {
          last_use_[ir::Index(value)] = static_cast<Step>(i);
        }
      }
    }
    for (ValueId result : graph_.block(block).results) {
      if (TimelineBlock(result) == block) {
        last_use_[ir::Index(result)] = static_cast<Step>(steps.size());
      }
    }
  }

  // The block in whose steps the value is defined: a call's body has none of
  // its own.
  BlockId TimelineBlock(ValueId value) const {
    BlockId block = graph_.value(value).block;
    while (graph_.block(block).kind == ir::BlockKind::kCallBody) {
      block = graph_.node(graph_.block(block).owner).block;
    }
    return block;
  }

  void Place(BlockId block) {
    const auto& steps = timeline_.steps(block);
    const auto end = static_cast<Step>(steps.size());
    const StorageKind param_kind = block == ir::kMainBlock
                                       ? StorageKind::kInput
                                       : StorageKind::kActivation;
    for (ValueId value : graph_.block(block).params) {
      AddStorage(
          value, block, param_kind, 0,
          param_kind == StorageKind::kInput ? end : EndOfParam(value, end));
    }
    for (ValueId value : graph_.block(block).initializers) {
      AddStorage(value, block, StorageKind::kWeight, 0, end);
    }
    for (Step step = 0; step < end; ++step) {
      PlaceResults(block, steps[static_cast<size_t>(step)], step);
    }
  }

  // One that nobody reads is never freed: it stays the caller's.
  Step EndOfParam(ValueId value, Step end_of_block) const {
    const Step last = last_use_[ir::Index(value)];
    const Step end = std::max(end_of_block, 1);
    return last < 0 ? end : std::min(last + 1, end);
  }

  void PlaceResults(BlockId block, NodeId id, Step step) {
    const Node& node = graph_.node(id);
    for (ValueId result : node.results) {
      if (result == kNoValue) continue;
      const Step end = std::max(last_use_[ir::Index(result)], step) + 1;
      const Step steps = static_cast<Step>(timeline_.steps(block).size());
      const LiveRange range{step, std::min(end, std::max(steps, step + 1))};
      const ValueId root = aliases_.root(result);
      if (root != result) {
        Join(result, out_.storage_of(root), range);
        continue;
      }
      if (node.op_type == "Constant" && node.domain.empty()) {
        AddStorage(result, block, StorageKind::kWeight, 0, steps);
        continue;
      }
      const StorageId reused =
          result == node.results[0] ? InPlace(block, node, step) : kNoStorage;
      if (reused != kNoStorage) {
        Join(result, reused, range);
      } else {
        AddStorage(result, block, StorageKind::kActivation, range.begin,
                   range.end);
      }
    }
  }

  // The operand's storage that the node may overwrite with its first result.
  StorageId InPlace(BlockId block, const Node& node, Step step) const {
    const std::optional<int64_t> bytes = sizes_.bytes(node.results[0]);
    if (node.info->in_place == 0 || !bytes) return kNoStorage;
    for (size_t i = 0; i < node.operands.size() && i < 32; ++i) {
      if ((node.info->in_place >> i & 1) == 0) continue;
      if (node.operands[i] == kNoValue) continue;
      const StorageId id = out_.storage_of(node.operands[i]);
      const Storage& storage = out_.storage(id);
      if (storage.kind != StorageKind::kActivation || storage.block != block ||
          storage.size_bytes != bytes || storage.range.end != step + 1 ||
          OutlivesStep(storage, step)) {
        continue;
      }
      const bool read_twice = std::any_of(
          node.operands.begin(), node.operands.end(), [&](ValueId other) {
            return other != kNoValue && other != node.operands[i] &&
                   out_.storage_of(other) == id;
          });
      if (!read_twice) return id;
    }
    return kNoStorage;
  }

  // True if a value in the storage is an output of the block: its range may end
  // with the last step and still be needed after it.
  bool OutlivesStep(const Storage& storage, Step step) const {
    return std::any_of(
        storage.values.begin(), storage.values.end(),
        [&](ValueId value) { return last_use_[ir::Index(value)] > step; });
  }

  void AddStorage(ValueId value, BlockId block, StorageKind kind, Step begin,
                  Step end) {
    const StorageId id{static_cast<uint32_t>(out_.storages_.size())};
    out_.storages_.push_back({.kind = kind,
                              .block = block,
                              .range = {begin, end},
                              .size_bytes = sizes_.bytes(value),
                              .values = {value}});
    out_.storage_of_[ir::Index(value)] = id;
    out_.ranges_[ir::Index(value)] = {begin, end};
  }

  void Join(ValueId value, StorageId id, LiveRange range) {
    Storage& storage = out_.storages_[static_cast<size_t>(id)];
    storage.values.push_back(value);
    // A view in a nested block of an outer value is a use at the outer node,
    // which last_use_ of the outer value covers already.
    if (storage.block == TimelineBlock(value)) {
      storage.range.end = std::max(storage.range.end, range.end);
    }
    out_.storage_of_[ir::Index(value)] = id;
    out_.ranges_[ir::Index(value)] = range;
  }

  const ir::Graph& graph_;
  const Timeline& timeline_;
  const Aliases& aliases_;
  const Sizes& sizes_;
  std::vector<Step> last_use_;  // by ValueId; -1: never used
  Liveness out_;
};

absl::StatusOr<Liveness> Liveness::Compute(const ir::Graph& graph,
                                           AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const Aliases* aliases, analyses.Get<Aliases>());
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  return LivenessBuilder(graph, *timeline, *aliases, *sizes).Build();
}

void Liveness::Print(const ir::Graph& graph, std::string* out) const {
  for (size_t i = 0; i < storages_.size(); ++i) {
    const Storage& storage = storages_[i];
    const char* kind = storage.kind == StorageKind::kInput    ? "input"
                       : storage.kind == StorageKind::kWeight ? "weight"
                                                              : "activation";
    absl::StrAppend(
        out, kind, " block ", ir::Index(storage.block), " [",
        storage.range.begin, ", ", storage.range.end, ") ",
        storage.size_bytes ? absl::StrCat(*storage.size_bytes) : "?",
        " bytes:");
    for (ir::ValueId value : storage.values) {
      absl::StrAppend(out, " ", Printable(graph.value(value).name), " [",
                      range(value).begin, ", ", range(value).end, ")");
    }
    absl::StrAppend(out, "\n");
  }
}

}  // namespace onnx_memopt::analysis
