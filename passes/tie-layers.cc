// tie-layers: lets the repeated blocks of a network share one set of weights.
//
//     h1 = Block(x,  w1, b1)          h1 = Block(x,  w1, b1)
//     h2 = Block(h1, w2, b2)   =>     h2 = Block(h1, w1, b1)
//     y  = Block(h2, w3, b3)          y  = Block(h2, w1, b1)
//
// Why it saves memory: weights, their gradients and the optimizer's state are
// there once for all blocks that share them. Cost: the model computes something
// else, unless the blocks had the same weights; it is a start for training.
// Blocks are found as the longest part of the schedule that repeats: the same
// ops with the same attributes, which read what stands as far before them, or
// the same values, or weights of the same type and shape. Refuses: models
// without such a part; weights that something outside of the blocks reads.
// Must not run after it: passes that reorder nodes change nothing of it. Paper:
// Lan et al., ALBERT, ICLR 2020.
//
// Options: share (all, pairs), groups.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/rewrite/repeated_blocks.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;
using rewrite::Repetition;

struct TieOptions {
  bool pairs = false;
  int64_t groups = 1;
};

class TieLayers final : public pass::Pass {
 public:
  explicit TieLayers(TieOptions options) : options_(options) {}

  absl::string_view name() const override { return "tie-layers"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    if (graph.block(ir::kMainBlock).nodes.size() >
        rewrite::kMaxNodesOfRepetition) {
      context.Remark(absl::StrCat("left as it is: it has more than ",
                                  rewrite::kMaxNodesOfRepetition, " nodes"));
      return false;
    }
    const std::optional<Repetition> found = rewrite::FindRepetition(graph);
    if (!found) {
      context.Remark("left as it is: no block with weights repeats");
      return false;
    }
    const auto count = static_cast<int64_t>(found->count);
    if (options_.groups > count) {
      return absl::InvalidArgumentError(
          absl::StrCat("there are ", count, " equal blocks, and ",
                       options_.groups, " groups were asked for"));
    }
    const int64_t groups = options_.pairs ? (count + 1) / 2 : options_.groups;
    const std::vector<ValueId> tied = Tie(graph, *found, groups);
    const int64_t bytes = Remove(graph, tied);
    context.Remark(absl::StrCat(
        count, " blocks of ", found->period, " nodes, from \"",
        Printable(
            graph.DisplayName(graph.block(ir::kMainBlock).nodes[found->begin])),
        "\" on, share ", groups, groups == 1 ? " set" : " sets",
        " of weights"));
    context.Remark(
        absl::StrCat(tied.size(), " weights less, saves ", FormatBytes(bytes),
                     ", in training as much again for gradients and ",
                     FormatBytes(2 * bytes), " for the state of Adam"));
    return !tied.empty();
  }

 private:
  // Gives each node the operands of its place in the first block of its group.
  // The weights that are read no more.
  static std::vector<ValueId> Tie(Graph& graph, const Repetition& found,
                                  int64_t groups) {
    const std::vector<NodeId>& nodes = graph.block(ir::kMainBlock).nodes;
    const auto count = static_cast<int64_t>(found.count);
    llvm::DenseSet<ValueId> dropped;
    for (int64_t block = 1; block < count; ++block) {
      // Groups are runs of blocks, as even as they can be.
      const int64_t group = block * groups / count;
      const int64_t first = (group * count + groups - 1) / groups;
      if (first == block) continue;
      for (size_t i = 0; i < found.period; ++i) {
        const Node& source = graph.node(
            nodes[found.begin + static_cast<size_t>(first) * found.period + i]);
        Node& node = graph.mutable_node(
            nodes[found.begin + static_cast<size_t>(block) * found.period + i]);
        for (size_t k = 0; k < node.operands.size(); ++k) {
          const ValueId old = node.operands[k];
          if (old == source.operands[k] || old == ir::kNoValue ||
              graph.value(old).kind != ir::ValueKind::kInitializer) {
            continue;
          }
          node.operands[k] = source.operands[k];
          dropped.insert(old);
        }
      }
    }
    // What something else reads as well stays.
    for (size_t i = 0; i < graph.num_blocks(); ++i) {
      const ir::Block& block =
          graph.block(ir::BlockId(static_cast<uint32_t>(i)));
      for (ValueId result : block.results) dropped.erase(result);
      for (NodeId id : block.nodes) {
        for (ValueId operand : graph.node(id).operands) {
          if (operand != ir::kNoValue) dropped.erase(operand);
        }
      }
    }
    std::vector<ValueId> tied(dropped.begin(), dropped.end());
    std::sort(tied.begin(), tied.end());
    return tied;
  }

  static int64_t Remove(Graph& graph, const std::vector<ValueId>& tied) {
    const llvm::DenseSet<ValueId> dead(tied.begin(), tied.end());
    int64_t bytes = 0;
    for (ValueId value : tied) {
      bytes += graph.weight(graph.value(value).weight).size_bytes;
    }
    std::erase_if(graph.mutable_block(ir::kMainBlock).initializers,
                  [&](ValueId value) { return dead.contains(value); });
    return bytes;
  }

  TieOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeTieLayers(
    pass::PassOptions& options) {
  TieOptions tie;
  ASSIGN_OR_RETURN(const size_t share,
                   options.Choice("share", {"all", "pairs"},
                                  "or pairs: every second block with the one "
                                  "before it"));
  tie.pairs = share == 1;
  ASSIGN_OR_RETURN(tie.groups,
                   options.Int("groups", 1, "as many sets of weights"));
  if (tie.groups < 1 || (tie.pairs && tie.groups != 1)) {
    return absl::InvalidArgumentError(
        "pass tie-layers: groups is 1 or more, and not given with share=pairs");
  }
  return std::make_unique<TieLayers>(tie);
}

}  // namespace onnx_memopt::passes
