// no-pattern: keeps ONNX Runtime from holding a second block of the peak's
// size.
//
//     empty = SequenceEmpty()
//     c     = Equal(SequenceLength(empty), 0)
//     y     = If(c) then { SequenceLength(empty); all the nodes } else { never
//     }
//
// Why it saves memory: in its first run ONNX Runtime allocates tensor by tensor
// from an arena that never shrinks; from then on it takes one more block, of
// the size of that run's peak, and uses that alone (a "memory pattern"). A
// graph that is fed anything but tensors is run without one, and the sequence
// is such a feed for the branch. The condition is always true; that it depends
// on a sequence keeps it from being folded. What the branch returns is written
// straight into the outputs. Where the main graph has loops already (regions
// that `split` made), their bodies are fed the sequence and the main graph
// stays as it is, if they capture weights: two subgraphs deep those are not
// laid out when the model is loaded; weights of the body itself are. Cost:
// microseconds a run. Refuses: outputs that are not tensors of a number type or
// whose rank is unknown, inputs without a shape, models before opset 11. Must
// not run after it: passes that look for work in the main graph alone.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
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
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/lay_out_filters.h"
#include "onnx_memopt/rewrite/outline.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/rewrite/raise_opset.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::passes {
namespace {

using ir::BlockId;
using ir::ElementType;
using ir::Graph;
using ir::NodeId;
using ir::Type;
using ir::ValueId;

class NoPattern final : public pass::Pass {
 public:
  absl::string_view name() const override { return "no-pattern"; }

  absl::StatusOr<bool> Run(Graph& graph, pass::PassContext& context) override {
    return rewrite::RewriteRaised(
        graph, [&](Graph& raised) { return Rewrite(raised, context); });
  }

 private:
  static constexpr int64_t kMinGainBytes = 256 << 10;

  static absl::StatusOr<bool> Rewrite(Graph& graph,
                                      pass::PassContext& context) {
    if (const absl::Status status = rewrite::CheckCanBuild(graph);
        !status.ok()) {
      return context.LeaveAsIs(status);
    }
    for (ValueId param : graph.block(ir::kMainBlock).params) {
      const Type& type = graph.value(param).type;
      if (!type.is_tensor() || !type.shape.has_value()) {
        context.Remark(absl::StrCat(
            "left as it is: input \"", Printable(graph.value(param).name),
            "\" has no shape, so that ONNX Runtime keeps no memory pattern"));
        return false;
      }
    }
    Graph changed = graph.Clone();
    const std::vector<BlockId> bodies = Bodies(graph);
    const bool wraps = !HoldWeights(graph, bodies);
    if (wraps) {
      const absl::Status status = Wrap(changed);
      if (!status.ok()) return context.LeaveAsIs(status);
    }
    if (!bodies.empty()) Probe(changed, bodies);
    ASSIGN_OR_RETURN(const analysis::RuntimePrediction now,
                     rewrite::PredictForRewrite(graph));
    ASSIGN_OR_RETURN(const analysis::RuntimePrediction then,
                     rewrite::PredictForRewrite(changed));
    const int64_t before = now.peak_steady_bytes;
    const int64_t after = then.peak_steady_bytes;
    if (!rewrite::Pays(before, after) || before - after < kMinGainBytes) {
      return false;
    }
    ASSIGN_OR_RETURN(const double seconds, rewrite::PredictSeconds(changed));
    if (seconds > context.max_seconds()) {
      context.Remark("left as it is: a run would take longer than it may");
      return false;
    }
    graph = std::move(changed);
    context.Remark(absl::StrCat(
        wraps ? "the graph runs as a subgraph"
              : absl::StrCat("the bodies of ", bodies.size(), " subgraphs run"),
        " without a memory pattern, steady state in ONNX Runtime ",
        FormatBytes(before), " -> ", FormatBytes(after), " (predicted)"));
    return true;
  }

  // kFailedPrecondition where it cannot be.
  static absl::Status Wrap(Graph& graph) {
    // What the branch returns: outputs that nodes compute, each once.
    std::vector<ValueId> results;
    llvm::DenseSet<ValueId> seen;
    for (ValueId result : graph.block(ir::kMainBlock).results) {
      const ir::Value& value = graph.value(result);
      if (value.kind != ir::ValueKind::kResult || !seen.insert(result).second) {
        continue;
      }
      if (!rewrite::CanBranchReturn(value.type)) {
        return absl::FailedPreconditionError(
            absl::StrCat("output \"", Printable(value.name), "\" is ",
                         ToString(value.type)));
      }
      results.push_back(result);
    }
    if (results.empty()) {
      return absl::FailedPreconditionError("no node computes an output");
    }
    Wrap(graph, results);
    return absl::OkStatus();
  }

  // Subgraphs of the main graph, at any depth.
  static std::vector<BlockId> Bodies(const Graph& graph) {
    std::vector<BlockId> bodies = BlocksOutsideCalls(graph);
    bodies.erase(bodies.begin());
    return bodies;
  }

  // Weights that a runtime lays out when it loads the model, unless they are
  // captured two subgraphs deep.
  static bool HoldWeights(const Graph& graph,
                          const std::vector<BlockId>& bodies) {
    for (BlockId body : bodies) {
      for (NodeId id : graph.block(body).nodes) {
        const ir::Node& node = graph.node(id);
        if (node.info->recompute != ir::RecomputeCost::kExpensive) continue;
        for (ValueId operand : node.operands) {
          if (operand == ir::kNoValue) continue;
          const ir::Value& value = graph.value(operand);
          // A bias is read as it is.
          if (value.kind == ir::ValueKind::kInitializer &&
              value.block != body && value.type.shape.has_value() &&
              value.type.shape->size() > 1) {
            return true;
          }
        }
      }
    }
    return false;
  }

  // Feeds the sequence to the body.
  static void Read(rewrite::Builder& builder, ValueId empty, BlockId body) {
    const ValueId probe = builder.Op(
        body, "SequenceLength", {empty},
        Type::Tensor(ElementType::kInt64, ir::Shape{}), "no_pattern/use");
    std::vector<NodeId>& nodes = builder.graph().mutable_block(body).nodes;
    nodes.insert(nodes.begin(), builder.graph().value(probe).producer);
  }

  // The main graph may have the sequence of the branch above them already; one
  // more costs nothing.
  static void Probe(Graph& graph, const std::vector<BlockId>& bodies) {
    rewrite::Builder builder(&graph);
    const ValueId empty =
        builder.Op(ir::kMainBlock, "SequenceEmpty", {},
                   rewrite::EmptySequenceType(), "no_pattern");
    std::vector<NodeId>& nodes = graph.mutable_block(ir::kMainBlock).nodes;
    nodes.insert(nodes.begin(), graph.value(empty).producer);
    for (BlockId body : bodies) Read(builder, empty, body);
  }

  static void Wrap(Graph& graph, const std::vector<ValueId>& results) {
    rewrite::Builder builder(&graph);
    const auto [constants, nodes] = SplitOffConstants(graph);
    rewrite::AlwaysBranch branch(builder, ir::kMainBlock, "no_pattern");

    // The outputs keep their names; the values inside get new ones.
    llvm::DenseMap<ValueId, ValueId> inner;
    for (ValueId result : results) {
      inner[result] =
          builder.Value(ir::kMainBlock, graph.value(result).type,
                        absl::StrCat("no_pattern/", graph.value(result).name));
    }
    const std::vector<ValueId> outputs = graph.block(ir::kMainBlock).results;
    for (const auto& [outer, value] : inner) {
      const NodeId producer = graph.value(outer).producer;
      for (ValueId& result : graph.mutable_node(producer).results) {
        if (result == outer) result = value;
      }
      graph.mutable_value(value).producer = producer;
      graph.mutable_value(value).contents = graph.value(outer).contents;
    }
    graph.ReplaceUses(inner);
    graph.mutable_block(ir::kMainBlock).results = outputs;

    const BlockId body = branch.Add(results, "no_pattern");
    rewrite::MoveIntoSubgraph(graph, nodes, body);
    Read(builder, branch.sequence(), body);
    for (ValueId result : results) {
      graph.mutable_block(body).results.push_back(inner[result]);
    }
    std::vector<NodeId>& main = graph.mutable_block(ir::kMainBlock).nodes;
    main = constants;
    main.insert(main.end(), branch.condition_nodes().begin(),
                branch.condition_nodes().end());
    main.push_back(graph.block(body).owner);
    rewrite::LayOutFilters(builder, body);
  }

  // Nodes that compute a large tensor from weights alone, with what they read,
  // and all others. The runtime folds the former when it loads the model; what
  // it folds in a subgraph it holds twice.
  static std::pair<std::vector<NodeId>, std::vector<NodeId>> SplitOffConstants(
      const Graph& graph) {
    const ir::Block& main = graph.block(ir::kMainBlock);
    llvm::DenseMap<ValueId, bool> constant;
    for (ValueId id : main.initializers) {
      constant[id] = !graph.value(id).overridable;
    }
    const auto is_constant = [&](ValueId id) {
      const auto it = constant.find(id);
      return id == ir::kNoValue || (it != constant.end() && it->second);
    };
    for (NodeId id : main.nodes) {
      const ir::Node& node = graph.node(id);
      if (!node.blocks.empty() || node.is_call || node.info->random ||
          !std::all_of(node.operands.begin(), node.operands.end(),
                       is_constant)) {
        continue;
      }
      for (ValueId result : node.results) {
        if (result != ir::kNoValue) constant[result] = true;
      }
    }
    // An output has to come from the branch.
    for (ValueId result : main.results) constant[result] = false;

    // Filters are laid out only in the very graph that uses them.
    llvm::DenseSet<ValueId> filters;
    for (NodeId id : main.nodes) {
      const ir::Node& node = graph.node(id);
      if (!rewrite::IsConvolution(node)) continue;
      for (ValueId operand : node.operands) {
        if (operand != ir::kNoValue) filters.insert(operand);
      }
    }
    llvm::DenseSet<ValueId> wanted;
    std::pair<std::vector<NodeId>, std::vector<NodeId>> nodes;
    for (auto it = main.nodes.rbegin(); it != main.nodes.rend(); ++it) {
      const ir::Node& node = graph.node(*it);
      bool all_constant = !node.results.empty();
      bool stays = false;
      for (ValueId result : node.results) {
        if (result == ir::kNoValue) continue;
        all_constant = all_constant && is_constant(result);
        const std::optional<ir::Dim> bytes =
            SizeBytes(graph.value(result).type);
        stays = stays || wanted.contains(result) ||
                (bytes && bytes->is_constant() && !filters.contains(result) &&
                 bytes->constant() > rewrite::kSmallWeightBytes);
      }
      if (!all_constant || !stays) {
        nodes.second.push_back(*it);
        continue;
      }
      nodes.first.push_back(*it);
      for (ValueId operand : node.operands) {
        if (operand != ir::kNoValue) wanted.insert(operand);
      }
    }
    std::reverse(nodes.first.begin(), nodes.first.end());
    std::reverse(nodes.second.begin(), nodes.second.end());
    return nodes;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<pass::Pass>> MakeNoPattern(
    pass::PassOptions& /*options*/) {
  return std::make_unique<NoPattern>();
}

}  // namespace onnx_memopt::passes
