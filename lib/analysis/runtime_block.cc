// From a block of the graph to what the runtime model works on: values with
// sizes as numbers, steps in the order of the file.
#include "analysis/runtime_block.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/runtime_fusion.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/ir/type.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {
namespace {

using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

bool IsOp(const Node& node, absl::string_view name) {
  return node.domain.empty() && node.op_type == name;
}

class Builder {
 public:
  Builder(const RuntimeContext& context, ir::BlockId block)
      : context_(context), graph_(context.graph) {
    out_.block = block;
  }

  absl::StatusOr<RuntimeBlock> Build() {
    ASSIGN_OR_RETURN(const Timeline* timeline,
                     context_.analyses.Get<Timeline>());
    std::vector<NodeId> nodes = FileOrder(*timeline);
    if (context_.options.fusion) Fuse(&nodes);
    AddSteps(nodes);
    for (ValueId result : graph_.block(out_.block).results) {
      const int32_t value = ValueOf(result);
      out_.outputs.push_back(value);
      out_.values[static_cast<size_t>(value)].is_output = true;
    }
    for (size_t i = 0; i < out_.steps.size(); ++i) {
      if (graph_.node(out_.steps[i].node).blocks.empty()) continue;
      RETURN_IF_ERROR(AddBodies(context_, &out_, i));
    }
    out_.keeps_pattern = IsFedTensors();
    return std::move(out_);
  }

 private:
  void AddSteps(const std::vector<NodeId>& nodes) {
    out_.steps.reserve(nodes.size());
    out_.values.reserve(nodes.size() * 2);
    index_.reserve(static_cast<unsigned>(nodes.size() * 2));
    for (NodeId id : nodes) AddStep(id);
    for (RuntimeStep& step : out_.steps) Connect(&step);
  }

  // Nodes of the graph that the runtime makes of this one. It goes through the
  // nodes as it would run them, and what works on images in blocks of channels
  // is made anew then, so that it has the highest indices.
  void Fuse(std::vector<NodeId>* nodes) {
    ConvolutionFusion fusion(context_, *nodes,
                             graph_.block(out_.block).results);
    if (fusion.empty()) return;
    Builder apart(context_, out_.block);
    apart.AddSteps(*nodes);
    std::vector<NodeId> blocked;
    for (int32_t i : RunOrder(apart.out_, ExecutionOrder::kDefault)) {
      const NodeId id = (*nodes)[static_cast<size_t>(i)];
      const auto& results = graph_.node(id).results;
      if (!results.empty() && results[0] != kNoValue &&
          IsInBlocks(context_, results[0])) {
        blocked.push_back(id);
      }
    }
    const llvm::DenseSet<NodeId> is_blocked(blocked.begin(), blocked.end());
    std::erase_if(*nodes, [&](NodeId id) { return is_blocked.contains(id); });
    nodes->insert(nodes->end(), blocked.begin(), blocked.end());
    std::erase_if(*nodes, [&](NodeId id) { return fusion.IsTaken(id); });
    fusion_.emplace(std::move(fusion));
  }

  const ConvolutionFusion::Step* FusedWith(NodeId id) const {
    return fusion_ ? fusion_->With(id) : nullptr;
  }

  // A graph that is fed anything else, what its nodes capture included, is run
  // without a memory pattern; so is a model with an input that has no shape.
  bool IsFedTensors() const {
    return std::all_of(out_.values.begin(), out_.values.end(),
                       [&](const RuntimeValue& v) {
                         if (v.producer >= 0 || v.id == kNoValue) return true;
                         const ir::Value& value = graph_.value(v.id);
                         if (value.type.kind == ir::TypeKind::kUnknown)
                           return true;
                         return value.type.is_tensor() &&
                                (value.kind != ir::ValueKind::kInput ||
                                 value.type.shape.has_value());
                       });
  }

  // As the runtime numbers nodes: Constants are none, and the bodies of called
  // functions come after all others, a level of calls at a time.
  std::vector<NodeId> FileOrder(const Timeline& timeline) const {
    std::vector<std::pair<int, NodeId>> steps;
    bool has_calls = false;
    for (NodeId id : timeline.steps(out_.block)) {
      const Node& node = graph_.node(id);
      if (IsOp(node, "Constant") || context_.IsFolded(node)) continue;
      int depth = 0;
      for (ir::BlockId b = graph_.node(id).block;
           graph_.block(b).kind == ir::BlockKind::kCallBody;
           b = graph_.node(graph_.block(b).owner).block) {
        ++depth;
      }
      has_calls |= depth > 0;
      steps.emplace_back(depth, id);
    }
    if (has_calls) {
      std::stable_sort(
          steps.begin(), steps.end(),
          [](const auto& a, const auto& b) { return a.first < b.first; });
    }
    std::vector<NodeId> nodes;
    nodes.reserve(steps.size());
    for (const auto& [depth, id] : steps) nodes.push_back(id);
    return nodes;
  }

  int32_t ValueOf(ValueId id) {
    const auto [it, is_new] =
        index_.try_emplace(id, static_cast<int32_t>(out_.values.size()));
    if (!is_new) return it->second;
    RuntimeValue value;
    value.id = id;
    std::optional<int64_t> bytes = context_.sizes.bytes(id);
    if (!bytes) bytes = BlockedBytes(id);
    if (bytes && *bytes >= 0) {
      value.size_bytes = *bytes;
    } else if (id != kNoValue) {
      out_.unknown.push_back(id);
    }
    if (!HasHiddenShape(id)) Classify(graph_.value(id).type, &value);
    out_.values.push_back(value);
    return it->second;
  }

  // Of a tensor whose channels ReorderInput fills up to whole blocks, of a size
  // that the machine decides: a convolution that reads it has as many in its
  // filters.
  std::optional<int64_t> BlockedBytes(ValueId id) {
    const ir::Value& value = graph_.value(id);
    if (value.producer == ir::kNoNode || !value.type.is_tensor() ||
        !value.type.shape || value.type.shape->size() != 4 ||
        graph_.node(value.producer).op_type != "ReorderInput") {
      return std::nullopt;
    }
    if (!found_filters_) FindFilters();
    const auto filter = filters_.find(id);
    if (filter == filters_.end()) return std::nullopt;
    ir::Type type = value.type;
    (*type.shape)[1] = ir::Dim(filter->second);
    const std::optional<ir::Dim> bytes = SizeBytes(type);
    return bytes ? bytes->Evaluate(context_.bindings) : std::nullopt;
  }

  void FindFilters() {
    found_filters_ = true;
    for (NodeId id : graph_.block(out_.block).nodes) {
      const Node& node = graph_.node(id);
      if (node.domain != "com.microsoft.nchwc" || node.op_type != "Conv") {
        continue;
      }
      const auto filter = context_.OperandShape(node, 1);
      if (!filter || filter->size() != 4) continue;
      const auto channels =
          CheckedMul((*filter)[1], IntAttribute(node, "group", 1));
      if (channels) filters_[node.operands[0]] = *channels;
    }
  }

  // True for what an If returns whose branches do not agree on a shape, unless
  // the file says which one it has: then the runtime does not know it.
  bool HasHiddenShape(ValueId id) const {
    const ir::Value& value = graph_.value(id);
    if (value.shape_is_stated || value.producer == ir::kNoNode ||
        !IsOp(graph_.node(value.producer), "If")) {
      return false;
    }
    // Of outputs every file says it.
    const std::vector<ValueId>& outputs = graph_.block(ir::kMainBlock).results;
    if (std::find(outputs.begin(), outputs.end(), id) != outputs.end()) {
      return false;
    }
    const Node& node = graph_.node(value.producer);
    const auto result = static_cast<size_t>(
        std::find(node.results.begin(), node.results.end(), id) -
        node.results.begin());
    for (ir::BlockId body : node.blocks) {
      const std::vector<ValueId>& results = graph_.block(body).results;
      if (result >= results.size()) return true;
      const ir::Type& type = graph_.value(results[result]).type;
      if (!type.shape || type.shape != value.type.shape) return true;
    }
    return false;
  }

  // The element's size and the dims; a symbolic dim counts as its name.
  void Classify(const ir::Type& type, RuntimeValue* value) {
    if (!type.is_tensor() || !type.shape) return;
    const std::optional<int> bits = BitWidth(type.element);
    if (!bits || type.element == ir::ElementType::kString) return;
    value->is_scalar = type.shape->empty();
    key_.assign(1, *bits);
    for (const std::optional<ir::Dim>& dim : *type.shape) {
      if (!dim) return;
      if (dim->is_constant()) {
        key_.push_back(dim->constant());
        continue;
      }
      const auto [it, is_new] = dims_.try_emplace(
          dim->ToString(), -1 - static_cast<int64_t>(dims_.size()));
      key_.push_back(it->second);
    }
    const auto [it, is_new] =
        classes_.try_emplace(key_, static_cast<int32_t>(classes_.size()));
    value->shape_class = it->second;
  }

  void AddStep(NodeId id) {
    const Node& node = graph_.node(id);
    const auto index = static_cast<int32_t>(out_.steps.size());
    RuntimeStep step;
    step.node = id;
    const ConvolutionFusion::Step* fused = FusedWith(id);
    const auto& results =
        fused == nullptr ? node.results : graph_.node(fused->last).results;
    for (ValueId result : results) {
      if (result == kNoValue) continue;
      const int32_t value = ValueOf(result);
      out_.values[static_cast<size_t>(value)].producer = index;
      step.outputs.push_back(value);
    }
    if (!results.empty() && results[0] != kNoValue) {
      step.first_output = step.outputs[0];
    }
    step.eager = IsOp(node, "Shape") || IsOp(node, "Size");
    out_.steps.push_back(std::move(step));
  }

  // All results are known by now.
  void Connect(RuntimeStep* step) {
    const Node& node = graph_.node(step->node);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (node.operands[i] == kNoValue ||
          (fusion_ && fusion_->IsGone(node.operands[i]))) {
        continue;
      }
      const int32_t value = ValueOf(node.operands[i]);
      step->inputs.push_back(value);
      if (static_cast<int>(i) == node.info->view_of) step->alias_of = value;
      if (i < 32 && (node.info->in_place >> i & 1) != 0) {
        step->in_place.push_back(value);
      }
      if (context_.options.mapped_weights != MappedWeights::kNone) {
        CountMapped(node, i, step);
      }
    }
    const ConvolutionFusion::Step* fused = FusedWith(step->node);
    if (fused != nullptr && fused->sum != kNoValue) {
      step->inputs.push_back(ValueOf(fused->sum));
      step->in_place.push_back(step->inputs.back());
    }
    if (!node.blocks.empty()) {
      std::vector<ValueId> uses;
      CollectUses(graph_, step->node, &uses);
      for (ValueId use : uses) {
        const bool is_operand =
            std::find(node.operands.begin(), node.operands.end(), use) !=
            node.operands.end();
        if (!is_operand) step->captured.push_back(ValueOf(use));
      }
      // An operand that a body reads too counts twice.
      const llvm::DenseSet<ValueId> read = ReadByBodies(node);
      for (ValueId operand : node.operands) {
        if (operand != kNoValue && read.contains(operand)) {
          step->captured.push_back(ValueOf(operand));
        }
      }
    }
    const ir::BlockId block = out_.block;
    step->passes_through = block != ir::kMainBlock && IsOp(node, "Identity") &&
                           IsOp(graph_.node(graph_.block(block).owner), "Loop");
    for (int32_t value : step->inputs) AddDependency(value, step);
    for (int32_t value : step->captured) AddDependency(value, step);
    std::sort(step->after.begin(), step->after.end());
    step->after.erase(std::unique(step->after.begin(), step->after.end()),
                      step->after.end());
    if (context_.options.target == RuntimeTarget::kOnnxRuntime) {
      AddScratch(context_, step);
    }
    for (int64_t bytes : step->scratch_bytes) {
      step->scratch_total_bytes =
          SaturatingAdd(step->scratch_total_bytes, bytes);
    }
  }

  llvm::DenseSet<ValueId> ReadByBodies(const Node& node) const {
    llvm::DenseSet<ValueId> read;
    std::vector<ValueId> uses;
    for (ir::BlockId body : node.blocks) {
      for (NodeId id : graph_.block(body).nodes) {
        uses.clear();
        CollectUses(graph_, id, &uses);
        read.insert(uses.begin(), uses.end());
      }
    }
    return read;
  }

  void AddDependency(int32_t value, RuntimeStep* step) const {
    const int32_t producer = out_.values[static_cast<size_t>(value)].producer;
    if (producer >= 0) step->after.push_back(producer);
  }

  void CountMapped(const Node& node, size_t operand, RuntimeStep* step) {
    if (graph_.value(node.operands[operand]).weight == ir::kNoWeight) return;
    const int64_t bytes = ReadsInPlace(context_, node, operand);
    if (bytes <= 0) return;
    if (!mapped_.try_emplace(node.operands[operand], 1).second) return;
    step->mapped_bytes = SaturatingAdd(step->mapped_bytes, bytes);
  }

  const RuntimeContext& context_;
  const ir::Graph& graph_;
  RuntimeBlock out_;
  std::optional<ConvolutionFusion> fusion_;  // if options.fusion
  llvm::DenseMap<ValueId, int32_t> index_;
  llvm::DenseMap<ValueId, int32_t> mapped_;  // weights that were counted
  bool found_filters_ = false;
  llvm::DenseMap<ValueId, int64_t> filters_;  // channels of what a Conv reads
  std::vector<int64_t> key_;
  absl::flat_hash_map<std::vector<int64_t>, int32_t> classes_;
  absl::flat_hash_map<std::string, int64_t> dims_;
};

}  // namespace

std::optional<ConcreteShape> RuntimeContext::ShapeOf(ValueId value) const {
  if (value == kNoValue) return std::nullopt;
  const ir::Type& type = graph.value(value).type;
  if (!type.is_tensor() || !type.shape) return std::nullopt;
  ConcreteShape shape;
  for (const std::optional<ir::Dim>& dim : *type.shape) {
    if (!dim) return std::nullopt;
    if (dim->is_constant()) {
      shape.push_back(dim->constant());
      continue;
    }
    const std::optional<int64_t> size = dim->Evaluate(bindings);
    if (!size) return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

std::optional<ConcreteShape> RuntimeContext::OperandShape(
    const Node& node, size_t operand) const {
  if (operand >= node.operands.size()) return std::nullopt;
  return ShapeOf(node.operands[operand]);
}

bool RuntimeContext::IsConstant(ValueId value) const {
  return value != kNoValue &&
         (graph.value(value).weight != ir::kNoWeight ||
          (folding != nullptr && folding->is_folded(value)));
}

bool RuntimeContext::IsFolded(const Node& node) const {
  return folding != nullptr &&
         std::any_of(node.results.begin(), node.results.end(),
                     [&](ValueId result) {
                       return result != kNoValue && folding->is_folded(result);
                     });
}

absl::StatusOr<RuntimeBlock> BuildRuntimeBlockIn(const RuntimeContext& context,
                                                 ir::BlockId block) {
  return Builder(context, block).Build();
}

absl::StatusOr<RuntimeBlock> BuildRuntimeBlock(const ir::Graph& graph,
                                               AnalysisManager& analyses,
                                               ir::BlockId block,
                                               const RuntimeOptions& options) {
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  RuntimeContext context{.graph = graph,
                         .analyses = analyses,
                         .sizes = *sizes,
                         .bindings = AssumedBindings(graph),
                         .options = options};
  if (options.folding) {
    ASSIGN_OR_RETURN(context.folding, analyses.Get<LoadGrowth>());
  }
  return BuildRuntimeBlockIn(context, block);
}

}  // namespace onnx_memopt::analysis
