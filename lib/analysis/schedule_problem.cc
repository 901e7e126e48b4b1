#include "onnx_memopt/analysis/schedule_problem.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/analysis/aliases.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {
namespace {

using ir::BlockId;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

class Builder {
 public:
  Builder(const ir::Graph& graph, BlockId block, const Aliases& aliases,
          const Sizes& sizes)
      : graph_(graph), block_(block), aliases_(aliases), sizes_(sizes) {}

  ScheduleProblemOfBlock Build() {
    out_.nodes = graph_.block(block_).nodes;
    out_.problem.nodes.resize(out_.nodes.size());
    if (block_ != ir::kMainBlock) {
      for (ValueId param : graph_.block(block_).params) {
        AddBuffer(param, /*producer=*/-1);
      }
    }
    for (size_t i = 0; i < out_.nodes.size(); ++i) AddResults(i);
    for (size_t i = 0; i < out_.nodes.size(); ++i) AddUses(i);
    // As in Liveness: a param that nobody reads is never freed.
    for (plan::ScheduleBuffer& buffer : out_.problem.buffers) {
      if (buffer.producer < 0 && buffer.readers.empty()) {
        buffer.live_to_end = true;
      }
    }
    for (ValueId result : graph_.block(block_).results) {
      if (const std::optional<int32_t> buffer = BufferOf(result)) {
        Buffer(*buffer).live_to_end = true;
      }
    }
    for (size_t i = 0; i < out_.nodes.size(); ++i) AddInPlace(i);
    return std::move(out_);
  }

 private:
  plan::ScheduleBuffer& Buffer(int32_t index) {
    return out_.problem.buffers[static_cast<size_t>(index)];
  }

  void AddBuffer(ValueId value, int32_t producer) {
    buffer_of_root_[value] = static_cast<int32_t>(out_.problem.buffers.size());
    out_.problem.buffers.push_back(
        {.size_bytes = sizes_.bytes(value).value_or(0), .producer = producer});
  }

  std::optional<int32_t> BufferOf(ValueId value) const {
    if (value == kNoValue) return std::nullopt;
    const auto it = buffer_of_root_.find(aliases_.root(value));
    if (it == buffer_of_root_.end()) return std::nullopt;
    return it->second;
  }

  void AddResults(size_t i) {
    const Node& node = graph_.node(out_.nodes[i]);
    for (ValueId result : node.results) {
      if (result == kNoValue) continue;
      defined_at_[result] = static_cast<int32_t>(i);
      // Constants are weights; views have the buffer of their root.
      if (graph_.value(result).weight != ir::kNoWeight ||
          (node.op_type == "Constant" && node.domain.empty())) {
        continue;
      }
      const ValueId root = aliases_.root(result);
      if (root == result ||
          (!buffer_of_root_.contains(root) && IsOfCallBody(root))) {
        AddBuffer(root, static_cast<int32_t>(i));
      }
    }
  }

  // A call's result may be a view of what its body makes.
  bool IsOfCallBody(ValueId value) const {
    const ir::Value& v = graph_.value(value);
    if (v.producer == ir::kNoNode || v.weight != ir::kNoWeight) return false;
    const Node& node = graph_.node(v.producer);
    return v.block != block_ && graph_.IsInside(v.block, block_) &&
           !(node.op_type == "Constant" && node.domain.empty());
  }

  void AddUses(size_t i) {
    std::vector<ValueId> uses;
    CollectUses(graph_, out_.nodes[i], &uses);
    for (ValueId value : uses) {
      const auto def = defined_at_.find(value);
      if (def != defined_at_.end()) {
        out_.problem.nodes[i].after.push_back(def->second);
      }
      if (const std::optional<int32_t> buffer = BufferOf(value)) {
        Buffer(*buffer).readers.push_back(static_cast<int32_t>(i));
      }
    }
    Deduplicate(&out_.problem.nodes[i].after);
    for (ValueId value : uses) {
      if (const std::optional<int32_t> buffer = BufferOf(value)) {
        Deduplicate(&Buffer(*buffer).readers);
      }
    }
  }

  static void Deduplicate(std::vector<int32_t>* ids) {
    std::sort(ids->begin(), ids->end());
    ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
  }

  void AddInPlace(size_t i) {
    const Node& node = graph_.node(out_.nodes[i]);
    if (node.is_call || node.info->in_place == 0 || node.results.empty()) {
      return;
    }
    const std::optional<int32_t> result = BufferOf(node.results[0]);
    if (!result || !sizes_.bytes(node.results[0])) return;
    for (size_t k = 0; k < node.operands.size() && k < 32; ++k) {
      if ((node.info->in_place >> k & 1) == 0) continue;
      const std::optional<int32_t> operand = BufferOf(node.operands[k]);
      if (!operand || *operand == *result) continue;
      if (sizes_.bytes(aliases_.root(node.operands[k])) !=
          sizes_.bytes(node.results[0])) {
        continue;
      }
      const auto same = [&](ValueId other) {
        return other != node.operands[k] && BufferOf(other) == operand;
      };
      if (Buffer(*operand).live_to_end ||
          std::any_of(node.operands.begin(), node.operands.end(), same)) {
        continue;
      }
      out_.problem.nodes[i].in_place.push_back(
          {.operand_buffer = *operand, .result_buffer = *result});
    }
  }

  const ir::Graph& graph_;
  BlockId block_;
  const Aliases& aliases_;
  const Sizes& sizes_;
  llvm::DenseMap<ValueId, int32_t> buffer_of_root_;
  llvm::DenseMap<ValueId, int32_t> defined_at_;
  ScheduleProblemOfBlock out_;
};

// Bytes of storages inside a call's body, at their highest.
void AddBodies(const ir::Graph& graph, BlockId block, const Timeline& timeline,
               const Liveness& liveness, ScheduleProblemOfBlock* out) {
  llvm::DenseMap<NodeId, int32_t> index;
  for (size_t i = 0; i < out->nodes.size(); ++i) {
    if (graph.node(out->nodes[i]).is_call) {
      index[out->nodes[i]] = static_cast<int32_t>(i);
    }
  }
  if (index.empty()) return;
  const size_t count = timeline.steps(block).size();
  std::vector<int64_t> change(count + 1);
  for (const Storage& storage : liveness.storages()) {
    const bool inside = std::all_of(
        storage.values.begin(), storage.values.end(),
        [&](ValueId value) { return graph.value(value).block != block; });
    if (storage.kind != StorageKind::kActivation || storage.block != block ||
        !inside || !storage.size_bytes) {
      continue;
    }
    const auto begin = static_cast<size_t>(storage.range.begin);
    const auto end = std::min(static_cast<size_t>(storage.range.end), count);
    change[begin] = SaturatingAdd(change[begin], *storage.size_bytes);
    change[end] -= *storage.size_bytes;
  }
  int64_t live = 0;
  for (size_t step = 0; step < count; ++step) {
    live = SaturatingAdd(live, change[step]);
    NodeId node = timeline.steps(block)[step];
    while (graph.node(node).block != block) {
      node = graph.block(graph.node(node).block).owner;
    }
    const auto it = index.find(node);
    if (it == index.end()) continue;
    int64_t& extra =
        out->problem.nodes[static_cast<size_t>(it->second)].extra_bytes;
    extra = std::max(extra, live);
  }
}

}  // namespace

absl::StatusOr<ScheduleProblemOfBlock> BuildScheduleProblem(
    const ir::Graph& graph, AnalysisManager& analyses, BlockId block) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const Aliases* aliases, analyses.Get<Aliases>());
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  ASSIGN_OR_RETURN(const Liveness* liveness, analyses.Get<Liveness>());
  ASSIGN_OR_RETURN(const MemoryProfile* profile, analyses.Get<MemoryProfile>());
  ScheduleProblemOfBlock out = Builder(graph, block, *aliases, *sizes).Build();
  llvm::DenseMap<NodeId, size_t> index;
  for (size_t i = 0; i < out.nodes.size(); ++i) index[out.nodes[i]] = i;
  const std::vector<NodeId>& steps = timeline->steps(block);
  for (size_t step = 0; step < steps.size(); ++step) {
    const auto it = index.find(steps[step]);
    if (it == index.end()) continue;
    out.problem.nodes[it->second].extra_bytes =
        profile->block(block).nested_bytes[step];
  }
  AddBodies(graph, block, *timeline, *liveness, &out);
  return out;
}

}  // namespace onnx_memopt::analysis
