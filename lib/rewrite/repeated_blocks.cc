#include "onnx_memopt/rewrite/repeated_blocks.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

// Weights of less than this part of all are not worth a repetition of its own.
constexpr int64_t kSmallPart = 100;

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

  // `taken`: by place in the schedule, what is in no block.
  std::optional<Repetition> Find(const std::vector<bool>& taken) const {
    std::optional<Repetition> best;
    for (size_t period = 1; period <= nodes_.size() / 2; ++period) {
      size_t run = 0;  // nodes that repeat the one a period before
      for (size_t i = period; i <= nodes_.size(); ++i) {
        if (i < nodes_.size() && !taken[i] && !taken[i - period] &&
            Repeats(i - period, i)) {
          ++run;
          continue;
        }
        Repetition found{.begin = i - run - period,
                         .period = period,
                         .count = run / period + 1};
        AddFirst(run % period, taken, &found);
        run = 0;
        if (found.count < 2) continue;
        found.later_bytes = BytesOfLater(found);
        if (found.later_bytes > (best ? best->later_bytes : 0)) best = found;
      }
    }
    return best;
  }

  // The first nodes of a block follow the run, and the ops of its others come
  // before it, with something between them.
  bool HasOneMore(const Repetition& found) const {
    size_t part = 0;
    while (part < found.period && found.end() + part < nodes_.size() &&
           Repeats(found.end() + part - found.period, found.end() + part)) {
      ++part;
    }
    if (part == 0) return false;
    size_t next = found.end();  // of the block's others, the last first
    size_t missing = found.period - part;
    for (size_t i = found.begin; i-- > 0 && missing > 0;) {
      if (graph_.node(nodes_[i]).op_type ==
          graph_.node(nodes_[next - 1]).op_type) {
        --next;
        --missing;
      }
    }
    return missing == 0;
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
  void AddFirst(size_t part, const std::vector<bool>& taken,
                Repetition* found) const {
    const size_t missing = found->period - part;
    if (found->begin < missing ||
        found->begin + found->period > nodes_.size()) {
      return;
    }
    const size_t begin = found->begin - missing;
    for (size_t i = begin; i < found->begin; ++i) {
      if (taken[i] || taken[i + found->period] ||
          !Repeats(i, i + found->period, begin)) {
        return;
      }
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
    for (size_t i = found.begin; i < found.end(); ++i) {
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

}  // namespace

std::optional<Repetition> FindRepetition(const Graph& graph) {
  const size_t count = graph.block(ir::kMainBlock).nodes.size();
  if (count > kMaxNodesOfRepetition) return std::nullopt;
  return Finder(graph).Find(std::vector<bool>(count));
}

std::vector<Repetition> FindRepetitions(const Graph& graph) {
  std::vector<Repetition> all;
  const size_t count = graph.block(ir::kMainBlock).nodes.size();
  if (count > kMaxNodesOfRepetition) return all;
  int64_t total = 0;
  for (ValueId id : graph.block(ir::kMainBlock).initializers) {
    total += graph.weight(graph.value(id).weight).size_bytes;
  }
  const Finder finder(graph);
  std::vector<bool> taken(count);
  while (true) {
    const std::optional<Repetition> found = finder.Find(taken);
    if (!found || found->later_bytes < total / kSmallPart) break;
    std::fill(taken.begin() + static_cast<std::ptrdiff_t>(found->begin),
              taken.begin() + static_cast<std::ptrdiff_t>(found->end()), true);
    all.push_back(*found);
    all.back().one_more = finder.HasOneMore(*found);
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return all;
}

}  // namespace onnx_memopt::rewrite
