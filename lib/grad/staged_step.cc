#include "grad/staged_step.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/rewrite/always_branch.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/emitter.h"
#include "onnx_memopt/rewrite/order_search.h"
#include "onnx_memopt/rewrite/outline.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

using ir::BlockId;
using ir::Index;
using ir::kNoValue;
using ir::NodeId;
using ir::ValueId;

// Work on the order of one stage.
constexpr int64_t kMaxOrders = 64;
constexpr int64_t kMaxSteps = 30'000;

size_t At(int32_t index) { return static_cast<size_t>(index); }

// A value as one run made it.
using Version = std::pair<int32_t, ValueId>;

class Writer {
 public:
  Writer(const StepUnits& units, absl::Span<const int32_t> runs,
         const Stages& stages, ir::Graph* graph)
      : units_(units),
        runs_(runs),
        stages_(stages),
        graph_(*graph),
        builder_(graph) {}

  absl::StatusOr<StagedStep> Write() {
    out_.nodes.resize(runs_.size());
    const ir::Block& block = graph_.block(units_.block());
    returned_.insert(block.results.begin(), block.results.end());
    const std::vector<NodeId> before = block.nodes;
    TakeSnapshot();
    FindCrossing();
    for (const Version& version : crossing_) {
      const ir::Value& value = graph_.value(version.second);
      if (!rewrite::CanBranchReturn(value.type)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "checkpoints: \"", Printable(value.name), "\" is ",
            ToString(value.type), ", which a branch cannot return"));
      }
    }
    const std::vector<ValueId> results = block.results;
    rewrite::AlwaysBranch around(builder_, units_.block(), "checkpoint");
    step_ = around.Add(results, "step");
    rewrite::AlwaysBranch branch(builder_, step_, "stages");
    branch_ = &branch;
    // Fed a sequence, so that the stages' results are in no memory pattern.
    const ValueId fed = builder_.Op(
        step_, "SequenceLength", {around.sequence()},
        ir::Type::Tensor(ir::ElementType::kInt64, ir::Shape()), "stages/fed");
    std::vector<NodeId> schedule = {graph_.value(fed).producer};
    schedule.insert(schedule.end(), branch.condition_nodes().begin(),
                    branch.condition_nodes().end());
    latest_.assign(units_.size(), -1);
    size_t begin = 0;
    for (int32_t stage = 0; stage < stages_.count; ++stage) {
      size_t end = begin;
      while (end < runs_.size() && stages_.stage[end] == stage) ++end;
      WriteStage(stage, begin, end);
      schedule.push_back(graph_.block(out_.bodies.back()).owner);
      begin = end;
    }
    // When all is read, so that a weight that several stages read stays.
    for (int32_t stage = 0; stage < stages_.count; ++stage) {
      ir::Block& body = graph_.mutable_block(out_.bodies[At(stage)]);
      const std::vector<NodeId> order = std::move(body.nodes);
      body.nodes.clear();
      rewrite::MoveIntoSubgraph(graph_, originals_[At(stage)],
                                out_.bodies[At(stage)]);
      body.nodes = order;
    }
    DropUnreadResults();
    std::vector<NodeId> views;
    for (NodeId id : before) {
      if (units_.IsView(id)) views.push_back(id);
    }
    graph_.EraseNodes(units_.block(), views);
    ir::Block& step = graph_.mutable_block(step_);
    step.nodes = std::move(schedule);
    for (ValueId result : results) {
      step.results.push_back(returned_as_.at(result));
    }
    std::vector<NodeId>& outside = graph_.mutable_block(units_.block()).nodes;
    outside = units_.constants();
    outside.insert(outside.end(), around.condition_nodes().begin(),
                   around.condition_nodes().end());
    outside.push_back(step.owner);
    return std::move(out_);
  }

 private:
  // The step as it was: its nodes change while stages are written.
  void TakeSnapshot() {
    producer_.reserve(graph_.num_values());
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      const ir::Value& value = graph_.value(ValueId{static_cast<uint32_t>(i)});
      producer_.push_back(value.kind == ir::ValueKind::kResult ? value.producer
                                                               : ir::kNoNode);
    }
    for (NodeId id : graph_.block(units_.block()).nodes) {
      source_[id] = graph_.node(id);
    }
  }

  NodeId ProducerOf(ValueId value) const { return producer_[Index(value)]; }

  // The run whose bytes a value has, where the units' latest runs are as they
  // are now; -1 for what is there before the step.
  int32_t RunOf(ValueId value) const {
    const NodeId producer = ProducerOf(value);
    if (producer == ir::kNoNode) return -1;
    const int32_t unit = units_.UnitOf(producer);
    return unit < 0 ? -1 : latest_[At(unit)];
  }

  // The results of units that a value is made of, through views.
  template <typename Visit>
  void ForRoots(ValueId value, const Visit& visit) const {
    std::vector<ValueId> pending = {value};
    while (!pending.empty()) {
      const ValueId next = pending.back();
      pending.pop_back();
      const NodeId producer = ProducerOf(next);
      if (producer == ir::kNoNode) continue;
      if (units_.IsView(producer)) {
        for (ValueId operand : source_.at(producer).operands) {
          if (operand != kNoValue) pending.push_back(operand);
        }
      } else if (RunOf(next) >= 0) {
        visit(next);
      }
    }
  }

  // Which values of which runs other stages read, or the caller.
  void FindCrossing() {
    latest_.assign(units_.size(), -1);
    std::vector<ValueId> uses;
    for (size_t r = 0; r < runs_.size(); ++r) {
      const StepUnit& unit = units_.unit(runs_[r]);
      const bool first = latest_[At(runs_[r])] < 0;
      for (NodeId id : unit.nodes) {
        uses.clear();
        CollectUses(graph_, id, &uses);
        for (ValueId use : uses) {
          ForRoots(use, [&](ValueId root) {
            const int32_t run = RunOf(root);
            if (stages_.stage[At(run)] != stages_.stage[r]) {
              crossing_.insert({run, root});
            }
          });
        }
        // The unit's nodes read one another.
        latest_[At(runs_[r])] = static_cast<int32_t>(r);
        if (!first) continue;
        for (ValueId result : graph_.node(id).results) {
          if (result != kNoValue && returned_.contains(result)) {
            crossing_.insert({static_cast<int32_t>(r), result});
          }
        }
      }
    }
  }

  void WriteStage(int32_t stage, size_t begin, size_t end) {
    const std::string name = absl::StrCat("stage", stage);
    // What the stage hands on, under the names that others know.
    std::vector<ValueId> results;
    std::vector<Version> handed;
    for (auto it = crossing_.lower_bound({static_cast<int32_t>(begin), {}});
         it != crossing_.end() && it->first < static_cast<int32_t>(end); ++it) {
      const ValueId value = it->second;
      const bool first = latest_[At(runs_[At(it->first)])] < 0;
      ir::Type type = graph_.value(value).type;
      const ValueId outer = builder_.Value(
          step_, std::move(type),
          absl::StrCat(first ? "keep/" : "again/", graph_.value(value).name));
      if (first && returned_.contains(value)) returned_as_[value] = outer;
      outer_[*it] = outer;
      results.push_back(outer);
      handed.push_back(*it);
    }
    const bool last = stage + 1 == stages_.count;
    const ir::Type scalar =
        ir::Type::Tensor(ir::ElementType::kInt64, ir::Shape());
    const ValueId token_before = token_;
    if (!last) {
      token_ = builder_.Value(step_, scalar, absl::StrCat(name, "/token"));
      results.push_back(token_);
    }
    const BlockId body = branch_->Add(results, name);
    out_.bodies.push_back(body);
    originals_.emplace_back();
    rewrite::Emitter emitter(&builder_, body);
    emitter.set_prefix(name);
    emitter_ = &emitter;
    stage_ = stage;
    inside_.clear();
    // Reads the sequence, so that the body has no memory pattern, and the token
    // of the stage before.
    ValueId token = emitter.Op("SequenceLength", {branch_->sequence()});
    graph_.mutable_value(token).type = scalar;
    if (token_before != kNoValue) token = emitter.Add(token_before, token);
    for (size_t r = begin; r < end; ++r) WriteRun(r);
    ir::Block& block = graph_.mutable_block(body);
    block.nodes = emitter.nodes();
    for (const Version& version : handed) {
      block.results.push_back(made_.at(version));
    }
    if (!last) block.results.push_back(token);
  }

  void WriteRun(size_t run) {
    const int32_t unit = runs_[run];
    const bool first = latest_[At(unit)] < 0;
    for (NodeId id : units_.unit(unit).nodes) {
      out_.nodes[run].push_back(first ? WriteOriginal(id, run)
                                      : WriteCopy(id, run));
      // The unit's nodes read one another.
      latest_[At(unit)] = static_cast<int32_t>(run);
    }
  }

  // The positions of a pooling that runs once more, or whose gradient reads
  // those of another run: what nobody reads would live to the stage's end.
  void DropUnreadResults() {
    std::vector<bool> is_read(graph_.num_values());
    std::vector<ValueId> uses;
    for (BlockId body : out_.bodies) {
      for (NodeId id : graph_.block(body).nodes) {
        uses.clear();
        CollectUses(graph_, id, &uses);
        for (ValueId use : uses) is_read[Index(use)] = true;
      }
      for (ValueId result : graph_.block(body).results) {
        is_read[Index(result)] = true;
      }
    }
    for (const std::vector<NodeId>& nodes : out_.nodes) {
      for (NodeId id : nodes) {
        ir::Node& node = graph_.mutable_node(id);
        // In training mode all of its results have to be there.
        if (node.op_type == "BatchNormalization") continue;
        for (size_t i = 1; i < node.results.size(); ++i) {
          if (node.results[i] != kNoValue && !is_read[Index(node.results[i])] &&
              ir::Lists(node.info->optional_results, i)) {
            node.results[i] = kNoValue;
          }
        }
        while (node.results.back() == kNoValue) node.results.pop_back();
      }
    }
  }

  NodeId WriteOriginal(NodeId id, size_t run) {
    ReadInside(id);
    for (size_t i = 0; i < graph_.node(id).operands.size(); ++i) {
      const ValueId operand = Read(graph_.node(id).operands[i]);
      graph_.mutable_node(id).operands[i] = operand;
    }
    for (size_t i = 0; i < graph_.node(id).results.size(); ++i) {
      const ValueId result = graph_.node(id).results[i];
      if (result == kNoValue) continue;
      const Version version = {static_cast<int32_t>(run), result};
      made_[version] = result;
      if (!returned_.contains(result)) continue;
      // The step's result has the name; inside there is another.
      ir::Type type = graph_.value(result).type;
      const ValueId inner = builder_.Value(
          units_.block(), std::move(type),
          absl::StrCat("stage", stage_, "/", graph_.value(result).name));
      graph_.mutable_value(inner).producer = id;
      graph_.mutable_value(inner).contents = graph_.value(result).contents;
      graph_.mutable_node(id).results[i] = inner;
      made_[version] = inner;
    }
    originals_.back().push_back(id);
    emitter_->mutable_nodes().push_back(id);
    return id;
  }

  // Operands of nodes in subgraphs, at any depth.
  void ReadInside(NodeId owner) {
    for (BlockId block : BlocksWithin(graph_, owner)) {
      const std::vector<NodeId> nodes = graph_.block(block).nodes;
      for (NodeId id : nodes) {
        for (size_t i = 0; i < graph_.node(id).operands.size(); ++i) {
          const ValueId operand = ReadIfOuter(graph_.node(id).operands[i]);
          graph_.mutable_node(id).operands[i] = operand;
        }
      }
      for (size_t i = 0; i < graph_.block(block).results.size(); ++i) {
        const ValueId result = ReadIfOuter(graph_.block(block).results[i]);
        graph_.mutable_block(block).results[i] = result;
      }
    }
  }

  ValueId ReadIfOuter(ValueId value) {
    if (value == kNoValue || graph_.value(value).block != units_.block()) {
      return value;
    }
    return Read(value);
  }

  NodeId WriteCopy(NodeId id, size_t run) {
    const ir::Node& node = source_.at(id);
    std::vector<ValueId> operands;
    operands.reserve(node.operands.size());
    for (ValueId operand : node.operands) operands.push_back(Read(operand));
    // ONNX Runtime updates the running statistics in place, and a second time
    // would be wrong; in training the result does not depend on them.
    if (node.op_type == "BatchNormalization" && operands.size() == 5 &&
        ir::IntAttribute(node, "training_mode", 0) != 0) {
      const ValueId zero = emitter_->Sub(operands[1], operands[1]);
      operands[3] = operands[4] = zero;
    }
    const NodeId copy = Copy(node, operands, "again/");
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (node.results[i] == kNoValue) continue;
      made_[{static_cast<int32_t>(run), node.results[i]}] =
          graph_.node(copy).results[i];
    }
    return copy;
  }

  // Into the body that is being written.
  NodeId Copy(const ir::Node& node, const std::vector<ValueId>& operands,
              absl::string_view prefix) {
    std::vector<ValueId> results;
    for (ValueId result : node.results) {
      if (result == kNoValue) {
        results.push_back(kNoValue);
        continue;
      }
      ir::Type type = graph_.value(result).type;
      results.push_back(
          builder_.Value(emitter_->block(), std::move(type),
                         absl::StrCat(prefix, graph_.value(result).name)));
      graph_.mutable_value(results.back()).contents =
          graph_.value(result).contents;
    }
    ir::Node copy;
    copy.name = builder_.UniqueName(
        absl::StrCat(prefix, node.name.empty() ? node.op_type : node.name));
    copy.op_type = node.op_type;
    copy.domain = node.domain;
    copy.opset = node.opset;
    copy.operands.assign(operands.begin(), operands.end());
    copy.results.assign(results.begin(), results.end());
    copy.attributes = node.attributes;
    copy.block = emitter_->block();
    const NodeId made = graph_.AddNode(std::move(copy));
    for (ValueId result : results) {
      if (result != kNoValue) graph_.mutable_value(result).producer = made;
    }
    emitter_->mutable_nodes().push_back(made);
    return made;
  }

  // What a node of this stage reads for `value`.
  ValueId Read(ValueId value) {
    if (value == kNoValue) return value;
    const NodeId producer = ProducerOf(value);
    if (producer == ir::kNoNode) return value;
    if (units_.IsView(producer)) return ReadView(value);
    const int32_t run = RunOf(value);
    if (run < 0) return value;  // a constant
    const Version version = {run, value};
    if (stages_.stage[At(run)] == stage_) return made_.at(version);
    const auto [it, is_new] = inside_.try_emplace(version, kNoValue);
    if (is_new) it->second = WithShape(outer_.at(version));
    return it->second;
  }

  // A view of its own in each stage, and of each version of what it shows.
  ValueId ReadView(ValueId value) {
    int32_t newest = -1;
    ForRoots(value,
             [&](ValueId root) { newest = std::max(newest, RunOf(root)); });
    const auto it = inside_.find({newest, value});
    if (it != inside_.end()) return it->second;
    const ir::Node& node = source_.at(ProducerOf(value));
    std::vector<ValueId> operands;
    operands.reserve(node.operands.size());
    for (ValueId operand : node.operands) operands.push_back(Read(operand));
    const NodeId view = Copy(node, operands, absl::StrCat("view", stage_, "/"));
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (node.results[i] == kNoValue) continue;
      inside_[{newest, node.results[i]}] = graph_.node(view).results[i];
    }
    return inside_.at({newest, value});
  }

  ValueId WithShape(ValueId outer) {
    const ir::Type& type = graph_.value(outer).type;
    if (type.shape->empty()) return outer;
    std::vector<int64_t> dims;
    for (const std::optional<ir::Dim>& dim : *type.shape) {
      if (!dim || !dim->is_constant() || dim->constant() == 0) return outer;
      dims.push_back(dim->constant());
    }
    return emitter_->Reshape(outer, dims);
  }

  const StepUnits& units_;
  absl::Span<const int32_t> runs_;
  const Stages& stages_;
  ir::Graph& graph_;
  rewrite::Builder builder_;
  BlockId step_ = ir::kNoBlock;  // in which the stages are
  rewrite::AlwaysBranch* branch_ = nullptr;
  rewrite::Emitter* emitter_ = nullptr;  // of the stage that is written
  int32_t stage_ = -1;
  ValueId token_ = kNoValue;
  std::vector<NodeId> producer_;  // by value, before; kNoNode: no result
  std::map<NodeId, ir::Node> source_;
  llvm::DenseSet<ValueId> returned_;
  std::vector<int32_t> latest_;             // by unit: its latest run so far
  std::map<ValueId, ValueId> returned_as_;  // results of the step, in step_
  std::map<Version, ValueId> outer_;        // what a stage hands on, outside
  std::map<Version, ValueId> made_;  // and every result, where it is made
  // In this stage: what comes from outside, and views.
  std::map<Version, ValueId> inside_;
  std::set<Version> crossing_;
  std::vector<std::vector<NodeId>> originals_;  // by stage
  StagedStep out_;
};

// Orders to begin with: the plan's, and one for a walk from the last leaf, in
// which the leaves stand in reverse.
std::vector<std::vector<int32_t>> Candidates(
    const std::vector<std::vector<int32_t>>& after) {
  std::vector<bool> is_read(after.size());
  for (const std::vector<int32_t>& before : after) {
    for (int32_t node : before) is_read[At(node)] = true;
  }
  std::vector<int32_t> plan;
  std::vector<int32_t> reversed;
  for (size_t i = 0; i < after.size(); ++i) {
    plan.push_back(static_cast<int32_t>(i));
    if (is_read[i]) reversed.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = after.size(); i-- > 0;) {
    if (!is_read[i]) reversed.push_back(static_cast<int32_t>(i));
  }
  return {std::move(plan), std::move(reversed)};
}

absl::Status OrderBody(BlockId body, analysis::AnalysisManager& analyses,
                       ir::Graph& graph) {
  const analysis::RuntimeOptions options = rewrite::RewriteOptions();
  ASSIGN_OR_RETURN(const analysis::RuntimeBlock block,
                   BuildRuntimeBlock(graph, analyses, body, options));
  const std::vector<NodeId> nodes = graph.block(body).nodes;
  llvm::DenseMap<ValueId, int32_t> made_by;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (ValueId result : graph.node(nodes[i]).results) {
      made_by[result] = static_cast<int32_t>(i);
    }
  }
  std::vector<std::vector<int32_t>> after(nodes.size());
  std::vector<ValueId> uses;
  for (size_t i = 0; i < nodes.size(); ++i) {
    uses.clear();
    CollectUses(graph, nodes[i], &uses);
    for (ValueId use : uses) {
      const auto it = made_by.find(use);
      if (it != made_by.end()) after[i].push_back(it->second);
    }
    std::sort(after[i].begin(), after[i].end());
    after[i].erase(std::unique(after[i].begin(), after[i].end()),
                   after[i].end());
  }
  const std::vector<std::vector<int32_t>> candidates = Candidates(after);
  const rewrite::FileOrders orders(graph, block, nodes, std::move(after));
  const rewrite::FileOrderFound found = rewrite::FindFileOrder(
      orders, candidates, options,
      {.max_orders = kMaxOrders, .max_steps = kMaxSteps});
  std::vector<NodeId> order;
  order.reserve(nodes.size());
  for (int32_t i : found.order) order.push_back(nodes[At(i)]);
  graph.mutable_block(body).nodes = std::move(order);
  return absl::OkStatus();
}

}  // namespace

absl::Status OrderStagesForDepthFirst(const StagedStep& step,
                                      ir::Graph* graph) {
  analysis::AnalysisManager analyses(graph);
  for (BlockId body : step.bodies) {
    RETURN_IF_ERROR(OrderBody(body, analyses, *graph));
  }
  return absl::OkStatus();
}

absl::StatusOr<StagedStep> WriteStages(const StepUnits& units,
                                       absl::Span<const int32_t> runs,
                                       const Stages& stages, ir::Graph* graph) {
  return Writer(units, runs, stages, graph).Write();
}

}  // namespace onnx_memopt::grad
