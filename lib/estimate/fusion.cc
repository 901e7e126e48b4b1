#include "estimate/fusion.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::estimate {
namespace {

using ir::NodeId;
using ir::ValueId;

// Reads a graph by its edges.
class Matcher {
 public:
  Matcher(const ir::Graph& graph, absl::Span<const NodeId> steps)
      : graph_(graph), users_(graph.num_values()), order_(graph.num_nodes()) {
    int32_t step = 0;
    for (NodeId id : steps) {
      order_[ir::Index(id)] = step++;
      std::vector<ValueId> uses;
      ir::CollectUses(graph, id, &uses);
      for (ValueId use : uses) users_[ir::Index(use)].push_back(id);
    }
    for (ValueId result : graph.block(ir::kMainBlock).results) {
      if (result != ir::kNoValue)
        users_[ir::Index(result)].push_back(ir::kNoNode);
    }
  }

  const ir::Node& node(NodeId id) const { return graph_.node(id); }
  absl::string_view op(NodeId id) const {
    return id == ir::kNoNode ? absl::string_view() : node(id).op_type;
  }
  NodeId producer(ValueId value) const {
    return value == ir::kNoValue ? ir::kNoNode : graph_.value(value).producer;
  }
  ValueId operand(NodeId id, size_t i) const {
    const auto& operands = node(id).operands;
    return i < operands.size() ? operands[i] : ir::kNoValue;
  }
  ValueId result(NodeId id) const {
    return node(id).results.empty() ? ir::kNoValue : node(id).results[0];
  }
  // The only node that reads the node's result, and nothing else does.
  NodeId only_user(NodeId id) const {
    if (result(id) == ir::kNoValue) return ir::kNoNode;
    const auto& users = users_[ir::Index(result(id))];
    return users.size() == 1 ? users[0] : ir::kNoNode;
  }
  const std::vector<NodeId>& users(ValueId value) const {
    return users_[ir::Index(value)];
  }
  // Has its elements in the model, or one element only: no activation.
  bool is_constant(ValueId value) const {
    return value != ir::kNoValue && graph_.value(value).weight != ir::kNoWeight;
  }
  bool is_scalar(ValueId value) const {
    if (!is_constant(value)) return false;
    const ir::Weight& weight = graph_.weight(graph_.value(value).weight);
    return std::all_of(weight.dims.begin(), weight.dims.end(),
                       [](int64_t dim) { return dim == 1; });
  }
  // Of a node with two operands: the one that is not `value`.
  ValueId other(NodeId id, ValueId value) const {
    const ValueId first = operand(id, 0);
    return first == value ? operand(id, 1) : first;
  }
  bool reads(NodeId id, ValueId value) const {
    const auto& operands = node(id).operands;
    return std::find(operands.begin(), operands.end(), value) != operands.end();
  }
  int32_t order(NodeId id) const { return order_[ir::Index(id)]; }
  std::optional<size_t> rank(ValueId value) const {
    const ir::Type& type = graph_.value(value).type;
    if (!type.shape) return std::nullopt;
    return type.shape->size();
  }
  // One element, known before the run or not.
  bool is_single(ValueId value) const {
    if (is_scalar(value)) return true;
    const ir::Type& type = graph_.value(value).type;
    if (!type.shape) return false;
    return std::all_of(type.shape->begin(), type.shape->end(),
                       [](const std::optional<ir::Dim>& dim) {
                         return dim && *dim == ir::Dim(1);
                       });
  }
  std::vector<NodeId> Sorted(std::vector<NodeId> nodes) const {
    std::sort(nodes.begin(), nodes.end(),
              [&](NodeId a, NodeId b) { return order(a) < order(b); });
    return nodes;
  }

  // Follows the only users through nodes of these ops whose other operand is a
  // scalar. Returns the last value's only user, or the first that does not fit.
  NodeId SkipScalars(NodeId id, std::initializer_list<absl::string_view> ops,
                     std::vector<NodeId>* skipped) const {
    NodeId next = only_user(id);
    ValueId value = result(id);
    while (next != ir::kNoNode &&
           std::find(ops.begin(), ops.end(), op(next)) != ops.end() &&
           node(next).operands.size() == 2 && is_scalar(other(next, value))) {
      skipped->push_back(next);
      value = result(next);
      next = only_user(next);
    }
    return next;
  }

 private:
  const ir::Graph& graph_;
  std::vector<std::vector<NodeId>> users_;  // kNoNode: the caller
  std::vector<int32_t> order_;
};

// x * 0.5 * (1 + erf(x / sqrt(2))), in any order of the factors.
std::optional<Fusion> MatchGelu(const Matcher& m, NodeId erf) {
  const NodeId scale = m.producer(m.operand(erf, 0));
  if (m.op(scale) != "Div" && m.op(scale) != "Mul") return std::nullopt;
  if (m.only_user(scale) != erf) return std::nullopt;
  ValueId x = m.operand(scale, 0);
  if (m.is_scalar(x)) x = m.operand(scale, 1);
  if (!m.is_scalar(m.other(scale, x))) return std::nullopt;
  Fusion fusion{
      .kind = FusionKind::kGelu, .nodes = {scale, erf}, .name = "Gelu"};
  const NodeId last = m.SkipScalars(erf, {"Add", "Mul"}, &fusion.nodes);
  if (last == ir::kNoNode || m.op(last) != "Mul") return std::nullopt;
  const ValueId chain = m.result(fusion.nodes.back());
  const ValueId factor = m.other(last, chain);
  if (factor != x) {
    // 0.5 * x is a node of its own.
    const NodeId half = m.producer(factor);
    if (m.op(half) != "Mul" || !m.reads(half, x) || m.only_user(half) != last ||
        !m.is_scalar(m.other(half, x))) {
      return std::nullopt;
    }
    fusion.nodes.push_back(half);
  }
  fusion.nodes.push_back(last);
  std::vector<NodeId> tail;
  m.SkipScalars(last, {"Mul"}, &tail);
  // Only the factor 1/2 belongs to it, and only if it has not come yet.
  if (tail.size() == 1 && fusion.nodes.size() == 4) {
    fusion.nodes.push_back(tail[0]);
  }
  fusion.saved = {x};
  return fusion;
}

std::optional<Fusion> MatchSilu(const Matcher& m, NodeId sigmoid) {
  const ValueId x = m.operand(sigmoid, 0);
  const NodeId mul = m.only_user(sigmoid);
  if (m.op(mul) != "Mul" || !m.reads(mul, x)) return std::nullopt;
  return Fusion{.kind = FusionKind::kSilu,
                .nodes = {sigmoid, mul},
                .saved = {x},
                .name = "Silu"};
}

// A product and a sum with weights behind `last`, as far as they are there.
void AddAffine(const Matcher& m, NodeId last, Fusion* fusion) {
  for (absl::string_view op : {"Mul", "Add"}) {
    const NodeId next = m.only_user(last);
    if (m.op(next) != op || !m.is_constant(m.other(next, m.result(last))))
      break;
    fusion->nodes.push_back(next);
    last = next;
  }
}

// Reshape, InstanceNormalization, Reshape, Mul and Add with weights.
std::optional<Fusion> MatchGroupNorm(const Matcher& m, NodeId norm) {
  const NodeId before = m.producer(m.operand(norm, 0));
  const NodeId after = m.only_user(norm);
  if (m.op(before) != "Reshape" || m.only_user(before) != norm ||
      m.op(after) != "Reshape") {
    return std::nullopt;
  }
  Fusion fusion{.kind = FusionKind::kGroupNorm,
                .nodes = {before, norm, after},
                .saved = {m.operand(before, 0)},
                .name = "GroupNorm"};
  AddAffine(m, after, &fusion);
  return fusion;
}

// d = x - mean(x); d / sqrt(mean(d^2) + e), times and plus weights.
std::optional<Fusion> MatchLayerNorm(const Matcher& m, NodeId sqrt) {
  const NodeId add = m.producer(m.operand(sqrt, 0));
  if (m.op(add) != "Add") return std::nullopt;
  const ValueId mean_value =
      m.is_scalar(m.operand(add, 0)) ? m.operand(add, 1) : m.operand(add, 0);
  if (!m.is_scalar(m.other(add, mean_value))) return std::nullopt;
  const NodeId variance = m.producer(mean_value);
  if (m.op(variance) != "ReduceMean") return std::nullopt;
  const NodeId square = m.producer(m.operand(variance, 0));
  if (m.op(square) != "Pow" && m.op(square) != "Mul") return std::nullopt;
  const ValueId centred = m.operand(square, 0);
  const NodeId sub = m.producer(centred);
  if (m.op(sub) != "Sub") return std::nullopt;
  const NodeId mean = m.producer(m.operand(sub, 1));
  const ValueId x = m.operand(sub, 0);
  if (m.op(mean) != "ReduceMean" || m.operand(mean, 0) != x)
    return std::nullopt;
  const NodeId div = m.only_user(sqrt);
  if (m.op(div) != "Div" || m.operand(div, 0) != centred) return std::nullopt;
  for (NodeId user : m.users(centred)) {
    if (user != square && user != div) return std::nullopt;
  }
  Fusion fusion{.kind = FusionKind::kLayerNorm,
                .nodes = {mean, sub, square, variance, add, sqrt, div},
                .saved = {x},
                .name = "LayerNorm"};
  AddAffine(m, div, &fusion);
  return fusion;
}

// addmm: one operator writes the product with its bias.
std::optional<Fusion> MatchBias(const Matcher& m, NodeId product) {
  const NodeId add = m.only_user(product);
  if (m.op(add) != "Add") return std::nullopt;
  const ValueId bias = m.other(add, m.result(product));
  if (!m.is_constant(bias) || m.rank(bias) != 1) return std::nullopt;
  return Fusion{.kind = FusionKind::kBias,
                .nodes = {product, add},
                .saved = {},
                .name = m.op(product)};
}

// The product before a Softmax, through scale and mask.
NodeId ScoresOf(const Matcher& m, NodeId softmax,
                std::vector<NodeId>* between) {
  NodeId id = m.producer(m.operand(softmax, 0));
  for (int i = 0; i < 6 && id != ir::kNoNode; ++i) {
    if (m.op(id) == "MatMul") return id;
    const absl::string_view op = m.op(id);
    if (op != "Add" && op != "Mul" && op != "Div" && op != "Where" &&
        op != "Cast" && op != "Reshape") {
      return ir::kNoNode;
    }
    between->push_back(id);
    // Of the operands, the one that leads to a product; the mask does not.
    NodeId next = ir::kNoNode;
    for (ValueId operand : m.node(id).operands) {
      const NodeId producer = m.producer(operand);
      if (producer == ir::kNoNode || m.only_user(producer) != id) continue;
      const absl::string_view made_by = m.op(producer);
      if (made_by == "MatMul" || made_by == "Mul" || made_by == "Div" ||
          made_by == "Add" || made_by == "Reshape") {
        next = producer;
        if (made_by == "MatMul") break;
      }
    }
    id = next;
  }
  return ir::kNoNode;
}

// The fused operator takes its operand in any layout: how the exporter turned
// the keys is part of it.
void AddViewsBefore(const Matcher& m, ValueId* value,
                    std::vector<NodeId>* nodes) {
  for (;;) {
    const NodeId view = m.producer(*value);
    if ((m.op(view) != "Transpose" && m.op(view) != "Reshape") ||
        m.only_user(view) == ir::kNoNode) {
      return;
    }
    nodes->push_back(view);
    *value = m.operand(view, 0);
  }
}

// Where(IsNaN(x), 0, x): rows that are masked as a whole.
NodeId SkipNanGuard(const Matcher& m, NodeId softmax,
                    std::vector<NodeId>* nodes) {
  if (m.result(softmax) == ir::kNoValue) return ir::kNoNode;
  const std::vector<NodeId>& users = m.users(m.result(softmax));
  if (users.size() != 2) return ir::kNoNode;
  const bool first = m.op(users[0]) == "IsNaN";
  const NodeId test = users[first ? 0 : 1];
  const NodeId where = users[first ? 1 : 0];
  if (m.op(test) != "IsNaN" || m.op(where) != "Where" ||
      m.only_user(test) != where) {
    return ir::kNoNode;
  }
  nodes->push_back(test);
  return where;
}

std::optional<Fusion> MatchAttention(const Matcher& m, NodeId softmax) {
  Fusion fusion{.kind = FusionKind::kAttention, .name = "Attention"};
  const NodeId scores = ScoresOf(m, softmax, &fusion.nodes);
  if (scores == ir::kNoNode) return std::nullopt;
  // A linear layer before a Softmax is no attention.
  if (m.is_constant(m.operand(scores, 0)) ||
      m.is_constant(m.operand(scores, 1))) {
    return std::nullopt;
  }
  fusion.nodes.push_back(scores);
  fusion.nodes.push_back(softmax);
  // Queries and keys may have been scaled each by a number.
  for (size_t i = 0; i < 2; ++i) {
    const ValueId factor = m.operand(scores, i);
    const NodeId scale = m.producer(factor);
    ValueId source = factor;
    if ((m.op(scale) == "Mul" || m.op(scale) == "Div") &&
        m.only_user(scale) == scores && m.is_single(m.operand(scale, 1))) {
      fusion.nodes.push_back(scale);
      source = m.operand(scale, 0);
      AddViewsBefore(m, &source, &fusion.nodes);
    }
    fusion.saved.push_back(source);
  }
  NodeId last = softmax;
  for (;;) {
    NodeId next = m.only_user(last);
    if (next == ir::kNoNode) next = SkipNanGuard(m, last, &fusion.nodes);
    if (next == ir::kNoNode) return std::nullopt;
    fusion.nodes.push_back(next);
    if (m.op(next) == "MatMul" && m.operand(next, 0) == m.result(last)) {
      fusion.saved.push_back(m.operand(next, 1));
      fusion.saved.push_back(m.result(next));
      break;
    }
    if (m.op(next) != "Dropout" && m.op(next) != "Cast" &&
        m.op(next) != "Reshape" && m.op(next) != "Where") {
      return std::nullopt;
    }
    last = next;
  }
  fusion.nodes = m.Sorted(std::move(fusion.nodes));
  return fusion;
}

std::optional<Fusion> Match(const Matcher& m, NodeId id,
                            const FusionOptions& options) {
  const absl::string_view op = m.op(id);
  if (m.result(id) == ir::kNoValue) return std::nullopt;
  if (op == "Erf") return MatchGelu(m, id);
  if (op == "Sigmoid") return MatchSilu(m, id);
  if (op == "InstanceNormalization") return MatchGroupNorm(m, id);
  if (op == "Sqrt") return MatchLayerNorm(m, id);
  if (op == "MatMul") return MatchBias(m, id);
  if (op == "Softmax" && options.attention) return MatchAttention(m, id);
  return std::nullopt;
}

}  // namespace

std::vector<Fusion> FindFusions(const ir::Graph& graph,
                                absl::Span<const NodeId> steps,
                                const FusionOptions& options) {
  const Matcher matcher(graph, steps);
  std::vector<bool> taken(graph.num_nodes());
  std::vector<Fusion> fusions;
  for (NodeId id : steps) {
    std::optional<Fusion> fusion = Match(matcher, id, options);
    if (!fusion) continue;
    fusion->nodes = matcher.Sorted(std::move(fusion->nodes));
    // Operands that a broken model leaves out.
    if (matcher.result(fusion->nodes.back()) == ir::kNoValue ||
        std::find(fusion->saved.begin(), fusion->saved.end(), ir::kNoValue) !=
            fusion->saved.end()) {
      continue;
    }
    if (std::any_of(fusion->nodes.begin(), fusion->nodes.end(),
                    [&](NodeId node) { return taken[ir::Index(node)]; })) {
      continue;
    }
    for (NodeId node : fusion->nodes) taken[ir::Index(node)] = true;
    fusions.push_back(*std::move(fusion));
  }
  return fusions;
}

std::vector<std::vector<NodeId>> FindAttention(const ir::Graph& graph,
                                               absl::Span<const NodeId> steps) {
  const Matcher matcher(graph, steps);
  std::vector<bool> taken(graph.num_nodes());
  std::vector<std::vector<NodeId>> found;
  for (NodeId id : steps) {
    if (matcher.op(id) != "Softmax") continue;
    std::optional<Fusion> fusion = MatchAttention(matcher, id);
    if (!fusion ||
        std::any_of(fusion->nodes.begin(), fusion->nodes.end(),
                    [&](NodeId node) { return taken[ir::Index(node)]; })) {
      continue;
    }
    for (NodeId node : fusion->nodes) taken[ir::Index(node)] = true;
    found.push_back(std::move(fusion->nodes));
  }
  return found;
}

}  // namespace onnx_memopt::estimate
