#include "rewrite/region_rules.h"

#include <algorithm>

#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/analysis/blocked_layout.h"
#include "onnx_memopt/ir/flow_rules.h"
#include "onnx_memopt/rewrite/outline.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::kNoValue;
using ir::Node;
using ir::ValueId;

// True if it reads something computed that has another shape than what it
// makes, such as the scale of a norm. Weights are laid out when the model is
// loaded.
bool Broadcasts(const BlockFlow& flow, const Node& node) {
  return node.info->flow == ir::flow_rules::Elementwise &&
         std::any_of(
             node.operands.begin(), node.operands.end(), [&](ValueId operand) {
               return flow.producer(operand) >= 0 &&
                      flow.graph().value(operand).type.shape !=
                          flow.graph().value(node.results[0]).type.shape;
             });
}

}  // namespace

bool HasProduct(const ir::Graph& graph, const SplitPlan& plan) {
  return std::any_of(plan.nodes.begin(), plan.nodes.end(),
                     [&](const SplitNode& split) {
                       return graph.node(split.node).info->recompute ==
                              ir::RecomputeCost::kExpensive;
                     });
}

bool ReadsLargeWeights(const ir::Graph& graph, const analysis::Sizes& sizes,
                       const SplitPlan& plan) {
  for (const SplitNode& split : plan.nodes) {
    const Node& node = graph.node(split.node);
    // Blocked layouts of convolutions run over into what follows them.
    if (IsConvolution(node)) return true;
    for (ValueId operand : node.operands) {
      if (operand != kNoValue &&
          graph.value(operand).kind == ir::ValueKind::kInitializer &&
          sizes.bytes(operand).value_or(0) > kSmallWeightBytes) {
        return true;
      }
    }
  }
  return false;
}

bool SplitsFilters(const ir::Graph& graph, const SplitPlan& plan) {
  return std::any_of(
      plan.nodes.begin(), plan.nodes.end(), [&](const SplitNode& split) {
        return IsConvolution(graph.node(split.node)) &&
               split.way.operands.size() > 1 && split.way.operands[1].axis >= 0;
      });
}

bool CutsConvolutions(const BlockFlow& flow, const SplitPlan& plan,
                      bool plain_anyway) {
  const ir::Graph& graph = flow.graph();
  llvm::DenseSet<int> inside;
  for (const SplitNode& split : plan.nodes) {
    inside.insert(flow.position(split.node));
  }
  const auto is_convolution = [&](int position) {
    return IsConvolution(graph.node(flow.node(position)));
  };
  const auto keeps_layout = [&](int position) {
    const Node& node = graph.node(flow.node(position));
    return analysis::KeepsBlockedLayout(node) && !Broadcasts(flow, node);
  };
  // What is read in the plain layout, too, has a tensor of its own anyway.
  const auto is_plain = [&](int position) {
    for (ValueId result : graph.node(flow.node(position)).results) {
      if (result == kNoValue) continue;
      for (int user : flow.users(result)) {
        if (!keeps_layout(user)) return true;
      }
    }
    return false;
  };
  // A sum of two convolutions runs together with one of them.
  const auto has_other = [&](int from, int to) {
    const Node& node = graph.node(flow.node(to));
    return node.op_type == "Add" &&
           std::any_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId operand) {
                         const int other = flow.producer(operand);
                         return other >= 0 && other != from &&
                                is_convolution(other) &&
                                inside.contains(other) == inside.contains(to);
                       });
  };
  // A convolution outside that reads what the region makes reads it as it
  // comes, and ranges that overlap are copies anyway.
  const bool copies = NeedsWindows(plan);
  const auto is_cut = [&](int from, int to) {
    return inside.contains(from) != inside.contains(to) &&
           ((is_convolution(from) && keeps_layout(to) &&
             !(plain_anyway && (is_plain(from) || has_other(from, to)))) ||
            (is_convolution(to) && inside.contains(to) && !copies &&
             keeps_layout(from)));
  };
  for (int position : inside) {
    for (ValueId operand : graph.node(flow.node(position)).operands) {
      const int producer = flow.producer(operand);
      if (producer >= 0 && is_cut(producer, position)) return true;
    }
    for (ValueId result : graph.node(flow.node(position)).results) {
      if (result == kNoValue) continue;
      for (int user : flow.users(result)) {
        if (is_cut(position, user)) return true;
      }
    }
  }
  return false;
}

}  // namespace onnx_memopt::rewrite
