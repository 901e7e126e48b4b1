#include "grad/segments.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <variant>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/cost.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

using ir::Index;
using ir::kNoValue;
using ir::NodeId;
using ir::ValueId;

// A core of today, roughly: only the ratio matters.
constexpr double kFlopsPerSecond = 5e10;
constexpr double kBytesPerSecond = 1e10;
constexpr int kMaxSegments = 256;

bool CanBeWritten(const ir::Node& node) {
  return std::none_of(
      node.attributes.begin(), node.attributes.end(),
      [](const ir::Attribute& a) {
        return std::holds_alternative<ir::WeightId>(a.value) ||
               std::holds_alternative<ir::OpaqueAttribute>(a.value);
      });
}

}  // namespace

absl::StatusOr<ForwardPass> ForwardPass::Compute(const ir::Graph& graph,
                                                 const StepInfo& step) {
  ForwardPass pass;
  pass.graph_ = &graph;
  for (NodeId id : graph.block(ir::kMainBlock).nodes) {
    (Index(id) < step.forward_nodes ? pass.order_ : pass.backward_)
        .push_back(id);
  }
  analysis::AnalysisManager analyses(&graph);
  ASSIGN_OR_RETURN(const analysis::Cost* cost, analyses.Get<analysis::Cost>());
  pass.seconds_.assign(graph.num_nodes(), 0);
  for (NodeId id : graph.block(ir::kMainBlock).nodes) {
    const analysis::NodeCost& c = cost->node(id);
    pass.seconds_[Index(id)] = std::max(
        static_cast<double>(c.flops.value_or(0)) / kFlopsPerSecond,
        static_cast<double>(c.traffic_bytes.value_or(0)) / kBytesPerSecond);
    pass.total_seconds_ += pass.seconds_[Index(id)];
  }

  pass.last_read_.assign(graph.num_values(), -1);
  pass.by_backward_.assign(graph.num_values(), false);
  pass.bytes_.assign(graph.num_values(), 0);
  std::vector<ValueId> uses;
  for (size_t i = 0; i < pass.order_.size(); ++i) {
    uses.clear();
    CollectUses(graph, pass.order_[i], &uses);
    for (ValueId use : uses) {
      pass.last_read_[Index(use)] = static_cast<int64_t>(i);
    }
  }
  for (NodeId id : pass.backward_) {
    uses.clear();
    CollectUses(graph, id, &uses);
    for (ValueId use : uses) pass.by_backward_[Index(use)] = true;
  }
  for (ValueId result : graph.block(ir::kMainBlock).results) {
    pass.last_read_[Index(result)] = std::numeric_limits<int64_t>::max();
  }

  std::vector<int64_t> change(pass.order_.size() + 1, 0);
  pass.saved_before_.assign(pass.order_.size() + 1, 0);
  for (size_t i = 0; i < pass.order_.size(); ++i) {
    const ir::Node& node = graph.node(pass.order_[i]);
    pass.saved_before_[i + 1] = pass.saved_before_[i];
    for (ValueId result : node.results) {
      if (result == kNoValue) continue;
      const std::optional<ir::Dim> size = SizeBytes(graph.value(result).type);
      const std::optional<int64_t> bytes =
          size ? size->Evaluate(graph.assumed) : std::optional<int64_t>();
      if (!bytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "node \"", Printable(graph.DisplayName(pass.order_[i])),
            "\": the size of \"", Printable(graph.value(result).name),
            "\" is unknown, and checkpoints need it; give sizes with --dim"));
      }
      if (node.info->view_of < 0) pass.bytes_[Index(result)] = *bytes;
      if (pass.by_backward_[Index(result)]) {
        pass.saved_before_[i + 1] += pass.bytes_[Index(result)];
      }
      // Made at i, read last at `last`: crosses positions i + 1 to last.
      const auto last = static_cast<size_t>(std::clamp<int64_t>(
          pass.last_read_[Index(result)], static_cast<int64_t>(i),
          static_cast<int64_t>(pass.order_.size()) - 1));
      if (last > i) {
        change[i + 1] += *bytes;
        change[last + 1] -= *bytes;
      }
    }
  }
  pass.ForbidScaledCopies();
  int64_t crossing = 0;
  for (int64_t delta : change) {
    crossing += delta;
    pass.crossing_.push_back(crossing);
  }
  return pass;
}

void ForwardPass::ForbidScaledCopies() {
  forbidden_.assign(order_.size() + 1, false);
  for (size_t i = 0; i < order_.size(); ++i) {
    const ir::Node& node = graph_->node(order_[i]);
    if (node.op_type != "Mul" || node.results[0] == kNoValue) continue;
    const bool scaled = std::any_of(
        node.operands.begin(), node.operands.end(), [&](ValueId operand) {
          const auto& shape = graph_->value(operand).type.shape;
          return shape && shape->empty();
        });
    const int64_t last = last_read_[Index(node.results[0])];
    if (!scaled || last >= static_cast<int64_t>(order_.size())) continue;
    for (auto at = static_cast<int64_t>(i) + 1; at <= last; ++at) {
      forbidden_[static_cast<size_t>(at)] = true;
    }
  }
}

int ForwardPass::MaxSegments() const {
  return static_cast<int>(
      std::min<size_t>(kMaxSegments, std::max<size_t>(order_.size() / 3, 1)));
}

std::vector<size_t> ForwardPass::Cuts(int segments) const {
  const size_t n = order_.size();
  std::vector<size_t> cuts = {0};
  const int64_t total = saved_before_.back();
  // How far a cut may be from its place: a third of a segment.
  const int64_t slack = total / (3 * std::max<int64_t>(segments, 1));
  for (int k = 1; k < segments; ++k) {
    const int64_t target = total / segments * k;
    const auto bound = [&](int64_t saved) {
      return static_cast<size_t>(
          std::lower_bound(saved_before_.begin(), saved_before_.end(), saved) -
          saved_before_.begin());
    };
    const size_t from = std::max(bound(target - slack), cuts.back() + 1);
    const size_t to = std::min(bound(target + slack) + 1, n);
    size_t best = n;
    for (size_t at = from; at < to; ++at) {
      if (forbidden_[at]) continue;
      if (best == n || crossing_[at] < crossing_[best]) best = at;
    }
    if (best < n) cuts.push_back(best);
  }
  cuts.push_back(n);
  return cuts;
}

bool ForwardPass::CanRepeat(NodeId id, ir::RecomputeCost most) const {
  const ir::Node& node = graph_->node(id);
  return !node.is_call && node.blocks.empty() && !node.info->random &&
         !node.info->side_effect && ir::IsKnown(*node.info) &&
         node.info->recompute != ir::RecomputeCost::kUnknown &&
         node.info->recompute <= most && node.op_type != "Constant" &&
         CanBeWritten(node);
}

}  // namespace onnx_memopt::grad
