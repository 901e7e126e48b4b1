// drop-dead: removes nodes whose results nobody uses, and weights that no node
// reads, in the main graph and in every subgraph.
//
//     a = Relu(x)        kept: y needs it
//     b = Exp(a)         removed: only c used it
//     c = Neg(b)         removed: nothing uses it
//     y = Tanh(a)        kept: an output
//
// Why it saves memory: dead weights are loaded and dead results computed by
// runtimes that do not look; the rest of the pipeline need not plan for them.
// Cost: none. Refuses: ops that the op table does not know (they may have
// effects), what is inside model-local functions, weights that are also graph
// inputs or that the model names elsewhere, outputs of subgraphs. Nothing must
// not run after it.

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/op_info.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::passes {
namespace {

using ir::BlockId;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

// True if the node, or a node in its blocks, may do more than give results.
bool MayHaveEffects(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (!node.is_call && (!IsKnown(*node.info) || node.info->side_effect)) {
    return true;
  }
  for (BlockId block : node.blocks) {
    for (NodeId nested : graph.block(block).nodes) {
      if (MayHaveEffects(graph, nested)) return true;
    }
  }
  return false;
}

class DropDead final : public pass::Pass {
 public:
  absl::string_view name() const override { return "drop-dead"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    used_.assign(graph.num_values(), false);
    nodes_ = 0;
    weights_ = 0;
    weight_bytes_ = 0;
    SweepBlock(graph, ir::kMainBlock);
    if (nodes_ > 0) {
      context.Remark(absl::StrCat("removed ", nodes_, " unused node",
                                  nodes_ == 1 ? "" : "s"));
    }
    if (weights_ > 0) {
      context.Remark(absl::StrCat("removed ", weights_, " unused weight",
                                  weights_ == 1 ? "" : "s", ", saves ",
                                  FormatBytes(weight_bytes_)));
    }
    return nodes_ > 0 || weights_ > 0;
  }

 private:
  void Use(ValueId value) {
    if (value != ir::kNoValue) used_[Index(value)] = true;
  }

  // From the last node to the first, so that a node's users are decided before
  // it is. A nested block marks what it reads of the outside.
  void SweepBlock(Graph& graph, BlockId id) {
    for (ValueId result : graph.block(id).results) Use(result);
    std::vector<NodeId> dead;
    const std::vector<NodeId> nodes = graph.block(id).nodes;
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      const Node& node = graph.node(*it);
      bool needed = false;
      for (ValueId result : node.results) {
        needed = needed || (result != ir::kNoValue && used_[Index(result)]);
      }
      if (!needed && !MayHaveEffects(graph, *it)) {
        dead.push_back(*it);
        continue;
      }
      if (node.is_call) {
        std::vector<ValueId> uses;
        CollectUses(graph, *it, &uses);
        for (ValueId value : uses) Use(value);
        continue;
      }
      for (ValueId operand : node.operands) Use(operand);
      for (BlockId block : node.blocks) SweepBlock(graph, block);
    }
    if (!dead.empty()) graph.EraseNodes(id, dead);
    nodes_ += dead.size();
    std::erase_if(graph.mutable_block(id).initializers, [&](ValueId value) {
      const ir::Value& v = graph.value(value);
      if (used_[Index(value)] || v.overridable || v.pinned) return false;
      ++weights_;
      weight_bytes_ += graph.weight(v.weight).size_bytes;
      return true;
    });
  }

  std::vector<bool> used_;
  size_t nodes_ = 0;
  size_t weights_ = 0;
  int64_t weight_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeDropDead(
    pass::PassOptions& /*options*/) {
  return std::make_unique<DropDead>();
}

}  // namespace onnx_memopt::passes
