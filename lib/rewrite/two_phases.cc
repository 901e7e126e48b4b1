#include "onnx_memopt/rewrite/two_phases.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/emitter.h"
#include "onnx_memopt/rewrite/outline.h"
#include "rewrite/image_norm.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Combine;
using ir::Dim;
using ir::Graph;
using ir::kMainBlock;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

using Axes = Emitter::Axes;

class Writer {
 public:
  Writer(Graph* graph, int64_t min_bytes)
      : graph_(*graph), builder_(graph), finder_(*graph, min_bytes) {}

  const ReductionFinder& finder() const { return finder_; }

  std::vector<NodeId> Write(const ImageNorm& norm) {
    Emitter e(&builder_, kMainBlock);
    e.set_prefix(absl::StrCat("two_phases/", graph_.value(norm.y).name));
    const auto rank =
        static_cast<int64_t>(graph_.value(norm.x).type.shape->size());
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

  std::vector<NodeId> Write(const ImageReduction& reduction) {
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
    const int64_t bytes = finder_.BytesOf(x);
    ValueId from = x;  // kNoValue: of weights and inputs alone
    while (from != kNoValue && finder_.BytesOf(from) * 2 > bytes) {
      const NodeId maker = graph_.value(from).producer;
      if (chain.size() == kMaxAgain || maker == ir::kNoNode ||
          !CanMakeAgain(graph_.node(maker))) {
        return {};
      }
      chain.push_back(maker);
      ValueId next = kNoValue;
      for (ValueId operand : graph_.node(maker).operands) {
        if (operand == kNoValue || operand == next ||
            graph_.value(operand).weight != ir::kNoWeight ||
            graph_.value(operand).producer == ir::kNoNode) {
          continue;
        }
        if (next != kNoValue) return {};
        next = operand;
      }
      from = next;
    }
    std::vector<NodeId> copies;
    llvm::DenseMap<ValueId, ValueId> made_again;
    for (size_t i = chain.size(); i-- > 0;) {
      Node node = graph_.node(chain[i]);
      const ValueId old = node.results[0];
      node.name = builder_.UniqueName(absl::StrCat(node.name, "/again"));
      node.ForgetSource();
      const ValueId made =
          builder_.Value(kMainBlock, graph_.value(old).type,
                         absl::StrCat(graph_.value(old).name, "/again"));
      for (ValueId& operand : node.operands) {
        if (operand == kNoValue) continue;
        const auto it = made_again.find(operand);
        if (it != made_again.end()) {
          operand = it->second;
        } else if (IsConvolution(node) &&
                   graph_.value(operand).weight != ir::kNoWeight) {
          operand = CopyOfWeight(operand);
        }
      }
      made_again[old] = made;
      node.results = {made};
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

  // Of a number for each row, [items, channels, rows, 1], those of each group:
  // [items, groups, channels of a group * rows].
  ValueId ByGroup(Emitter& e, const ImageNorm& norm, ValueId rows) const {
    const Dim& count = *(*graph_.value(norm.x).type.shape)[kRowAxis];
    const int64_t elements =
        count.is_constant() ? norm.channels / norm.groups * count.constant()
                            : -1;
    return e.Reshape(rows, {0, norm.groups, elements});
  }

  // [items, groups, 1] as [items, channels, 1, 1].
  static ValueId ByChannel(Emitter& e, const ImageNorm& norm, ValueId groups,
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
  ValueId Parameter(Emitter& e, const ImageNorm& norm, ValueId parameter,
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
  const ReductionFinder finder_;
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
    if (const std::optional<ImageNorm> norm = writer.finder().NormAt(id)) {
      gone = norm->nodes;
      for (NodeId old : gone) written.before.push_back(graph.node(old));
      written.after = writer.Write(*norm);
      ValueId copy = kNoValue;
      // The mean of a row, what is subtracted from it, its square, and the mean
      // of that.
      ValueId made = norm->x;
      const NodeId mean = written.after[0];
      const NodeId variance = written.after[3];
      if (options.again_bytes.has_value() &&
          writer.finder().BytesOf(norm->x) >= *options.again_bytes) {
        const std::vector<NodeId> again = writer.MakeAgain(norm->x, &copy);
        if (!again.empty()) {
          ++phases.made_again_;
          made = copy;
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
      const NodeId maker = graph.value(made).producer;
      if (maker != ir::kNoNode) {
        phases.together_.emplace_back(maker, mean);
        phases.together_.emplace_back(maker, variance);
      }
    } else if (const std::optional<ImageReduction> reduction =
                   writer.finder().ReductionAt(id)) {
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
