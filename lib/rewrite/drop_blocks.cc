#include "onnx_memopt/rewrite/drop_blocks.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::NodeId;
using ir::ValueId;

class Dropper {
 public:
  Dropper(const Repetition& blocks, size_t keep, ir::Graph* graph)
      : blocks_(blocks),
        keep_(keep),
        graph_(*graph),
        nodes_(graph->block(ir::kMainBlock).nodes) {}

  absl::Status Run() {
    for (size_t i = 0; i < blocks_.period; ++i) {
      for (size_t block = keep_; block < blocks_.count; ++block) {
        const NodeId id = At(block, i);
        gone_.push_back(id);
        for (const ValueId result : graph_.node(id).results) {
          if (result != ir::kNoValue) lost_.insert(result);
        }
      }
    }
    const std::vector<ValueId> before = UsedBy(nodes_);
    SetResults();
    RETURN_IF_ERROR(RedirectReaders());
    graph_.EraseNodes(ir::kMainBlock, gone_);
    DropUnused(before);
    return absl::OkStatus();
  }

 private:
  NodeId At(size_t block, size_t place) const {
    return nodes_[blocks_.begin + block * blocks_.period + place];
  }

  // The value at the same place of another block.
  ValueId Twin(size_t block, size_t place, size_t result) const {
    return graph_.node(At(block, place)).results[result];
  }

  bool IsOutput(ValueId id) const {
    const auto& results = graph_.block(ir::kMainBlock).results;
    return std::find(results.begin(), results.end(), id) != results.end();
  }

  // Outputs that each block has for itself go. One that only the last block has
  // is the network's own, and keeps its name.
  void SetResults() {
    llvm::DenseSet<ValueId> dropped;
    for (size_t i = 0; i < blocks_.period; ++i) {
      const size_t results = graph_.node(At(0, i)).results.size();
      for (size_t r = 0; r < results; ++r) {
        const ValueId last = Twin(blocks_.count - 1, i, r);
        if (last == ir::kNoValue) continue;
        const ValueId kept = Twin(keep_ - 1, i, r);
        moved_[last] = kept;
        bool each = true;
        for (size_t block = 0; block + 1 < blocks_.count; ++block) {
          each = each && IsOutput(Twin(block, i, r));
        }
        for (size_t block = keep_; block < blocks_.count; ++block) {
          const ValueId value = Twin(block, i, r);
          if (each || block + 1 < blocks_.count) dropped.insert(value);
        }
        if (!each && IsOutput(last)) {
          std::swap(graph_.mutable_value(last).name,
                    graph_.mutable_value(kept).name);
        }
      }
    }
    std::vector<ValueId>& outputs =
        graph_.mutable_block(ir::kMainBlock).results;
    std::erase_if(outputs, [&](ValueId id) { return dropped.contains(id); });
  }

  absl::Status RedirectReaders() {
    const llvm::DenseSet<NodeId> gone(gone_.begin(), gone_.end());
    std::vector<ValueId> uses;
    for (NodeId id : nodes_) {
      if (gone.contains(id)) continue;
      uses.clear();
      CollectUses(graph_, id, &uses);
      for (ValueId use : uses) {
        if (!lost_.contains(use) || moved_.contains(use)) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            "node \"", Printable(graph_.DisplayName(id)), "\" reads \"",
            Printable(graph_.value(use).name),
            "\" of a repeated block that is not the last one, so it cannot be "
            "left out"));
      }
    }
    graph_.ReplaceUses(moved_);
    return absl::OkStatus();
  }

  std::vector<ValueId> UsedBy(const std::vector<NodeId>& nodes) const {
    std::vector<ValueId> uses;
    for (NodeId id : nodes) CollectUses(graph_, id, &uses);
    return uses;
  }

  // Inputs and weights that were read before, and are not now.
  void DropUnused(const std::vector<ValueId>& before) {
    llvm::DenseSet<ValueId> dead(before.begin(), before.end());
    ir::Block& main = graph_.mutable_block(ir::kMainBlock);
    for (ValueId use : UsedBy(main.nodes)) dead.erase(use);
    for (ValueId result : main.results) dead.erase(result);
    const auto is_dead = [&](ValueId id) { return dead.contains(id); };
    std::erase_if(main.params, is_dead);
    std::erase_if(main.initializers, is_dead);
  }

  const Repetition& blocks_;
  const size_t keep_;
  ir::Graph& graph_;
  const std::vector<NodeId> nodes_;  // as they were
  std::vector<NodeId> gone_;
  llvm::DenseSet<ValueId> lost_;
  llvm::DenseMap<ValueId, ValueId> moved_;
};

}  // namespace

absl::Status DropBlocks(const Repetition& blocks, size_t keep,
                        ir::Graph* graph) {
  assert(keep >= 1 && blocks.count >= 1);
  if (keep >= blocks.count) return absl::OkStatus();
  return Dropper(blocks, keep, graph).Run();
}

}  // namespace onnx_memopt::rewrite
