// From a graph to ModelFacts.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "estimate/fusion.h"
#include "estimate/gradient_flow.h"
#include "estimate/number_width.h"
#include "estimate/tensor_parallel.h"
#include "estimate/torch_layout.h"
#include "estimate/torch_saved.h"
#include "estimate/torch_views.h"
#include "estimate/value_sizes.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/estimate/model_facts.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::estimate {
namespace {

using ir::NodeId;
using ir::ValueId;

constexpr BufferIndex kNoBuffer = -1;

bool Contains(const BufferList& list, BufferIndex buffer) {
  return std::find(list.begin(), list.end(), buffer) != list.end();
}
void AddOnce(BufferIndex buffer, BufferList* list) {
  if (buffer != kNoBuffer && !Contains(*list, buffer)) list->push_back(buffer);
}

bool IsNorm(absl::string_view op) {
  return op == "BatchNormalization" || op == "InstanceNormalization" ||
         op == "GroupNormalization";
}

class Extractor {
 public:
  Extractor(const ir::Graph& graph, const FactOptions& options)
      : graph_(graph), options_(options) {}

  absl::StatusOr<ModelFacts> Run() {
    analysis::AnalysisManager analyses(&graph_);
    ASSIGN_OR_RETURN(const analysis::Timeline* timeline,
                     analyses.Get<analysis::Timeline>());
    steps_ = timeline->steps(ir::kMainBlock);
    fusions_ =
        FindFusions(graph_, steps_, {.attention = options_.fused_attention});
    fusion_of_.assign(graph_.num_nodes(), -1);
    std::vector<bool> ignored(graph_.num_values());
    for (size_t i = 0; i < fusions_.size(); ++i) {
      for (NodeId id : fusions_[i].nodes) {
        fusion_of_[ir::Index(id)] = static_cast<int32_t>(i);
        if (fusions_[i].kind == FusionKind::kGroupNorm &&
            graph_.node(id).op_type == "InstanceNormalization") {
          for (ValueId operand : graph_.node(id).operands) {
            if (operand != ir::kNoValue) ignored[ir::Index(operand)] = true;
          }
        }
      }
    }
    flow_ = FindGradientFlow(graph_, steps_, ignored);
    if (options_.tensor_parallel > 1) {
      ASSIGN_OR_RETURN(
          const TensorSplit split,
          SplitTensors(graph_, steps_, flow_, options_.tensor_parallel));
      split_ = split.split;
      facts_.notes.push_back(
          absl::StrCat("tensor parallel: ", split.column_products,
                       " products by column, ", split.row_products, " by row, ",
                       split.whole_products, " whole on every GPU"));
    } else {
      split_.assign(graph_.num_values(), false);
    }
    facts_.batch_symbol = options_.batch_symbol.empty()
                              ? FindBatchSymbol(graph_)
                              : options_.batch_symbol;
    sizes_.emplace(graph_, flow_, facts_.batch_symbol);
    widths_.emplace(graph_, flow_, options_.autocast);
    facts_.model_batch = sizes_->model_batch();
    MarkAttention();
    buffer_of_.assign(graph_.num_values(), kNoBuffer);
    cast_of_.assign(graph_.num_values(), kNoBuffer);
    layout_.assign(graph_.num_values(), Layout::kContiguous);
    AddInputs();
    AddWeights();
    for (NodeId id : steps_) Visit(id);
    for (ValueId result : graph_.block(ir::kMainBlock).results) {
      if (result == ir::kNoValue) continue;
      const BufferIndex buffer = buffer_of_[ir::Index(result)];
      if (buffer == kNoBuffer) continue;
      facts_.buffers[buffer].is_output = true;
      const ir::Type& type = graph_.value(result).type;
      if (facts_.output_rank == 0 && facts_.buffers[buffer].has_gradient &&
          type.shape) {
        facts_.output_rank = type.shape->size();
      }
      facts_.outputs.push_back(buffer);
    }
    return std::move(facts_);
  }

 private:
  Amount ElementsOf(ValueId value) {
    return sizes_->Elements(value, &facts_.unknown);
  }

  // ---- buffers

  BufferIndex AddBuffer(BufferFact buffer) {
    facts_.buffers.push_back(std::move(buffer));
    return static_cast<BufferIndex>(facts_.buffers.size()) - 1;
  }

  int64_t BitsOf(ValueId value) const {
    return widths_->IsWide(value) ? 32 : sizes_->Bits(value);
  }

  BufferIndex NewBuffer(ValueId value) {
    return AddBuffer({.name = graph_.value(value).name,
                      .elements = ElementsOf(value),
                      .bits = BitsOf(value),
                      .has_gradient = flow_.has_gradient[ir::Index(value)],
                      .tensor_split = split_[ir::Index(value)]});
  }

  BufferIndex InternalBuffer(ValueId of, absl::string_view what,
                             Amount elements, int64_t bits) {
    return AddBuffer({.name = absl::StrCat(what, " of ", graph_.value(of).name),
                      .elements = elements,
                      .bits = bits,
                      .tensor_split = split_[ir::Index(of)]});
  }

  void AddInputs() {
    for (ValueId input : graph_.block(ir::kMainBlock).params) {
      const BufferIndex buffer = NewBuffer(input);
      facts_.buffers[buffer].is_input = true;
      buffer_of_[ir::Index(input)] = buffer;
    }
  }

  void AddWeights() {
    parameter_of_.assign(graph_.num_values(), -1);
    constant_of_.assign(graph_.num_values(), -1);
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      const ir::Value& value = graph_.value(ValueId{static_cast<uint32_t>(i)});
      if (value.weight == ir::kNoWeight) continue;
      const ir::Weight& weight = graph_.weight(value.weight);
      if (!flow_.trained[i]) {
        constant_of_[i] = static_cast<int32_t>(facts_.constants.size());
        facts_.constants.push_back({.bytes = weight.size_bytes});
        continue;
      }
      parameter_of_[i] = static_cast<ParameterIndex>(facts_.parameters.size());
      ParameterFact parameter{.name = value.name, .elements = 1};
      for (int64_t dim : weight.dims) {
        parameter.dims.push_back(dim);
        parameter.elements =
            CheckedMul(parameter.elements, dim).value_or(INT64_MAX);
      }
      parameter.tensor_split = split_[i];
      facts_.parameters.push_back(std::move(parameter));
    }
  }

  // ---- units

  void MarkAttention() {
    in_attention_.assign(graph_.num_nodes(), false);
    const auto cores = FindAttention(graph_, steps_);
    facts_.attentions = static_cast<int64_t>(cores.size());
    for (const auto& core : cores) {
      for (NodeId id : core) in_attention_[ir::Index(id)] = true;
    }
  }

  void Visit(NodeId id) {
    const ir::Node& node = graph_.node(id);
    CountOps(node);
    widths_->Visit(node);
    const int32_t fusion = fusion_of_[ir::Index(id)];
    if (fusion >= 0) {
      if (fusions_[fusion].nodes.back() == id) AddFused(fusions_[fusion]);
      return;
    }
    if (node.op_type == "Constant" || IsBehindWeights(node)) return;
    if (IsTorchView(graph_, node)) {
      AddView(node);
      return;
    }
    AddUnit(id);
  }

  void CountOps(const ir::Node& node) {
    facts_.has_batch_norm |= node.op_type == "BatchNormalization";
    facts_.has_dropout |= node.op_type == "Dropout";
    if (node.op_type == "Conv") ++facts_.convolutions;
    if (IsNorm(node.op_type)) ++facts_.convolutions_with_norm;
  }

  // Makes nothing but weights under another shape.
  bool IsBehindWeights(const ir::Node& node) const {
    return !node.results.empty() && node.results[0] != ir::kNoValue &&
           !flow_.weights_behind[ir::Index(node.results[0])].empty();
  }

  void AddView(const ir::Node& node) {
    if (node.operands.empty() || node.operands[0] == ir::kNoValue) return;
    const ValueId source = node.operands[0];
    const BufferIndex buffer = buffer_of_[ir::Index(source)];
    const Layout layout = layout_[ir::Index(source)];
    for (ValueId result : node.results) {
      if (result == ir::kNoValue) continue;
      if (layout != Layout::kContiguous && node.info->view_of == 0 &&
          MergesDims(graph_, *sizes_, source, result)) {
        AddCopy(source, result);
        continue;
      }
      buffer_of_[ir::Index(result)] = buffer;
      layout_[ir::Index(result)] = LayoutAfter(node, layout);
    }
  }

  void AddCopy(ValueId source, ValueId result) {
    UnitFact unit{.name = graph_.value(result).name, .op = "contiguous copy"};
    AddOnce(buffer_of_[ir::Index(source)], &unit.reads);
    const BufferIndex buffer = NewBuffer(result);
    buffer_of_[ir::Index(result)] = buffer;
    unit.writes.push_back(buffer);
    unit.passes_gradient = true;
    Finish(std::move(unit));
  }

  void ReadOperand(ValueId value, UnitFact* unit) {
    AddOnce(buffer_of_[ir::Index(value)], &unit->reads);
    for (ValueId weight : flow_.weights_behind[ir::Index(value)]) {
      const ParameterIndex parameter = parameter_of_[ir::Index(weight)];
      if (parameter >= 0) {
        if (std::find(unit->parameters.begin(), unit->parameters.end(),
                      parameter) == unit->parameters.end()) {
          unit->parameters.push_back(parameter);
        }
        continue;
      }
      const int32_t constant = constant_of_[ir::Index(weight)];
      if (constant >= 0 && facts_.constants[constant].first_use < 0) {
        facts_.constants[constant].first_use =
            static_cast<UnitIndex>(facts_.units.size());
      }
    }
  }

  void AddFlops(const ir::Node& node, Amount* flops) const {
    if (node.info->flops == nullptr || node.results.empty() ||
        node.results[0] == ir::kNoValue) {
      return;
    }
    const std::optional<ir::Dim> count = node.info->flops(graph_, node);
    if (!count) return;
    const Amount amount =
        sizes_
            ->ToAmount(*count,
                       flow_.depends_on_input[ir::Index(node.results[0])])
            .value_or(Amount{});
    flops->fixed = SaturatingAdd(flops->fixed, amount.fixed);
    flops->per_sample = SaturatingAdd(flops->per_sample, amount.per_sample);
  }

  void AddUnit(NodeId id) {
    const ir::Node& node = graph_.node(id);
    UnitFact unit{.name = graph_.DisplayName(id),
                  .op = node.op_type,
                  .in_attention = in_attention_[ir::Index(id)]};
    std::vector<ValueId> uses;
    ir::CollectUses(graph_, id, &uses);
    for (ValueId use : uses) ReadOperand(use, &unit);
    bool differentiable = false;
    for (ValueId result : node.results) {
      if (result == ir::kNoValue) continue;
      const BufferIndex buffer = NewBuffer(result);
      buffer_of_[ir::Index(result)] = buffer;
      unit.writes.push_back(buffer);
      differentiable |= flow_.has_gradient[ir::Index(result)];
    }
    AddFlops(node, &unit.flops);
    if (!node.blocks.empty()) AddNested(node, &unit);
    if (differentiable) AddSaved(node, &unit);
    unit.passes_gradient =
        differentiable && (node.op_type == "Add" || node.op_type == "Sum");
    Finish(std::move(unit));
  }

  void AddSaved(const ir::Node& node, UnitFact* unit) {
    const auto has_gradient = [&](size_t i) {
      return i < node.operands.size() && node.operands[i] != ir::kNoValue &&
             flow_.has_gradient[ir::Index(node.operands[i])];
    };
    const TorchSaved saved = SavedByTorch(node, has_gradient);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i];
      if (operand == ir::kNoValue || !ir::Lists(saved.operands, i)) continue;
      if (SaveCast(AutocastOf(node.op_type), operand, unit)) continue;
      if (NeedsCopy(node, operand)) {
        const BufferIndex copy = InternalBuffer(
            operand, "contiguous copy", ElementsOf(operand), BitsOf(operand));
        unit->writes.push_back(copy);
        unit->saves.push_back(copy);
        continue;
      }
      AddOnce(buffer_of_[ir::Index(operand)], &unit->saves);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (node.results[i] == ir::kNoValue || !ir::Lists(saved.results, i))
        continue;
      AddOnce(buffer_of_[ir::Index(node.results[i])], &unit->saves);
    }
    AddExtra(node, saved.extra, unit);
  }

  // Under autocast, an operand of another width is kept as a copy; a weight as
  // one for all that read it.
  bool SaveCast(CastTo cast, ValueId operand, UnitFact* unit) {
    const ir::Value& value = graph_.value(operand);
    if (!widths_->autocast() || cast == CastTo::kNothing ||
        !IsFloatingPoint(value)) {
      return false;
    }
    const bool half = cast == CastTo::kHalf;
    if (buffer_of_[ir::Index(operand)] != kNoBuffer) {
      if (widths_->IsWide(operand) != half) return false;
      SaveExtra(InternalBuffer(operand, half ? "16-bit copy" : "float32 copy",
                               ElementsOf(operand), half ? 16 : 32),
                /*is_new=*/true, unit);
      return true;
    }
    if (!half) return true;  // parameters are float32
    for (ValueId weight : flow_.weights_behind[ir::Index(operand)]) {
      const ParameterIndex p = parameter_of_[ir::Index(weight)];
      if (p < 0) continue;
      BufferIndex& copy = cast_of_[ir::Index(weight)];
      const bool is_new = copy == kNoBuffer;
      if (is_new) {
        copy = InternalBuffer(weight, "16-bit copy",
                              {.fixed = facts_.parameters[p].elements}, 16);
      }
      SaveExtra(copy, is_new, unit);
    }
    return true;
  }

  // A batched product wants its operands as one batch of matrices.
  bool NeedsCopy(const ir::Node& node, ValueId operand) const {
    const ir::Type& type = graph_.value(operand).type;
    return node.op_type == "MatMul" &&
           layout_[ir::Index(operand)] != Layout::kContiguous && type.shape &&
           type.shape->size() >= 4 &&
           buffer_of_[ir::Index(operand)] != kNoBuffer;
  }

  void AddExtra(const ir::Node& node, ExtraSaved extra, UnitFact* unit) {
    if (extra == ExtraSaved::kNone || node.results.empty() ||
        node.results[0] == ir::kNoValue || node.operands.empty() ||
        node.operands[0] == ir::kNoValue) {
      return;
    }
    const ValueId result = node.results[0];
    // The node has it as a result of its own.
    const bool given =
        node.results.size() > 1 && node.results[1] != ir::kNoValue;
    switch (extra) {
      case ExtraSaved::kNone:
        return;
      case ExtraSaved::kMask:
        SaveExtra(given ? buffer_of_[ir::Index(node.results[1])]
                        : InternalBuffer(result, "mask", ElementsOf(result), 8),
                  !given, unit);
        return;
      case ExtraSaved::kIndices:
        SaveExtra(
            given ? buffer_of_[ir::Index(node.results[1])]
                  : InternalBuffer(result, "indices", ElementsOf(result), 64),
            !given, unit);
        return;
      case ExtraSaved::kRowStats: {
        const int64_t axis = ir::IntAttribute(node, "axis", -1);
        SaveExtra(
            InternalBuffer(result, "statistics",
                           Times(sizes_->Rows(node.operands[0], axis), 2), 32),
            /*is_new=*/true, unit);
        return;
      }
      case ExtraSaved::kChannelStats:
        SaveExtra(ChannelStats(node.operands[0],
                               node.op_type == "BatchNormalization"),
                  /*is_new=*/true, unit);
        return;
    }
  }

  static void SaveExtra(BufferIndex buffer, bool is_new, UnitFact* unit) {
    if (is_new) unit->writes.push_back(buffer);
    AddOnce(buffer, &unit->saves);
  }

  BufferIndex ChannelStats(ValueId image, bool over_batch) {
    Amount amount = sizes_->Rows(image, 2);
    if (over_batch) {
      amount = {.fixed = SaturatingAdd(amount.fixed, amount.per_sample)};
    }
    return InternalBuffer(image, "statistics", Times(amount, 2), 32);
  }

  // Values of the blocks of a node, each counted once.
  void AddNested(const ir::Node& node, UnitFact* unit) {
    std::vector<ir::BlockId> blocks(node.blocks.begin(), node.blocks.end());
    Amount sum;
    for (size_t i = 0; i < blocks.size(); ++i) {
      for (NodeId id : graph_.block(blocks[i]).nodes) {
        const ir::Node& inner = graph_.node(id);
        blocks.insert(blocks.end(), inner.blocks.begin(), inner.blocks.end());
        if (IsTorchView(graph_, inner)) continue;
        for (ValueId result : inner.results) {
          if (result == ir::kNoValue ||
              !IsFloatingPoint(graph_.value(result))) {
            continue;
          }
          const Amount elements = ElementsOf(result);
          sum.fixed = SaturatingAdd(sum.fixed, elements.fixed);
          sum.per_sample = SaturatingAdd(sum.per_sample, elements.per_sample);
        }
      }
    }
    const BufferIndex buffer = AddBuffer(
        {.name = absl::StrCat("inside ", unit->name), .elements = sum});
    unit->writes.push_back(buffer);
    unit->saves.push_back(buffer);
  }

  void AddFused(const Fusion& fusion) {
    const NodeId last = fusion.nodes.back();
    const ir::Node& node = graph_.node(last);
    UnitFact unit{.name = graph_.DisplayName(last),
                  .op = std::string(fusion.name),
                  .in_attention = fusion.kind == FusionKind::kAttention};
    const auto inside = [&](ValueId value) {
      const NodeId producer = graph_.value(value).producer;
      return producer != ir::kNoNode &&
             std::find(fusion.nodes.begin(), fusion.nodes.end(), producer) !=
                 fusion.nodes.end();
    };
    for (NodeId id : fusion.nodes) {
      for (ValueId operand : graph_.node(id).operands) {
        if (operand != ir::kNoValue && !inside(operand)) {
          ReadOperand(operand, &unit);
        }
      }
      AddFlops(graph_.node(id), &unit.flops);
    }
    const ValueId result = node.results[0];
    CastTo cast = AutocastOf(fusion.name);
    if (cast == CastTo::kNothing && !fusion.saved.empty()) {
      cast = widths_->IsWide(fusion.saved[0]) ? CastTo::kFloat : CastTo::kHalf;
    }
    widths_->Set(result, cast);
    const BufferIndex buffer = NewBuffer(result);
    buffer_of_[ir::Index(result)] = buffer;
    unit.writes.push_back(buffer);
    if (fusion.kind == FusionKind::kAttention) {
      layout_[ir::Index(result)] = Layout::kTokensFirst;
    }
    if (flow_.has_gradient[ir::Index(result)]) {
      for (ValueId saved : fusion.saved) {
        if (SaveCast(cast, saved, &unit)) continue;
        AddOnce(buffer_of_[ir::Index(saved)], &unit.saves);
      }
      AddFusedExtra(fusion, &unit);
    }
    Finish(std::move(unit));
  }

  void AddFusedExtra(const Fusion& fusion, UnitFact* unit) {
    switch (fusion.kind) {
      case FusionKind::kGelu:
      case FusionKind::kSilu:
        return;
      case FusionKind::kBias: {
        const ir::Node& product = graph_.node(fusion.nodes[0]);
        UnitFact inner;
        AddSaved(product, &inner);
        for (BufferIndex b : inner.writes) unit->writes.push_back(b);
        for (BufferIndex b : inner.saves) AddOnce(b, &unit->saves);
        return;
      }
      case FusionKind::kGroupNorm: {
        for (NodeId id : fusion.nodes) {
          if (graph_.node(id).op_type != "InstanceNormalization") continue;
          SaveExtra(ChannelStats(graph_.node(id).operands[0], false),
                    /*is_new=*/true, unit);
        }
        return;
      }
      case FusionKind::kLayerNorm:
        SaveExtra(
            InternalBuffer(fusion.saved[0], "statistics",
                           Times(sizes_->Rows(fusion.saved[0], -1), 2), 32),
            /*is_new=*/true, unit);
        return;
      case FusionKind::kAttention:
        for (NodeId id : fusion.nodes) {
          if (graph_.node(id).op_type != "Softmax") continue;
          const ValueId scores = graph_.node(id).results[0];
          SaveExtra(InternalBuffer(scores, "log-sum-exp",
                                   sizes_->Rows(scores, -1), 32),
                    /*is_new=*/true, unit);
        }
        return;
    }
  }

  void Finish(UnitFact unit) {
    bool differentiable = false;
    for (BufferIndex b : unit.writes) {
      differentiable |= facts_.buffers[b].has_gradient;
    }
    if (differentiable) {
      for (BufferIndex b : unit.reads) {
        if (facts_.buffers[b].has_gradient) unit.gradients.push_back(b);
      }
    }
    int64_t elements = 0;
    for (ParameterIndex p : unit.parameters) {
      ParameterFact& parameter = facts_.parameters[p];
      if (parameter.first_use < 0) {
        parameter.first_use = static_cast<UnitIndex>(facts_.units.size());
      }
      elements = SaturatingAdd(elements, parameter.elements);
    }
    facts_.largest_layer = std::max(facts_.largest_layer, elements);
    facts_.units.push_back(std::move(unit));
  }

  const ir::Graph& graph_;
  const FactOptions& options_;
  ModelFacts facts_;
  absl::Span<const NodeId> steps_;
  std::vector<Fusion> fusions_;
  std::vector<int32_t> fusion_of_;  // by NodeId; -1: none
  GradientFlow flow_;
  std::vector<bool> split_;         // by ValueId: tensor parallel
  std::vector<bool> in_attention_;  // by NodeId
  std::optional<ValueSizes> sizes_;
  std::optional<NumberWidths> widths_;
  std::vector<BufferIndex> buffer_of_;  // by ValueId
  std::vector<BufferIndex> cast_of_;    // by ValueId: of weights
  std::vector<Layout> layout_;
  std::vector<ParameterIndex> parameter_of_;
  std::vector<int32_t> constant_of_;
};

}  // namespace

absl::StatusOr<ModelFacts> ExtractFacts(const ir::Graph& graph,
                                        const FactOptions& options) {
  return Extractor(graph, options).Run();
}

}  // namespace onnx_memopt::estimate
