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
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

// Periods times nodes that are compared: a model of 10,000 nodes.
constexpr size_t kMaxNodes = 10'000;

struct TieOptions {
  bool pairs = false;
  int64_t groups = 1;
};

// The part of the schedule that repeats: `count` blocks of `period` nodes.
struct Repetition {
  size_t begin = 0;
  size_t period = 0;
  size_t count = 0;
};

class Finder {
 public:
  explicit Finder(const Graph& graph)
      : graph_(graph), nodes_(graph.block(ir::kMainBlock).nodes) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (ValueId result : graph.node(nodes_[i]).results) {
        if (result != ir::kNoValue) made_at_[result] = i;
      }
    }
  }

  // The one whose later blocks have the most bytes of weights; of those with
  // as many, the one of the shortest period.
  std::optional<Repetition> Find() const {
    std::optional<Repetition> best;
    int64_t best_bytes = 0;
    for (size_t period = 1; period <= nodes_.size() / 2; ++period) {
      size_t run = 0;  // nodes that repeat the one a period before
      for (size_t i = period; i <= nodes_.size(); ++i) {
        if (i < nodes_.size() && Repeats(i - period, i)) {
          ++run;
          continue;
        }
        Repetition found{.begin = i - run - period,
                         .period = period,
                         .count = run / period + 1};
        AddFirst(run % period, &found);
        if (found.count > 1) {
          const int64_t bytes = BytesOfLater(found);
          if (bytes > best_bytes) {
            best_bytes = bytes;
            best = found;
          }
        }
        run = 0;
      }
    }
    return best;
  }

 private:
  bool IsWeight(ValueId id) const {
    const ir::Value& value = graph_.value(id);
    return value.kind == ir::ValueKind::kInitializer && !value.overridable &&
           !value.pinned && value.type.is_tensor() &&
           IsReal(value.type.element);
  }
  static bool IsReal(ir::ElementType element) {
    return element == ir::ElementType::kFloat ||
           element == ir::ElementType::kDouble ||
           element == ir::ElementType::kFloat16 ||
           element == ir::ElementType::kBfloat16;
  }

  // The first block reads the input of the network where others read what the
  // block before them gives. `part`: how many nodes of it were found to repeat,
  // at the end of it; none where all of a later block were.
  void AddFirst(size_t part, Repetition* found) const {
    const size_t missing = found->period - part;
    if (found->begin < missing ||
        found->begin + found->period > nodes_.size()) {
      return;
    }
    const size_t begin = found->begin - missing;
    for (size_t i = begin; i < found->begin; ++i) {
      if (!Repeats(i, i + found->period, begin)) return;
    }
    found->begin = begin;
    ++found->count;
  }

  // `first`: where a first block begins, which may read other values from
  // outside.
  bool Repeats(size_t before, size_t after,
               std::optional<size_t> first = {}) const {
    const Node& a = graph_.node(nodes_[before]);
    const Node& b = graph_.node(nodes_[after]);
    if (a.op_type != b.op_type || a.domain != b.domain ||
        a.operands.size() != b.operands.size() ||
        a.results.size() != b.results.size() || !a.blocks.empty() ||
        !b.blocks.empty() || a.is_call || b.is_call) {
      return false;
    }
    for (size_t i = 0; i < a.operands.size(); ++i) {
      if (Agree(a.operands[i], before, b.operands[i], after) ||
          (first && AreInputs(a.operands[i], *first, b.operands[i],
                              *first + after - before))) {
        continue;
      }
      return false;
    }
    return SameAttributes(a, b);
  }

  bool Agree(ValueId a, size_t before, ValueId b, size_t after) const {
    if (a == b) return true;
    if (a == ir::kNoValue || b == ir::kNoValue) return false;
    const auto made_a = made_at_.find(a);
    const auto made_b = made_at_.find(b);
    if (made_a != made_at_.end() && made_b != made_at_.end()) {
      return before - made_a->second == after - made_b->second &&
             ResultIndex(a) == ResultIndex(b);
    }
    const ir::Value& x = graph_.value(a);
    const ir::Value& y = graph_.value(b);
    if (made_a != made_at_.end() || made_b != made_at_.end()) return false;
    if (IsWeight(a) && IsWeight(b)) {
      const ir::Weight& v = graph_.weight(x.weight);
      const ir::Weight& w = graph_.weight(y.weight);
      return v.element == w.element && v.dims == w.dims;
    }
    // Shapes and axes.
    return !y.overridable && !y.pinned &&
           x.kind == ir::ValueKind::kInitializer &&
           y.kind == ir::ValueKind::kInitializer && x.contents != nullptr &&
           y.contents != nullptr && x.type.element == y.type.element &&
           *x.contents == *y.contents;
  }

  // Of blocks that begin there, and of one type.
  bool AreInputs(ValueId a, size_t begin_a, ValueId b, size_t begin_b) const {
    const auto comes_before = [&](ValueId id, size_t begin) {
      if (id == ir::kNoValue) return false;
      const auto made = made_at_.find(id);
      return made != made_at_.end()
                 ? made->second < begin
                 : graph_.value(id).kind == ir::ValueKind::kInput;
    };
    return comes_before(a, begin_a) && comes_before(b, begin_b) &&
           ToString(graph_.value(a).type) == ToString(graph_.value(b).type);
  }

  size_t ResultIndex(ValueId id) const {
    const auto& results = graph_.node(graph_.value(id).producer).results;
    return static_cast<size_t>(std::find(results.begin(), results.end(), id) -
                               results.begin());
  }

  bool SameAttributes(const Node& a, const Node& b) const {
    if (a.attributes.size() != b.attributes.size()) return false;
    for (size_t i = 0; i < a.attributes.size(); ++i) {
      const ir::Attribute& x = a.attributes[i];
      const ir::Attribute& y = b.attributes[i];
      if (x.name != y.name || x.value.index() != y.value.index() ||
          !SameValue(x.value, y.value)) {
        return false;
      }
    }
    return true;
  }

  bool SameValue(const ir::AttributeValue& x,
                 const ir::AttributeValue& y) const {
    return std::visit(
        [&](const auto& value) {
          using Kind = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<Kind, ir::OpaqueAttribute>) {
            return false;
          } else if constexpr (std::is_same_v<Kind, ir::WeightId>) {
            const ir::Weight& v = graph_.weight(value);
            const ir::Weight& w = graph_.weight(std::get<Kind>(y));
            return v.element == w.element && v.dims == w.dims &&
                   v.storage == w.storage && v.bytes == w.bytes &&
                   v.storage != ir::WeightStorage::kExternal;
          } else {
            return value == std::get<Kind>(y);
          }
        },
        x);
  }

  int64_t BytesOfLater(const Repetition& found) const {
    int64_t bytes = 0;
    llvm::DenseSet<ValueId> seen;
    const size_t end = found.begin + found.period * found.count;
    for (size_t i = found.begin; i < end; ++i) {
      for (ValueId operand : graph_.node(nodes_[i]).operands) {
        if (operand == ir::kNoValue || !IsWeight(operand) ||
            !seen.insert(operand).second || i < found.begin + found.period) {
          continue;
        }
        bytes += graph_.weight(graph_.value(operand).weight).size_bytes;
      }
    }
    return bytes;
  }

  const Graph& graph_;
  const std::vector<NodeId>& nodes_;
  llvm::DenseMap<ValueId, size_t> made_at_;
};

class TieLayers final : public pass::Pass {
 public:
  explicit TieLayers(TieOptions options) : options_(options) {}

  absl::string_view name() const override { return "tie-layers"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    if (graph.block(ir::kMainBlock).nodes.size() > kMaxNodes) {
      context.Remark(absl::StrCat("left as it is: it has more than ", kMaxNodes,
                                  " nodes"));
      return false;
    }
    const std::optional<Repetition> found = Finder(graph).Find();
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
