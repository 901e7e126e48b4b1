// rematerialize: computes cheap values again where they are used, if they would
// wait through the peak.
//
//     mask = Expand(m)  ...  peak  ...  y = Add(x, mask)
//     =>
//     mask = Expand(m)  ...  peak  ...  y = If(true) { again = Expand(m)
//                                                      Add(x, again) }
//
// Why it saves memory: masks, casts and broadcasts are made once and read by
// many, and live from the first reader to the last. The copy stands in the
// branch of an If that always runs, together with its reader: ONNX Runtime
// merges equal nodes and folds constants, but neither across the border of a
// subgraph whose condition it cannot know; and in a frame of its own the copy
// does not take over, and so hold, the buffer of the first. Cost: the nodes run
// again; only those whose cost is one pass over the data or none (docs/ops.md,
// "recompute"). Refuses: random ops, ops of several results, models with
// subgraphs or calls, models before opset 11, and what does not lower a
// predicted peak. Must not run after it: passes that inline branches.
//
// Options: max-nodes (default 8), force (default 0).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/pass/pass.h"
#include "onnx_memopt/pass/pass_options.h"
#include "onnx_memopt/rewrite/always_branch.h"
#include "onnx_memopt/rewrite/bare_run.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/outline.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using analysis::RuntimeBlock;
using ir::Graph;
using ir::kNoNode;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

size_t At(int32_t index) { return static_cast<size_t>(index); }

// A value that waits through the peak.
struct Waiting {
  ValueId value;
  int64_t size_bytes = 0;
  std::vector<NodeId> later;  // who reads it after the peak
  std::vector<NodeId> again;  // what has to run for it, in order
};

class Rematerialize final : public pass::Pass {
 public:
  Rematerialize(int64_t max_nodes, int64_t force)
      : max_nodes_(max_nodes), force_(force) {}

  absl::string_view name() const override { return "rematerialize"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    if (const absl::Status status = rewrite::CheckCanBuild(graph);
        !status.ok()) {
      return context.LeaveAsIs(status);
    }
    const std::vector<NodeId>& nodes = graph.block(ir::kMainBlock).nodes;
    if (std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
          return !graph.node(id).blocks.empty();
        })) {
      // ONNX Runtime does not infer the shapes of what an If returns, and a
      // loop may need them.
      context.Remark("left as it is: the model has subgraphs or calls");
      return false;
    }
    if (force_ > 0) return Force(graph, context);
    if (const absl::Status status =
            rewrite::CheckCanSearch(graph, context.analyses(), kMaxNodes);
        !status.ok()) {
      return context.LeaveAsIs(status);
    }
    Graph changed = graph.Clone();
    std::vector<std::string> names;
    RETURN_IF_ERROR(RepeatAll(changed, &names));
    if (names.empty()) return false;
    ASSIGN_OR_RETURN(const rewrite::RewritePeaks before,
                     rewrite::PeaksForRewrite(graph));
    ASSIGN_OR_RETURN(const rewrite::RewritePeaks after,
                     rewrite::PeaksForRewrite(changed));
    if (!rewrite::Pays(before, after)) return false;
    graph = std::move(changed);
    for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
      context.Remark(names[i]);
    }
    context.Remark(absl::StrCat(names.size(),
                                names.size() == 1 ? " value" : " values",
                                " made again, ", DescribeGain(before, after)));
    return true;
  }

 private:
  static constexpr size_t kMaxNodes = 10'000;
  static constexpr int kMaxAttempts = 200;
  static constexpr size_t kShown = 8;
  static constexpr size_t kMaxReaders = 16;

  // Values that may not pay: to test that any may be made again.
  bool Force(Graph& graph, pass::PassContext& context) const {
    const ir::Block& main = graph.block(ir::kMainBlock);
    const std::vector<NodeId> nodes = main.nodes;
    const llvm::DenseSet<ValueId> outputs(main.results.begin(),
                                          main.results.end());
    int64_t values = 0;
    for (NodeId id : nodes) {
      if (values == force_) break;
      if (!IsCheap(graph, id) || graph.node(id).results[0] == kNoValue) {
        continue;
      }
      Waiting waiting{.value = graph.node(id).results[0]};
      if (outputs.contains(waiting.value)) continue;
      for (NodeId reader : nodes) {
        if (!CanMove(graph, reader)) continue;
        const auto& operands = graph.node(reader).operands;
        if (std::find(operands.begin(), operands.end(), waiting.value) !=
            operands.end()) {
          waiting.later.push_back(reader);
        }
      }
      waiting.again =
          Chain(graph, waiting.value, [](ValueId /*id*/) { return true; });
      if (waiting.again.empty() || waiting.later.empty()) continue;
      Repeat(graph, waiting);
      ++values;
    }
    if (values == 0) return false;
    context.Remark(absl::StrCat(values, " values, forced"));
    return true;
  }

  // A reader that can run in a branch.
  static bool CanMove(const Graph& graph, NodeId id) {
    const Node& node = graph.node(id);
    return node.block == ir::kMainBlock && node.blocks.empty() &&
           !node.is_call && IsKnown(*node.info) &&
           std::all_of(
               node.results.begin(), node.results.end(), [&](ValueId result) {
                 return result == kNoValue ||
                        rewrite::CanBranchReturn(graph.value(result).type);
               });
  }

  absl::Status RepeatAll(Graph& graph, std::vector<std::string>* names) const {
    ASSIGN_OR_RETURN(rewrite::BareRun now, rewrite::RunBare(graph));
    int attempts = 0;
    while (true) {
      bool repeated = false;
      for (const Waiting& waiting : FindWaiting(graph, now)) {
        if (++attempts > kMaxAttempts) return absl::OkStatus();
        Graph changed = graph.Clone();
        Repeat(changed, waiting);
        ASSIGN_OR_RETURN(rewrite::BareRun then, rewrite::RunBare(changed));
        if (then.peak_bytes > now.peak_bytes ||
            (then.peak_bytes == now.peak_bytes &&
             then.sum_bytes >= now.sum_bytes)) {
          continue;
        }
        names->push_back(
            absl::StrCat(Printable(graph.value(waiting.value).name), " (",
                         FormatBytes(waiting.size_bytes), ") again for ",
                         Printable(graph.DisplayName(waiting.later.front()))));
        graph = std::move(changed);
        now = std::move(then);
        repeated = true;
        break;
      }
      if (!repeated) return absl::OkStatus();
    }
  }

  // Puts each later reader in a branch that makes the value for it.
  static void Repeat(Graph& graph, const Waiting& waiting) {
    rewrite::Builder builder(&graph);
    rewrite::AlwaysBranch branch(builder, ir::kMainBlock, "rematerialize");
    for (NodeId reader : waiting.later) {
      const auto& nodes = graph.block(ir::kMainBlock).nodes;
      const std::ptrdiff_t place =
          std::find(nodes.begin(), nodes.end(), reader) - nodes.begin();
      // The results keep their names; inside they get new ones.
      std::vector<ValueId> results;
      std::vector<ValueId> inside;
      const auto old_results = graph.node(reader).results;
      for (size_t i = 0; i < old_results.size(); ++i) {
        if (old_results[i] == kNoValue) continue;
        results.push_back(old_results[i]);
        // A copy: the graph grows.
        ir::Type type = graph.value(old_results[i]).type;
        inside.push_back(builder.Value(
            ir::kMainBlock, std::move(type),
            absl::StrCat("rematerialize/", graph.value(results.back()).name)));
        graph.mutable_node(reader).results[i] = inside.back();
        graph.mutable_value(inside.back()).producer = reader;
      }
      const std::string name =
          absl::StrCat("rematerialize/", graph.value(waiting.value).name);
      const ir::BlockId body = branch.Add(results, name);
      const ValueId again = Copy(builder, waiting, body, name);
      rewrite::MoveIntoSubgraph(graph, {reader}, body);
      for (ValueId& operand : graph.mutable_node(reader).operands) {
        if (operand == waiting.value) operand = again;
      }
      graph.mutable_block(body).results.assign(inside.begin(), inside.end());
      std::vector<NodeId>& main = graph.mutable_block(ir::kMainBlock).nodes;
      main.insert(main.begin() + place, graph.block(body).owner);
    }
    std::vector<NodeId>& main = graph.mutable_block(ir::kMainBlock).nodes;
    main.insert(main.begin(), branch.condition_nodes().begin(),
                branch.condition_nodes().end());
  }

  // The value made again in `body`.
  static ValueId Copy(rewrite::Builder& builder, const Waiting& waiting,
                      ir::BlockId body, absl::string_view name) {
    Graph& graph = builder.graph();
    llvm::DenseMap<ValueId, ValueId> copies;
    for (NodeId id : waiting.again) {
      // Copies: the graph grows.
      Node node = graph.node(id);
      const ValueId old = node.results[0];
      ir::Type type = graph.value(old).type;
      const auto contents = graph.value(old).contents;
      const ValueId made =
          builder.Value(body, std::move(type),
                        absl::StrCat(name, "/", graph.value(old).name));
      graph.mutable_value(made).contents = contents;
      node.name = builder.UniqueName(absl::StrCat(name, "/", node.op_type));
      node.block = body;
      node.ForgetSource();
      for (ValueId& operand : node.operands) {
        const auto it = copies.find(operand);
        if (operand != kNoValue && it != copies.end()) operand = it->second;
      }
      node.results[0] = made;
      copies[old] = made;
      const NodeId copy = graph.AddNode(std::move(node));
      graph.mutable_value(made).producer = copy;
      graph.mutable_block(body).nodes.push_back(copy);
    }
    return copies[waiting.value];
  }

  // The largest first.
  std::vector<Waiting> FindWaiting(const Graph& graph,
                                   const rewrite::BareRun& run) const {
    const RuntimeBlock& block = run.block;
    const std::vector<int32_t>& order = run.order;
    const analysis::BufferPlan& plan = run.plan;
    const auto peak_at = static_cast<size_t>(std::max(run.peak_at, 0));
    std::vector<Waiting> found;
    std::vector<size_t> made(block.values.size());
    std::vector<std::vector<size_t>> reads(block.values.size());
    std::vector<bool> busy(block.values.size());  // by buffer: at the peak
    llvm::DenseMap<ValueId, int32_t> index;
    for (size_t v = 0; v < block.values.size(); ++v) {
      index[block.values[v].id] = static_cast<int32_t>(v);
    }
    for (size_t i = 0; i < order.size(); ++i) {
      const analysis::RuntimeStep& step = block.steps[At(order[i])];
      const auto read = [&](int32_t value) {
        reads[At(value)].push_back(i);
        if (i == peak_at) busy[At(plan.buffer_of[At(value)])] = true;
      };
      for (int32_t value : step.inputs) read(value);
      for (int32_t value : step.captured) read(value);
      for (int32_t value : step.outputs) {
        made[At(value)] = i;
        if (i == peak_at) busy[At(plan.buffer_of[At(value)])] = true;
      }
    }
    for (size_t v = 0; v < block.values.size(); ++v) {
      const int32_t buffer = plan.buffer_of[v];
      const analysis::RuntimeValue& value = block.values[v];
      if (value.producer < 0 || value.is_output || made[v] >= peak_at ||
          reads[v].empty() || reads[v].back() <= peak_at || busy[At(buffer)] ||
          block.values[At(buffer)].producer < 0 ||
          block.values[At(buffer)].size_bytes == 0) {
        continue;
      }
      Waiting waiting{.value = value.id,
                      .size_bytes = block.values[At(buffer)].size_bytes};
      bool reads_in_main = true;
      size_t first_later = order.size();
      for (size_t at : reads[v]) {
        if (at <= peak_at) continue;
        const NodeId reader = block.steps[At(order[at])].node;
        first_later = std::min(first_later, at);
        const Node& node = graph.node(reader);
        const bool by_operand =
            std::find(node.operands.begin(), node.operands.end(), value.id) !=
            node.operands.end();
        reads_in_main &= by_operand && CanMove(graph, reader);
        if (std::find(waiting.later.begin(), waiting.later.end(), reader) ==
            waiting.later.end()) {
          waiting.later.push_back(reader);
        }
      }
      if (!reads_in_main || waiting.later.size() > kMaxReaders) continue;
      const auto lives = [&](ValueId id) {
        const auto it = index.find(id);
        if (it == index.end()) return true;
        const int32_t at = it->second;
        if (block.values[At(at)].producer < 0) return true;
        return plan.buffer_of[At(at)] != buffer && !reads[At(at)].empty() &&
               reads[At(at)].back() >= first_later;
      };
      waiting.again = Chain(graph, value.id, lives);
      if (!waiting.again.empty()) found.push_back(std::move(waiting));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Waiting& a, const Waiting& b) {
                       return a.size_bytes > b.size_bytes;
                     });
    return found;
  }

  static bool IsCheap(const Graph& graph, NodeId id) {
    if (id == kNoNode) return false;
    const Node& node = graph.node(id);
    if (node.block != ir::kMainBlock || !node.blocks.empty() || node.is_call ||
        node.info->random || node.info->side_effect ||
        node.results.size() != 1 ||
        (node.info->recompute != ir::RecomputeCost::kFree &&
         node.info->recompute != ir::RecomputeCost::kCheap)) {
      return false;
    }
    return std::none_of(
        node.attributes.begin(), node.attributes.end(),
        [](const ir::Attribute& attribute) {
          return std::holds_alternative<ir::OpaqueAttribute>(attribute.value);
        });
  }

  // The nodes that make `value` from what is there anyway, in order; empty if
  // its own producer is not cheap or there are too many.
  template <typename Lives>
  std::vector<NodeId> Chain(const Graph& graph, ValueId value,
                            const Lives& lives) const {
    llvm::DenseSet<NodeId> chain;
    std::vector<ValueId> pending = {value};
    bool is_first = true;
    while (!pending.empty()) {
      const ValueId next = pending.back();
      pending.pop_back();
      if (next == kNoValue || graph.value(next).weight != ir::kNoWeight) {
        continue;
      }
      const NodeId producer = graph.value(next).producer;
      if (!is_first && lives(next)) continue;
      if (!IsCheap(graph, producer)) {
        if (is_first) return {};
        continue;
      }
      is_first = false;
      if (!chain.insert(producer).second) continue;
      if (static_cast<int64_t>(chain.size()) > max_nodes_) return {};
      const Node& node = graph.node(producer);
      pending.insert(pending.end(), node.operands.begin(), node.operands.end());
    }
    std::vector<NodeId> ordered;
    for (NodeId id : graph.block(ir::kMainBlock).nodes) {
      if (chain.contains(id)) ordered.push_back(id);
    }
    return ordered;
  }

  int64_t max_nodes_;
  int64_t force_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeRematerialize(
    pass::PassOptions& options) {
  ASSIGN_OR_RETURN(
      const int64_t max_nodes,
      options.Int("max-nodes", 8, "nodes that are run again for a value"));
  ASSIGN_OR_RETURN(const int64_t force,
                   options.Int("force", 0,
                               "make so many values again, whether it pays "
                               "or not"));
  return std::make_unique<Rematerialize>(max_nodes, force);
}

}  // namespace onnx_memopt::passes
