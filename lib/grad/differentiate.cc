#include "onnx_memopt/grad/differentiate.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grad/rule_context.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/grad/activity.h"
#include "onnx_memopt/grad/rules.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

using ir::NodeId;

class Differentiator {
 public:
  Differentiator(Emitter* emitter, const DifferentiateOptions& options)
      : e_(*emitter), graph_(emitter->graph()), options_(options) {}

  absl::Status Run() {
    std::vector<ValueId> outputs;
    outputs.reserve(options_.seeds.size());
    for (const Seed& seed : options_.seeds) outputs.push_back(seed.value);
    activity_ = Activity::Compute(graph_, options_.wanted, outputs);
    for (const Seed& seed : options_.seeds) {
      RETURN_IF_ERROR(Accumulate(seed.value, seed.gradient));
    }
    const std::vector<NodeId> nodes = graph_.block(ir::kMainBlock).nodes;
    const std::vector<std::vector<ValueId>> complete = CompleteAfter(nodes);
    for (size_t i = nodes.size(); i-- > 0;) {
      RETURN_IF_ERROR(Visit(nodes[i]));
      for (ValueId value : complete[i]) RETURN_IF_ERROR(Report(value));
    }
    // Wanted values that no node reads.
    for (ValueId value : unread_) RETURN_IF_ERROR(Report(value));
    return absl::OkStatus();
  }

 private:
  // For each node the wanted values of which it is the first reader: once it
  // has been visited, nothing is added to their gradients.
  std::vector<std::vector<ValueId>> CompleteAfter(
      const std::vector<NodeId>& nodes) {
    llvm::DenseMap<ValueId, bool> open;
    for (ValueId value : options_.wanted) open[value] = true;
    std::vector<std::vector<ValueId>> complete(nodes.size());
    std::vector<ValueId> uses;
    for (size_t i = 0; i < nodes.size(); ++i) {
      uses.clear();
      CollectUses(graph_, nodes[i], &uses);
      for (ValueId use : uses) {
        const auto it = open.find(use);
        if (it == open.end() || !it->second) continue;
        it->second = false;
        complete[i].push_back(use);
      }
    }
    for (ValueId value : options_.wanted) {
      if (std::exchange(open[value], false)) unread_.push_back(value);
    }
    return complete;
  }

  absl::Status Report(ValueId value) {
    const auto it = gradients_.find(value);
    return options_.ready(value,
                          it == gradients_.end() ? ir::kNoValue : it->second);
  }

  absl::Status Accumulate(ValueId value, ValueId gradient) {
    const auto [it, added] = gradients_.try_emplace(value, gradient);
    if (!added) {
      const ValueId sum = e_.Add(it->second, gradient);
      const ir::Type type = e_.type(value);
      graph_.mutable_value(sum).type = type;
      it->second = sum;
    }
    return absl::OkStatus();
  }

  absl::Status Visit(NodeId id) {
    const ir::Node& node = graph_.node(id);
    const bool any_wanted =
        std::any_of(node.operands.begin(), node.operands.end(),
                    [&](ValueId v) { return activity_.active(v); });
    if (!any_wanted && node.blocks.empty()) return absl::OkStatus();
    const bool any_given = std::any_of(
        node.results.begin(), node.results.end(),
        [&](ValueId v) { return v != ir::kNoValue && gradients_.contains(v); });
    if (!any_given) return absl::OkStatus();

    e_.set_prefix(absl::StrCat("grad/", graph_.DisplayName(id)));
    RuleContext c(&e_, id);
    if (node.is_call) {
      return c.Error(
          "it calls a function whose nodes cannot take its place: it has "
          "operators of other versions than the model, or of a kind that "
          "cannot be written anew");
    }
    if (!node.blocks.empty()) {
      return c.Error(
          "it is written out for its gradient only where its condition or its "
          "number of trips is known before the run, and at most 1024 trips and "
          "20000 nodes");
    }
    const RuleRow* row = FindRule(node.domain, node.op_type);
    if (row == nullptr) {
      return c.Error(
          "there is no gradient rule for this op; docs/gradients.md lists the "
          "ops that have one");
    }
    for (size_t i = 0; i < c.node().results.size(); ++i) {
      const auto it =
          c.has_result(i) ? gradients_.find(c.y_id(i)) : gradients_.end();
      if (it != gradients_.end()) c.SetResultGradient(i, it->second);
    }
    for (size_t i = 0; i < c.num_operands(); ++i) {
      if (c.has(i) && activity_.active(c.x_id(i))) c.Want(i);
    }
    RETURN_IF_ERROR(row->rule(c));
    RETURN_IF_ERROR(CheckReads(c));
    for (size_t i = 0; i < c.num_operands(); ++i) {
      if (!c.wants(i) || c.gradients()[i] == ir::kNoValue) continue;
      RETURN_IF_ERROR(Accumulate(c.x_id(i), c.gradients()[i]));
    }
    return absl::OkStatus();
  }

  // The op table says what is saved for backward; a rule keeps to it.
  static absl::Status CheckReads(const RuleContext& c) {
    const ir::SavedForBackward& saved = c.node().info->saved;
    if (!saved.known) return absl::OkStatus();
    const uint32_t all_later = uint32_t{1} << 31U;
    const auto within = [&](uint32_t read, uint32_t listed) {
      return (read & ~listed) == 0 || (listed & all_later) != 0;
    };
    if (within(c.operands_read(), saved.operands) &&
        within(c.results_read(), saved.results)) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat(
        "the gradient rule of ", Printable(c.node().op_type),
        " reads what the op table does not list as saved for backward"));
  }

  Emitter& e_;
  ir::Graph& graph_;
  const DifferentiateOptions& options_;
  Activity activity_;
  llvm::DenseMap<ValueId, ValueId> gradients_;
  std::vector<ValueId> unread_;
};

}  // namespace

absl::Status Differentiate(Emitter& emitter,
                           const DifferentiateOptions& options) {
  return Differentiator(&emitter, options).Run();
}

}  // namespace onnx_memopt::grad
