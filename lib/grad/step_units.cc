#include "grad/step_units.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/time_model.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {

using ir::Index;
using ir::kNoValue;
using ir::NodeId;
using ir::ValueId;

namespace {

constexpr double kCostPerSecond = 1e9;
// Values and workspaces of less than this part of all bytes that are made count
// as nothing: biases, statistics, scalars. The planner is to look at the
// others.
constexpr int64_t kSmallPart = 50'000;

size_t At(int32_t index) { return static_cast<size_t>(index); }

// Runs a second time with the same results, and can be written twice.
bool CanRepeat(const ir::Node& node) {
  return !node.is_call && node.blocks.empty() && !node.info->random &&
         !node.info->side_effect && ir::IsKnown(*node.info) &&
         node.info->recompute != ir::RecomputeCost::kUnknown &&
         std::none_of(
             node.attributes.begin(), node.attributes.end(),
             [](const ir::Attribute& a) {
               return std::holds_alternative<ir::WeightId>(a.value) ||
                      std::holds_alternative<ir::OpaqueAttribute>(a.value);
             });
}

}  // namespace

class StepUnitsBuilder {
 public:
  StepUnitsBuilder(const ir::Graph& graph, ir::BlockId block,
                   const StepInfo& step)
      : graph_(graph),
        step_(step),
        teacher_(step.teacher.begin(), step.teacher.end()),
        analyses_(&graph) {
    out_.block_ = block;
  }

  absl::StatusOr<StepUnits> Run() {
    ASSIGN_OR_RETURN(sizes_, analyses_.Get<analysis::Sizes>());
    ASSIGN_OR_RETURN(time_, analyses_.Get<analysis::TimeModel>());
    RETURN_IF_ERROR(FindWorkspace());
    CountUses();
    out_.unit_of_.assign(graph_.num_nodes(), -1);
    out_.is_view_.assign(graph_.num_nodes(), false);
    for (NodeId id : block().nodes) RETURN_IF_ERROR(AddNode(id));
    for (StepUnit& unit : out_.units_) out_.total_seconds_ += unit.seconds;
    BuildProblem();
    return std::move(out_);
  }

 private:
  const ir::Block& block() const { return graph_.block(out_.block_); }

  // Bytes that a kernel takes while it runs, by node.
  absl::Status FindWorkspace() {
    ASSIGN_OR_RETURN(const analysis::RuntimeBlock run,
                     BuildRuntimeBlock(graph_, analyses_, out_.block_,
                                       rewrite::RewriteOptions()));
    for (const analysis::RuntimeStep& step : run.steps) {
      workspace_[step.node] = step.scratch_total_bytes + step.malloc_bytes;
    }
    return absl::OkStatus();
  }

  void CountUses() {
    uses_.assign(graph_.num_values(), 0);
    std::vector<ValueId> uses;
    for (NodeId id : block().nodes) {
      uses.clear();
      CollectUses(graph_, id, &uses);
      for (ValueId use : uses) ++uses_[Index(use)];
    }
    for (ValueId result : block().results) {
      ++uses_[Index(result)];
      returned_.insert(result);
    }
  }

  bool IsConstant(ValueId value) const {
    return constant_.contains(value) ||
           (graph_.value(value).kind == ir::ValueKind::kInitializer &&
            !graph_.value(value).overridable);
  }

  absl::Status AddNode(NodeId id) {
    const ir::Node& node = graph_.node(id);
    std::vector<ValueId> uses;
    CollectUses(graph_, id, &uses);
    const bool returns =
        std::any_of(node.results.begin(), node.results.end(),
                    [&](ValueId v) { return returned_.contains(v); });
    if (!returns && node.blocks.empty() && !node.is_call &&
        !node.info->random &&
        std::all_of(uses.begin(), uses.end(),
                    [&](ValueId v) { return IsConstant(v); })) {
      for (ValueId result : node.results) {
        if (result != kNoValue) constant_.insert(result);
      }
      out_.constants_.push_back(id);
      return absl::OkStatus();
    }
    if (!returns && node.info->view_of >= 0 && node.blocks.empty() &&
        CanRepeat(node)) {
      out_.is_view_[Index(id)] = true;
      return absl::OkStatus();
    }
    return AddToUnit(id, uses, returns);
  }

  absl::Status AddToUnit(NodeId id, const std::vector<ValueId>& uses,
                         bool returns) {
    const ir::Node& node = graph_.node(id);
    std::vector<int32_t> inputs;
    for (ValueId use : uses) FindUnits(use, &inputs);
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    int32_t unit = Overwritten(node, inputs);
    if (unit < 0) {
      unit = static_cast<int32_t>(out_.units_.size());
      out_.units_.emplace_back();
      out_.units_.back().inputs = std::move(inputs);
      out_.units_.back().is_forward =
          Index(id) < step_.forward_nodes && !teacher_.contains(id);
      returned_bytes_.push_back(0);
    } else {
      // The buffer is that of the node before.
      StepUnit& before = out_.units_[At(unit)];
      const int64_t bytes = *sizes_->bytes(node.operands[0]);
      before.bytes -= bytes;
      before.overwritten_bytes = std::max(before.overwritten_bytes, bytes);
    }
    StepUnit& made = out_.units_[At(unit)];
    made.nodes.push_back(id);
    made.can_repeat = made.can_repeat && CanRepeat(node);
    made.returns = made.returns || returns;
    made.seconds += time_->node_seconds(id);
    for (ValueId result : node.results) {
      if (result == kNoValue) continue;
      const std::optional<int64_t> bytes = sizes_->bytes(result);
      if (!bytes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "node \"", Printable(graph_.DisplayName(id)), "\": the size of \"",
            Printable(graph_.value(result).name),
            "\" is unknown, and checkpoints need it; give sizes with --dim"));
      }
      made.bytes += *bytes;
      if (returned_.contains(result)) returned_bytes_[At(unit)] += *bytes;
    }
    const auto workspace = workspace_.find(id);
    if (workspace != workspace_.end()) {
      made.workspace_bytes = std::max(made.workspace_bytes, workspace->second);
    }
    out_.unit_of_[Index(id)] = unit;
    return absl::OkStatus();
  }

  // The units that have to run for a value.
  void FindUnits(ValueId value, std::vector<int32_t>* units) const {
    std::vector<ValueId> pending = {value};
    while (!pending.empty()) {
      const ir::Value& next = graph_.value(pending.back());
      pending.pop_back();
      if (next.kind != ir::ValueKind::kResult) continue;
      const NodeId producer = next.producer;
      if (out_.is_view_[Index(producer)]) {
        for (ValueId operand : graph_.node(producer).operands) {
          if (operand != kNoValue) pending.push_back(operand);
        }
      } else if (out_.unit_of_[Index(producer)] >= 0) {
        units->push_back(out_.unit_of_[Index(producer)]);
      }
    }
  }

  // The unit whose buffer the node's result takes, which then runs as part of
  // it; -1: none.
  int32_t Overwritten(const ir::Node& node,
                      const std::vector<int32_t>& inputs) const {
    if (inputs.size() != 1 || (node.info->in_place & 1) == 0 ||
        node.operands.empty() || node.results.size() != 1) {
      return -1;
    }
    const ValueId operand = node.operands[0];
    const ir::Value& value = graph_.value(operand);
    if (value.kind != ir::ValueKind::kResult || uses_[Index(operand)] != 1) {
      return -1;
    }
    const int32_t unit = out_.unit_of_[Index(value.producer)];
    if (unit < 0 || out_.units_[At(unit)].nodes.back() != value.producer ||
        graph_.node(value.producer).results.size() != 1 ||
        graph_.node(value.producer).results[0] != operand ||
        !sizes_->bytes(operand) || !sizes_->bytes(node.results[0]) ||
        *sizes_->bytes(operand) != *sizes_->bytes(node.results[0])) {
      return -1;
    }
    return PaysAsOne(out_.units_[At(unit)]) ? unit : -1;
  }

  // Whether the buffer that is overwritten would be missed: while what stands
  // before it ran, its inputs were there, which are gone now if the two are
  // units of their own. The runtime fuses a convolution with what follows.
  bool PaysAsOne(const StepUnit& before) const {
    if (graph_.node(before.nodes.front()).op_type == "Conv") return true;
    int64_t bytes = before.workspace_bytes;
    for (const int32_t input : before.inputs) {
      bytes += out_.units_[At(input)].bytes;
    }
    return bytes < before.bytes;
  }

  int32_t AddToProblem(int64_t memory, int64_t cost,
                       std::vector<int32_t> inputs, int32_t unit) {
    plan::RecomputeProblem& p = out_.problem_;
    p.memory.push_back(memory);
    p.cost.push_back(cost);
    std::sort(inputs.begin(), inputs.end());
    p.inputs.push_back(std::move(inputs));
    out_.unit_of_problem_.push_back(unit);
    return static_cast<int32_t>(p.memory.size()) - 1;
  }

  void BuildProblem() {
    const auto cost_of = [](const StepUnit& unit) {
      return std::llround(unit.seconds * kCostPerSecond) + 1;
    };
    int64_t total = 1;
    int64_t all_bytes = 0;
    for (const StepUnit& unit : out_.units_) {
      total += cost_of(unit);
      all_bytes += unit.bytes;
    }
    const auto counted = [&](int64_t bytes) {
      return bytes < all_bytes / kSmallPart ? 0 : bytes;
    };
    out_.before_.resize(out_.size());
    out_.behind_.resize(out_.size());
    std::vector<int32_t> returned;
    for (size_t u = 0; u < out_.size(); ++u) {
      StepUnit& unit = out_.units_[u];
      const auto id = static_cast<int32_t>(u);
      std::vector<int32_t> inputs;
      inputs.reserve(unit.inputs.size() + 1);
      for (int32_t input : unit.inputs) {
        inputs.push_back(out_.node_of_unit_[At(input)]);
      }
      if (counted(unit.workspace_bytes) > 0) {
        const int32_t helper = AddToProblem(unit.workspace_bytes, 0, {}, -1);
        out_.before_[u].push_back(helper);
        inputs.push_back(helper);
      }
      const bool apart = unit.returns && returned_bytes_[u] < unit.bytes;
      // What is held to the end is never made again.
      if (unit.returns && !apart) unit.can_repeat = false;
      // What cannot run again costs more than all the rest.
      const int64_t cost = cost_of(unit) + (unit.can_repeat ? 0 : total);
      const int32_t node = AddToProblem(
          counted(apart ? unit.bytes - returned_bytes_[u] : unit.bytes), cost,
          std::move(inputs), id);
      out_.node_of_unit_.push_back(node);
      if (apart) {
        const int32_t helper =
            AddToProblem(counted(returned_bytes_[u]), 0, {node}, -1);
        out_.behind_[u].push_back(helper);
        returned.push_back(helper);
      } else if (unit.returns) {
        returned.push_back(node);
      }
    }
    AddToProblem(0, 0, std::move(returned), -1);
  }

  const ir::Graph& graph_;
  const StepInfo& step_;
  const llvm::DenseSet<NodeId> teacher_;
  analysis::AnalysisManager analyses_;
  const analysis::Sizes* sizes_ = nullptr;
  const analysis::TimeModel* time_ = nullptr;
  llvm::DenseMap<NodeId, int64_t> workspace_;
  std::vector<int64_t> returned_bytes_;  // by unit: of results of the step
  std::vector<int32_t> uses_;            // by value
  llvm::DenseSet<ValueId> returned_;
  llvm::DenseSet<ValueId> constant_;
  StepUnits out_;
};

absl::StatusOr<StepUnits> StepUnits::Compute(const ir::Graph& graph,
                                             ir::BlockId block,
                                             const StepInfo& step) {
  return StepUnitsBuilder(graph, block, step).Run();
}

std::vector<int32_t> StepUnits::PlainRuns() const {
  std::vector<int32_t> runs(size());
  for (size_t i = 0; i < size(); ++i) runs[i] = static_cast<int32_t>(i);
  return runs;
}

std::vector<int32_t> StepUnits::RunsOf(
    absl::Span<const int32_t> sequence) const {
  std::vector<int32_t> runs;
  for (int32_t node : sequence) {
    const int32_t unit = unit_of_problem_[At(node)];
    if (unit >= 0) runs.push_back(unit);
  }
  return runs;
}

std::vector<int32_t> StepUnits::SequenceOf(
    absl::Span<const int32_t> runs) const {
  std::vector<int32_t> sequence;
  std::vector<bool> has_run(size());
  for (int32_t unit : runs) {
    const std::vector<int32_t>& before = before_[At(unit)];
    sequence.insert(sequence.end(), before.begin(), before.end());
    sequence.push_back(node_of_unit_[At(unit)]);
    if (has_run[At(unit)]) continue;
    has_run[At(unit)] = true;
    const std::vector<int32_t>& behind = behind_[At(unit)];
    sequence.insert(sequence.end(), behind.begin(), behind.end());
  }
  sequence.push_back(static_cast<int32_t>(problem_.memory.size()) - 1);
  return sequence;
}

double StepUnits::AddedSeconds(absl::Span<const int32_t> runs) const {
  std::vector<bool> has_run(size());
  double seconds = 0;
  for (int32_t unit : runs) {
    if (has_run[At(unit)]) seconds += units_[At(unit)].seconds;
    has_run[At(unit)] = true;
  }
  return seconds;
}

std::vector<bool> StepUnits::Saved() const {
  std::vector<bool> saved(size());
  for (const StepUnit& unit : units_) {
    if (unit.is_forward) continue;
    for (int32_t input : unit.inputs) {
      if (units_[At(input)].is_forward) saved[At(input)] = true;
    }
  }
  return saved;
}

bool StepUnits::CanRun(absl::Span<const int32_t> runs) const {
  std::vector<bool> has_run(size());
  for (int32_t unit : runs) {
    if (has_run[At(unit)] && !units_[At(unit)].can_repeat) return false;
    has_run[At(unit)] = true;
  }
  return true;
}

}  // namespace onnx_memopt::grad
