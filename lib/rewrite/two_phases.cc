#include "onnx_memopt/rewrite/two_phases.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/ir/dimension_flow.h"
#include "onnx_memopt/ir/flow_rules.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/emitter.h"
#include "onnx_memopt/rewrite/outline.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Combine;
using ir::Dim;
using ir::ElementType;
using ir::Graph;
using ir::kMainBlock;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::Shape;
using ir::ValueId;

using Axes = Emitter::Axes;

// Rows are along the first axis of an image, [items, channels, rows, ...].
constexpr size_t kChannelAxis = 1;
constexpr size_t kRowAxis = 2;
constexpr size_t kImageRank = 4;
constexpr float kDefaultEpsilon = 1e-5F;
// Since this version GroupNormalization scales channels, not groups.
constexpr int kScalesChannels = 21;

bool IsReal(const ir::Type& type) {
  // Sums of 16-bit rows would be rounded once more.
  return type.element == ElementType::kFloat ||
         type.element == ElementType::kDouble;
}

// A norm, with what exporters put around it.
struct Norm {
  ValueId x = kNoValue;  // [items, channels, rows, ...]
  ValueId y = kNoValue;  // of the same shape
  int64_t groups = 0;
  int64_t channels = 0;
  double epsilon = 0;
  // Of groups or of channels.
  ValueId scale = kNoValue;
  ValueId shift = kNoValue;
  bool scales_channels = false;
  // Behind it, Mul and Add with something for each channel, in order.
  std::vector<std::pair<bool, ValueId>> scales_and_shifts;  // true: Mul
  std::vector<NodeId> nodes;                                // in order
};

// A reduction over the rows and other axes.
struct Reduction {
  ValueId x = kNoValue;
  ValueId y = kNoValue;
  Combine combine = Combine::kNone;
  Axes first;  // axes of the first phase
  Axes all;
  bool keep_dims = true;
};

class Writer {
 public:
  Writer(Graph* graph, int64_t min_bytes)
      : graph_(*graph),
        builder_(graph),
        bindings_(analysis::AssumedBindings(*graph)),
        min_bytes_(min_bytes) {
    const ir::Block& main = graph_.block(kMainBlock);
    returned_.insert(main.results.begin(), main.results.end());
    std::vector<ValueId> uses;
    for (NodeId id : main.nodes) {
      uses.clear();
      ir::CollectUses(graph_, id, &uses);
      for (ValueId value : uses) readers_[value].push_back(id);
    }
  }

  std::optional<Norm> NormAt(NodeId id) const {
    const Node& node = graph_.node(id);
    const bool by_instance =
        node.info->flow == ir::flow_rules::InstanceNormalization;
    const bool by_group = node.info->flow == ir::flow_rules::GroupNormalization;
    if ((!by_instance && !by_group) || node.operands.size() != 3) {
      return std::nullopt;
    }
    Norm norm{.x = node.operands[0],
              .y = node.results[0],
              .epsilon = FloatAttribute(node, "epsilon", kDefaultEpsilon),
              .scale = node.operands[1],
              .shift = node.operands[2]};
    const Shape* shape = ShapeOf(norm.x);
    if (shape == nullptr || shape->size() <= kChannelAxis ||
        !(*shape)[kChannelAxis].has_value() ||
        !(*shape)[kChannelAxis]->is_constant() || norm.scale == kNoValue ||
        norm.shift == kNoValue) {
      return std::nullopt;
    }
    norm.channels = (*shape)[kChannelAxis]->constant();
    norm.groups =
        by_group ? IntAttribute(node, "num_groups", 0) : norm.channels;
    norm.scales_channels = by_group && node.opset >= kScalesChannels;
    norm.nodes = {id};
    if (by_instance) LookThroughReshapes(&norm);
    if (!Fits(norm)) return std::nullopt;
    TakeScalesAndShifts(&norm);
    TakeUnused(&norm);
    return norm;
  }

  std::optional<Reduction> ReductionAt(NodeId id) const {
    const Node& node = graph_.node(id);
    const bool pools = node.info->flow == ir::flow_rules::GlobalPool;
    if (!pools && node.info->flow != ir::flow_rules::Reduce) {
      return std::nullopt;
    }
    // Those that are their own second phase.
    const absl::string_view op = node.op_type;
    if (!pools && op != "ReduceSum" && op != "ReduceMean" &&
        op != "ReduceMax") {
      return std::nullopt;
    }
    Reduction reduction{.x = node.operands[0], .y = node.results[0]};
    const Shape* shape = ShapeOf(reduction.x);
    const Shape* result = ShapeOf(reduction.y);
    if (shape == nullptr || result == nullptr || !IsLarge(reduction.x)) {
      return std::nullopt;
    }
    std::vector<bool> reduced(shape->size(), false);
    for (const ir::SplitWay& way : SplitWays(graph_, id)) {
      if (way.combine == Combine::kNone) continue;
      reduction.combine = way.combine;
      reduced[static_cast<size_t>(way.operands[0].axis)] = true;
    }
    // Axes of one element are no ways, but may be reduced: of what is known to
    // keep its rank, or to lose all that it reduces, they can be told.
    reduction.keep_dims = pools || IntAttribute(node, "keepdims", 1) != 0;
    const auto count =
        static_cast<size_t>(std::count(reduced.begin(), reduced.end(), true));
    if (count < 2 ||
        (!reduction.keep_dims && result->size() != shape->size() - count)) {
      return std::nullopt;
    }
    for (size_t axis = 0; axis < reduced.size(); ++axis) {
      if (!reduced[axis]) continue;
      reduction.all.push_back(static_cast<int64_t>(axis));
      if (reduction.all.size() > 1) {
        reduction.first.push_back(static_cast<int64_t>(axis));
      }
    }
    if (!IsReal(graph_.value(reduction.x).type)) return std::nullopt;
    return reduction;
  }

  std::vector<NodeId> Write(const Norm& norm) {
    Emitter e(&builder_, kMainBlock);
    e.set_prefix(absl::StrCat("two_phases/", graph_.value(norm.y).name));
    const auto rank = static_cast<int64_t>(ShapeOf(norm.x)->size());
    Axes within;  // a row
    for (int64_t axis = kRowAxis + 1; axis < rank; ++axis) {
      within.push_back(axis);
    }
    const ValueId mean_of_row = e.ReduceMean(norm.x, within);
    const ValueId variance_of_row =
        e.ReduceMean(e.Square(e.Sub(norm.x, mean_of_row)), within);

    const ValueId means = ByGroup(e, norm, mean_of_row);
    const ValueId mean = e.ReduceMean(means, {2});
    const ValueId variance =
        e.Add(e.ReduceMean(ByGroup(e, norm, variance_of_row), {2}),
              e.ReduceMean(e.Square(e.Sub(means, mean)), {2}));
    const ValueId deviation = e.Sqrt(e.Add(variance, norm.epsilon));

    // [items or 1, channels, 1, 1]
    ValueId scale = e.Div(Parameter(e, norm, norm.scale, rank),
                          ByChannel(e, norm, deviation, rank));
    ValueId shift = e.Sub(Parameter(e, norm, norm.shift, rank),
                          e.Mul(ByChannel(e, norm, mean, rank), scale));
    for (const auto& [scales, operand] : norm.scales_and_shifts) {
      if (scales) scale = e.Mul(scale, operand);
      shift = scales ? e.Mul(shift, operand) : e.Add(shift, operand);
    }
    const ValueId scaled = e.Mul(norm.x, scale);
    std::vector<NodeId> nodes = e.nodes();
    nodes.push_back(
        builder_.Node(kMainBlock, "Add", {scaled, shift}, {norm.y},
                      absl::StrCat("two_phases/", graph_.value(norm.y).name)));
    return nodes;
  }

  std::vector<NodeId> Write(const Reduction& reduction) {
    Emitter e(&builder_, kMainBlock);
    e.set_prefix(absl::StrCat("two_phases/", graph_.value(reduction.y).name));
    const auto reduce = [&](ValueId a, const Axes& axes, bool keep_dims) {
      switch (reduction.combine) {
        case Combine::kSum:
          return e.ReduceSum(a, axes, keep_dims);
        case Combine::kMean:
          return e.ReduceMean(a, axes, keep_dims);
        default:
          return e.ReduceMax(a, axes, keep_dims);
      }
    };
    const ValueId rows =
        reduce(reduction.x, reduction.first, /*keep_dims=*/true);
    const ValueId whole = reduce(rows, reduction.all, reduction.keep_dims);
    // The result keeps its name.
    const NodeId last = graph_.value(whole).producer;
    graph_.mutable_node(last).results[0] = reduction.y;
    graph_.mutable_value(whole).producer = ir::kNoNode;
    graph_.mutable_value(reduction.y).producer = last;
    return e.nodes();
  }

  // A second copy of the nodes that make `x`, where they make it of something
  // of at most half its size; empty where they do not. `copy` gets its value.
  std::vector<NodeId> MakeAgain(ValueId x, ValueId* copy) {
    // From the last to the first.
    std::vector<NodeId> chain;
    const int64_t bytes = BytesOf(x);
    ValueId from = x;
    while (BytesOf(from) * 2 > bytes) {
      const NodeId maker = graph_.value(from).producer;
      if (chain.size() == kMaxAgain || maker == ir::kNoNode ||
          !CanMakeAgain(graph_.node(maker))) {
        return {};
      }
      chain.push_back(maker);
      // What comes in beside weights has to be one tensor.
      ValueId next = kNoValue;
      for (ValueId operand : graph_.node(maker).operands) {
        if (operand == kNoValue || operand == next ||
            graph_.value(operand).weight != ir::kNoWeight) {
          continue;
        }
        if (next != kNoValue) return {};
        next = operand;
      }
      if (next == kNoValue) return {};
      from = next;
    }
    std::vector<NodeId> copies;
    *copy = from;
    for (size_t i = chain.size(); i-- > 0;) {
      Node node = graph_.node(chain[i]);
      const ValueId old = node.results[0];
      node.name = builder_.UniqueName(absl::StrCat(node.name, "/again"));
      node.source_block = ir::kNoBlock;
      node.source_index = ir::kNoIndex;
      const ValueId made =
          builder_.Value(kMainBlock, graph_.value(old).type,
                         absl::StrCat(graph_.value(old).name, "/again"));
      for (ValueId& operand : node.operands) {
        if (operand == from) {
          operand = *copy;
        } else if (IsConvolution(node) && operand != kNoValue) {
          operand = CopyOfWeight(operand);
        }
      }
      node.results = {made};
      from = old;
      *copy = made;
      const NodeId id = graph_.AddNode(std::move(node));
      graph_.mutable_value(made).producer = id;
      copies.push_back(id);
    }
    return copies;
  }

 private:
  static constexpr size_t kMaxAgain = 4;

  // Each body that uses a filter has to have it.
  ValueId CopyOfWeight(ValueId weight) {
    ir::Value value = graph_.value(weight);
    value.name = builder_.UniqueName(absl::StrCat(value.name, "/again"));
    value.source_block = ir::kNoBlock;
    ir::Weight copy = graph_.weight(value.weight);
    value.weight = graph_.AddWeight(std::move(copy));
    const ValueId id = graph_.AddValue(std::move(value));
    graph_.mutable_block(kMainBlock).initializers.push_back(id);
    return id;
  }

  bool CanMakeAgain(const Node& node) const {
    for (ValueId operand : node.operands) {
      if (operand == kNoValue || !IsConvolution(node)) continue;
      // Operands that are weights are to be initializers of the file.
      const ir::Value& value = graph_.value(operand);
      if (value.weight != ir::kNoWeight &&
          (value.kind != ir::ValueKind::kInitializer || value.overridable ||
           value.pinned ||
           graph_.weight(value.weight).storage == ir::WeightStorage::kSparse)) {
        return false;
      }
    }
    return node.block == kMainBlock && !node.is_call && node.blocks.empty() &&
           node.results.size() == 1 && !node.info->random &&
           node.info->recompute != ir::RecomputeCost::kUnknown;
  }

  const Shape* ShapeOf(ValueId value) const {
    const ir::Type& type = graph_.value(value).type;
    if (!type.is_tensor() || !type.shape.has_value()) return nullptr;
    return std::all_of(type.shape->begin(), type.shape->end(),
                       [](const auto& dim) { return dim.has_value(); })
               ? &*type.shape
               : nullptr;
  }

  int64_t BytesOf(ValueId value) const {
    const std::optional<Dim> bytes = SizeBytes(graph_.value(value).type);
    return bytes ? bytes->Evaluate(bindings_).value_or(0) : 0;
  }
  bool IsLarge(ValueId value) const { return BytesOf(value) >= min_bytes_; }

  // The one node that reads it; kNoNode if it is read otherwise, too.
  NodeId OnlyReader(ValueId value) const {
    const auto it = readers_.find(value);
    if (it == readers_.end() || it->second.size() != 1 ||
        returned_.contains(value) || graph_.value(value).pinned) {
      return ir::kNoNode;
    }
    const NodeId reader = it->second.front();
    const auto& operands = graph_.node(reader).operands;
    return std::count(operands.begin(), operands.end(), value) == 1
               ? reader
               : ir::kNoNode;
  }

  // Group norm as it is exported: x [items, channels, rows, columns] becomes
  // [items, groups, elements], is normalized, and becomes what it was.
  void LookThroughReshapes(Norm* norm) const {
    const NodeId before = graph_.value(norm->x).producer;
    const NodeId after = OnlyReader(norm->y);
    if (before == ir::kNoNode || after == ir::kNoNode ||
        graph_.node(before).op_type != "Reshape" ||
        graph_.node(after).op_type != "Reshape" ||
        graph_.node(after).operands[0] != norm->y) {
      return;
    }
    const ValueId x = graph_.node(before).operands[0];
    const ValueId y = graph_.node(after).results[0];
    const Shape* grouped = ShapeOf(norm->x);
    const Shape* outer = ShapeOf(x);
    const Shape* result = ShapeOf(y);
    if (outer == nullptr || result == nullptr || *outer != *result ||
        outer->size() < kImageRank || *(*outer)[0] != *(*grouped)[0] ||
        !(*outer)[kChannelAxis]->is_constant()) {
      return;
    }
    const bool only_here = OnlyReader(norm->x) == norm->nodes.front();
    if (only_here && graph_.node(before).block == kMainBlock) {
      norm->nodes.insert(norm->nodes.begin(), before);
    }
    norm->nodes.push_back(after);
    norm->x = x;
    norm->y = y;
    norm->channels = (*outer)[kChannelAxis]->constant();
  }

  bool Fits(const Norm& norm) const {
    const Shape* shape = ShapeOf(norm.x);
    if (shape == nullptr || shape->size() < kImageRank || !IsLarge(norm.x) ||
        !IsReal(graph_.value(norm.x).type) || norm.groups < 1 ||
        norm.channels % norm.groups != 0) {
      return false;
    }
    // A row of one element says nothing of its variance.
    for (ValueId parameter : {norm.scale, norm.shift}) {
      const Shape* own = ShapeOf(parameter);
      const int64_t size = norm.scales_channels ? norm.channels : norm.groups;
      if (own == nullptr || own->size() != 1 || *(*own)[0] != Dim(size)) {
        return false;
      }
    }
    return *(*shape)[kRowAxis] != Dim(1);
  }

  // True if it has one element for each channel, or one for all.
  bool IsOfChannels(ValueId value, int64_t channels, size_t rank) const {
    const Shape* shape = ShapeOf(value);
    if (shape == nullptr || shape->size() > rank ||
        graph_.value(value).weight == ir::kNoWeight) {
      return false;
    }
    for (size_t i = 0; i < shape->size(); ++i) {
      const size_t axis = rank - shape->size() + i;
      const Dim& dim = *(*shape)[i];
      if (dim != Dim(1) && (axis != kChannelAxis || dim != Dim(channels))) {
        return false;
      }
    }
    return true;
  }

  void TakeScalesAndShifts(Norm* norm) const {
    const size_t rank = ShapeOf(norm->x)->size();
    while (true) {
      const NodeId next = OnlyReader(norm->y);
      if (next == ir::kNoNode) return;
      const Node& node = graph_.node(next);
      const bool scales = node.op_type == "Mul";
      if ((!scales && node.op_type != "Add") || !node.domain.empty() ||
          node.operands.size() != 2) {
        return;
      }
      const ValueId other =
          node.operands[0] == norm->y ? node.operands[1] : node.operands[0];
      if (!IsOfChannels(other, norm->channels, rank)) return;
      norm->scales_and_shifts.emplace_back(scales, other);
      norm->nodes.push_back(next);
      norm->y = node.results[0];
    }
  }

  // What only the nodes of the norm read, such as the shape of x.
  void TakeUnused(Norm* norm) const {
    llvm::DenseSet<ValueId> kept = {norm->x, norm->scale, norm->shift};
    for (const auto& [scales, operand] : norm->scales_and_shifts) {
      kept.insert(operand);
    }
    llvm::DenseSet<NodeId> gone(norm->nodes.begin(), norm->nodes.end());
    const auto is_unused = [&](ValueId value) {
      if (value == kNoValue) return true;
      const auto it = readers_.find(value);
      return !kept.contains(value) && !returned_.contains(value) &&
             !graph_.value(value).pinned && it != readers_.end() &&
             std::all_of(it->second.begin(), it->second.end(),
                         [&](NodeId reader) { return gone.contains(reader); });
    };
    std::vector<NodeId> pending = norm->nodes;
    while (!pending.empty()) {
      const NodeId id = pending.back();
      pending.pop_back();
      for (ValueId operand : graph_.node(id).operands) {
        if (operand == kNoValue) continue;
        const NodeId maker = graph_.value(operand).producer;
        if (maker == ir::kNoNode || gone.contains(maker) ||
            graph_.node(maker).block != kMainBlock ||
            graph_.node(maker).is_call || !graph_.node(maker).blocks.empty() ||
            graph_.node(maker).info->random) {
          continue;
        }
        const auto& results = graph_.node(maker).results;
        if (std::all_of(results.begin(), results.end(), is_unused)) {
          gone.insert(maker);
          pending.push_back(maker);
        }
      }
    }
    norm->nodes.clear();
    for (NodeId id : graph_.block(kMainBlock).nodes) {
      if (gone.contains(id)) norm->nodes.push_back(id);
    }
  }

  // Of a number for each row, [items, channels, rows, 1], those of each group:
  // [items, groups, channels of a group * rows].
  ValueId ByGroup(Emitter& e, const Norm& norm, ValueId rows) const {
    const Dim& count = *(*ShapeOf(norm.x))[kRowAxis];
    const int64_t elements =
        count.is_constant() ? norm.channels / norm.groups * count.constant()
                            : -1;
    return e.Reshape(rows, {0, norm.groups, elements});
  }

  // [items, groups, 1] as [items, channels, 1, 1].
  static ValueId ByChannel(Emitter& e, const Norm& norm, ValueId groups,
                           int64_t rank) {
    std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
    dims[0] = 0;
    dims[kChannelAxis] = norm.channels;
    const int64_t each = norm.channels / norm.groups;
    const ValueId all =
        each == 1 ? groups : e.Expand(groups, e.Ints({1, 1, each}));
    return e.Reshape(all, dims);
  }

  // A scale or shift, [groups] or [channels], as [1, channels, 1, 1].
  ValueId Parameter(Emitter& e, const Norm& norm, ValueId parameter,
                    int64_t rank) const {
    std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
    dims[kChannelAxis] = norm.channels;
    const int64_t each = norm.channels / norm.groups;
    ValueId all = parameter;
    if (!norm.scales_channels && each != 1) {
      all = e.Expand(e.Reshape(all, {norm.groups, 1}),
                     e.Ints({norm.groups, each}));
    }
    return e.Reshape(all, dims);
  }

  Graph& graph_;
  Builder builder_;
  const ir::Bindings bindings_;
  const int64_t min_bytes_;
  llvm::DenseSet<ValueId> returned_;
  llvm::DenseMap<ValueId, std::vector<NodeId>> readers_;
};

// `nodes` take the place of the last one of `gone`.
void Replace(Graph& graph, absl::Span<const NodeId> gone,
             absl::Span<const NodeId> nodes) {
  std::vector<NodeId>& schedule = graph.mutable_block(kMainBlock).nodes;
  const auto at = std::find(schedule.begin(), schedule.end(), gone.back());
  schedule.insert(at, nodes.begin(), nodes.end());
  graph.EraseNodes(kMainBlock, gone);
}

// Weights of the main graph that a pass made and nothing reads.
void EraseUnusedWeights(Graph& graph) {
  llvm::DenseSet<ValueId> used;
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const NodeId id{static_cast<uint32_t>(i)};
    if (graph.erased(id)) continue;
    for (ValueId operand : graph.node(id).operands) {
      // Not a key that DenseSet may be asked for.
      if (operand != kNoValue) used.insert(operand);
    }
  }
  for (size_t i = 0; i < graph.num_blocks(); ++i) {
    const ir::BlockId id{static_cast<uint32_t>(i)};
    for (ValueId result : graph.block(id).results) {
      if (result != kNoValue) used.insert(result);
    }
  }
  std::erase_if(graph.mutable_block(kMainBlock).initializers,
                [&](ValueId value) {
                  return graph.value(value).source_block == ir::kNoBlock &&
                         !used.contains(value);
                });
}

}  // namespace

TwoPhases TwoPhases::Write(Graph& graph, const TwoPhaseOptions& options) {
  TwoPhases phases;
  Writer writer(&graph, options.min_bytes);
  const std::vector<NodeId> schedule = graph.block(kMainBlock).nodes;
  for (NodeId id : schedule) {
    if (graph.erased(id)) continue;
    Written written;
    std::vector<NodeId> gone;
    if (const std::optional<Norm> norm = writer.NormAt(id)) {
      gone = norm->nodes;
      for (NodeId old : gone) written.before.push_back(graph.node(old));
      written.after = writer.Write(*norm);
      ValueId copy = kNoValue;
      if (options.make_again) {
        const std::vector<NodeId> again = writer.MakeAgain(norm->x, &copy);
        if (!again.empty()) {
          ++phases.made_again_;
          // The mean of a row, and what is subtracted from: the first nodes.
          for (size_t i = 0; i < 2; ++i) {
            for (ValueId& operand :
                 graph.mutable_node(written.after[i]).operands) {
              if (operand == norm->x) operand = copy;
            }
          }
          written.after.insert(written.after.begin(), again.begin(),
                               again.end());
        }
      }
    } else if (const std::optional<Reduction> reduction =
                   writer.ReductionAt(id)) {
      gone = {id};
      written.before.push_back(graph.node(id));
      written.after = writer.Write(*reduction);
    } else {
      continue;
    }
    Replace(graph, gone, written.after);
    phases.written_.push_back(std::move(written));
  }
  return phases;
}

void TwoPhases::RestoreUnused(Graph& graph) const {
  for (const Written& written : written_) {
    if (std::any_of(written.after.begin(), written.after.end(), [&](NodeId id) {
          return graph.node(id).block != kMainBlock;
        })) {
      continue;
    }
    std::vector<NodeId> nodes;
    for (const Node& old : written.before) {
      const NodeId id = graph.AddNode(old);
      for (ValueId result : old.results) {
        if (result != kNoValue) graph.mutable_value(result).producer = id;
      }
      nodes.push_back(id);
    }
    Replace(graph, written.after, nodes);
  }
  EraseUnusedWeights(graph);
}

}  // namespace onnx_memopt::rewrite
