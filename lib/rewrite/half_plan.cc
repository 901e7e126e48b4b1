#include <algorithm>
#include <cassert>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/ir/weight_reader.h"
#include "onnx_memopt/rewrite/half_precision.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Block;
using ir::BlockId;
using ir::ElementType;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::Value;
using ir::ValueId;

enum class Control : uint8_t { kNone, kIf, kLoop, kScan, kOther };

// What its operands, results and blocks have to do with each other.
Control ControlOf(const Node& node) {
  if (node.is_call || node.blocks.empty()) return Control::kNone;
  if (!node.domain.empty()) return Control::kOther;
  if (node.op_type == "If") return Control::kIf;
  if (node.op_type == "Loop") return Control::kLoop;
  // Scan-8 has an operand more.
  if (node.op_type == "Scan" && node.opset >= 9) return Control::kScan;
  return Control::kOther;
}

// Takes any type and gives a result of a type of its own.
bool TakesAnyWidth(const Node& node) {
  if (!node.domain.empty()) return false;
  return node.op_type == "Cast" ||
         (node.info->recompute == ir::RecomputeCost::kFree &&
          !node.info->differentiable);
}

bool IsCheap(const Node& node) {
  return node.info->recompute == ir::RecomputeCost::kFree ||
         node.info->recompute == ir::RecomputeCost::kCheap;
}

bool CastsToFloat(const Node& node) {
  return node.domain.empty() && node.op_type == "Cast" &&
         ir::IntAttribute(node, "to", 0) ==
             static_cast<int64_t>(ElementType::kFloat);
}

// Its result is float32 because an attribute says so.
bool StatesFloat(const Node& node) {
  for (const char* name : {"to", "dtype", "output_dtype", "output_datatype"}) {
    if (ir::IntAttribute(node, name, 0) ==
        static_cast<int64_t>(ElementType::kFloat)) {
      return true;
    }
  }
  return false;
}

struct Use {
  NodeId node;
  size_t index = 0;
};

class Planner {
 public:
  Planner(const Graph& graph, const HalfOptions& options) : graph_(graph) {
    plan_.options = options;
    plan_.nodes.assign(graph.num_nodes(), Width::kSingle);
    plan_.reasons.resize(graph.num_nodes());
    plan_.native.assign(graph.num_values(), Width::kSingle);
    plan_.params.resize(graph.num_blocks());
    plan_.results.resize(graph.num_blocks());
    plan_.kept.assign(graph.num_values(), false);
    plan_.recast.assign(graph.num_nodes(), false);
    uses_.resize(graph.num_values());
    result_of_.resize(graph.num_values());
  }

  absl::StatusOr<HalfPlan> Run() {
    Collect();
    RETURN_IF_ERROR(CheckElements());
    RETURN_IF_ERROR(PlanBlocks());
    for (NodeId id : nodes_) Classify(id);
    RETURN_IF_ERROR(ScanWeights());
    KeepReadersOfWideValues();
    SetNative();
    LeaveBetweenSingles();
    SetNative();
    Recast();
    SetNative();
    return std::move(plan_);
  }

 private:
  const Node& node(NodeId id) const { return graph_.node(id); }
  bool IsFloat(ValueId id) const {
    return id != kNoValue && IsFloatTensor(graph_.value(id));
  }
  bool IsData(ValueId id) const {
    return IsFloat(id) && !IsFloatConstant(graph_, id);
  }

  // All nodes that may change, each before those of its blocks.
  void Collect() {
    blocks_ = BlocksOutsideCalls(graph_);
    for (BlockId id : blocks_) {
      const Block& block = graph_.block(id);
      for (ValueId result : block.results) {
        result_of_[Index(result)].push_back(id);
      }
      for (NodeId n : block.nodes) {
        nodes_.push_back(n);
        for (size_t i = 0; i < node(n).operands.size(); ++i) {
          const ValueId operand = node(n).operands[i];
          if (operand != kNoValue) uses_[Index(operand)].push_back({n, i});
        }
        if (!node(n).is_call) continue;
        // What its body reads of the caller, it reads in float32.
        std::vector<ValueId> captured;
        CollectUses(graph_, n, &captured);
        for (ValueId value : captured) {
          uses_[Index(value)].push_back({n, SIZE_MAX});
        }
      }
    }
  }

  absl::Status CheckElements() const {
    bool has_single = false;
    std::optional<ElementType> half;
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      const ir::Type& type =
          graph_.value(ValueId(static_cast<uint32_t>(i))).type;
      has_single = has_single || type.element == ElementType::kFloat;
      if (type.element == ElementType::kFloat16 ||
          type.element == ElementType::kBfloat16) {
        half = type.element;
      }
    }
    if (has_single) return absl::OkStatus();
    if (half) {
      return absl::InvalidArgumentError(
          absl::StrCat("the model is in ", ir::Name(*half), " already"));
    }
    return absl::FailedPreconditionError("nothing in it is float32");
  }

  // Branches and parts give 16 bits; what is carried from one run of a body to
  // the next is as sensitive as any running sum.
  absl::Status PlanBlocks() {
    const Width interface =
        plan_.options.keep_interface ? Width::kSingle : Width::kHalf;
    for (BlockId id : blocks_) {
      const Block& block = graph_.block(id);
      auto& params = plan_.params[Index(id)];
      auto& results = plan_.results[Index(id)];
      params.assign(block.params.size(), Width::kSingle);
      results.assign(block.results.size(), Width::kSingle);
      if (id == ir::kMainBlock) {
        params.assign(params.size(), interface);
        results.assign(results.size(), interface);
        continue;
      }
      const Node& owner = node(block.owner);
      const size_t first_part = FirstPart(owner, block);
      switch (ControlOf(owner)) {
        case Control::kIf:
          results.assign(results.size(), Width::kHalf);
          break;
        case Control::kLoop:
          std::fill(results.begin() + static_cast<std::ptrdiff_t>(
                                          std::min(first_part, results.size())),
                    results.end(), Width::kHalf);
          break;
        case Control::kScan:
          std::fill(params.begin() + static_cast<std::ptrdiff_t>(
                                         std::min(first_part, params.size())),
                    params.end(), Width::kHalf);
          std::fill(results.begin() + static_cast<std::ptrdiff_t>(
                                          std::min(first_part, results.size())),
                    results.end(), Width::kHalf);
          break;
        default:
          break;
      }
      for (ValueId result : block.results) {
        if (IsFloat(result) && graph_.value(result).block != id) {
          return absl::FailedPreconditionError(absl::StrCat(
              "a subgraph of \"", Printable(graph_.DisplayName(block.owner)),
              "\" has a result that it does not compute"));
        }
      }
    }
    LowerWhatStays();
    // A name has one type, whatever it stands for.
    while (AgreeOnNames()) {
    }
    return absl::OkStatus();
  }

  // Results that have to be what they are: weights that the caller may replace,
  // and what calls define.
  void LowerWhatStays() {
    for (BlockId id : blocks_) {
      const Block& block = graph_.block(id);
      for (size_t i = 0; i < block.results.size(); ++i) {
        const Value& value = graph_.value(block.results[i]);
        const bool is_weight = value.kind == ir::ValueKind::kInitializer &&
                               !IsFloatConstant(graph_, block.results[i]);
        const bool is_calls =
            value.producer != ir::kNoNode && node(value.producer).is_call;
        if (is_weight || is_calls) {
          plan_.results[Index(id)][i] = Width::kSingle;
        }
      }
    }
  }

  // Params and results before it are carried.
  static size_t FirstPart(const Node& owner, const Block& body) {
    if (ControlOf(owner) == Control::kLoop) {
      return body.params.empty() ? 0 : body.params.size() - 1;
    }
    const int64_t parts = ir::IntAttribute(owner, "num_scan_inputs", 0);
    const auto count = static_cast<int64_t>(body.params.size());
    return static_cast<size_t>(std::max<int64_t>(count - parts, 0));
  }

  bool AgreeOnNames() {
    bool changed = false;
    const auto lower = [&](Width* a, Width* b) {
      if (*a == *b) return;
      *a = *b = Width::kSingle;
      changed = true;
    };
    for (BlockId id : blocks_) {
      if (id == ir::kMainBlock) continue;
      const Block& block = graph_.block(id);
      auto& params = plan_.params[Index(id)];
      auto& results = plan_.results[Index(id)];
      for (size_t i = 0; i < results.size(); ++i) {
        for (size_t k = i + 1; k < results.size(); ++k) {
          if (block.results[i] == block.results[k]) {
            lower(&results[i], &results[k]);
          }
        }
        for (size_t k = 0; k < params.size(); ++k) {
          if (block.results[i] == block.params[k]) {
            lower(&results[i], &params[k]);
          }
        }
      }
      // The branches of an If.
      for (BlockId other : node(block.owner).blocks) {
        auto& others = plan_.results[Index(other)];
        for (size_t i = 0; i < std::min(results.size(), others.size()); ++i) {
          lower(&results[i], &others[i]);
        }
      }
    }
    return changed;
  }

  void Classify(NodeId id) {
    const Node& n = node(id);
    const bool reads = std::any_of(n.operands.begin(), n.operands.end(),
                                   [&](ValueId v) { return IsFloat(v); });
    const bool makes = std::any_of(n.results.begin(), n.results.end(),
                                   [&](ValueId v) { return IsFloat(v); });
    if (n.is_call) {
      if (reads || makes) Keep(id, "model-local function");
      return;
    }
    if (ControlOf(n) == Control::kOther) return Keep(id, "subgraph");
    // Makers of float32 (Cast, Range, ConstantOfShape) do as their attribute
    // says, and what only counts does not care.
    if (ControlOf(n) != Control::kNone || !reads || TakesAnyWidth(n)) return;
    for (const auto& values :
         {absl::MakeConstSpan(n.operands), absl::MakeConstSpan(n.results)}) {
      for (ValueId value : values) {
        if (value == kNoValue) continue;
        const ir::Type& type = graph_.value(value).type;
        if (!type.is_tensor() || type.element == ElementType::kUndefined) {
          return Keep(id, "unknown type");
        }
      }
    }
    for (ValueId result : n.results) {
      if (IsFloat(result) && graph_.value(result).contents != nullptr) {
        return Keep(id, "shape arithmetic");
      }
    }
    if (makes && StatesFloat(n)) return Keep(id, "type is an attribute");
    if (!ir::IsKnown(*n.info)) return Keep(id, "unknown operator");
    if (!ir::Takes(*n.info, plan_.options.type, n.opset)) {
      return Keep(id, absl::StrCat("takes no ", ir::Name(plan_.options.type)));
    }
    if (n.info->needs_float32 != ir::Float32Need::kNone &&
        !plan_.options.sensitive_in_half) {
      return Keep(id, ir::Name(n.info->needs_float32));
    }
    plan_.nodes[Index(id)] = Width::kHalf;
  }

  void Keep(NodeId id, absl::string_view why) {
    plan_.nodes[Index(id)] = Width::kSingle;
    plan_.reasons[Index(id)] = std::string(why);
  }

  // Only weights that a node in 16 bits would read.
  absl::Status ScanWeights() {
    ir::WeightReader reader;
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      const ValueId id{static_cast<uint32_t>(i)};
      const Value& value = graph_.value(id);
      if (!IsFloatConstant(graph_, id)) continue;
      const bool is_read =
          !result_of_[i].empty() ||
          std::any_of(uses_[i].begin(), uses_[i].end(), [&](const Use& use) {
            Width width;
            return WantedWidth(plan_, graph_, use.node, use.index, &width) &&
                   width == Width::kHalf;
          });
      if (!is_read) continue;
      HalfRange& range = plan_.ranges[id];
      const absl::Status read =
          MeasureRange(graph_, id, plan_.options.type, &reader, &range);
      if (!read.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("weight \"", Printable(value.name),
                         "\" cannot be read: ", read.message()));
      }
      if (graph_.drop_resident) graph_.drop_resident();
      plan_.kept[i] = plan_.options.out_of_range == OutOfRange::kKeep &&
                      (range.too_large > 0 || range.all_small);
    }
    return absl::OkStatus();
  }

  // A Cast to float32 of integers that 16 bits may not hold: what products of
  // quantised tensors add up, positions, a clock.
  bool CastsWideIntegers(const Node& n) const {
    if (plan_.options.out_of_range != OutOfRange::kKeep || !CastsToFloat(n) ||
        n.operands.size() != 1 || n.operands[0] == kNoValue) {
      return false;
    }
    switch (graph_.value(n.operands[0]).type.element) {
      case ElementType::kInt16:
      case ElementType::kUint16:
      case ElementType::kInt32:
      case ElementType::kUint32:
      case ElementType::kInt64:
      case ElementType::kUint64:
        return true;
      default:
        return false;
    }
  }

  // What a weight beyond the range is added to or taken from is beyond it too,
  // up to the next product or reduction: masks of attention, in most models.
  void KeepReadersOfWideValues() {
    std::vector<bool> wide(graph_.num_values(), false);
    for (NodeId id : nodes_) {
      const Node& n = node(id);
      if (n.is_call || ControlOf(n) != Control::kNone) continue;
      bool reads_wide = false;
      for (ValueId operand : n.operands) {
        if (operand == kNoValue) continue;
        const auto range = plan_.ranges.find(operand);
        const bool too_large = plan_.kept[Index(operand)] &&
                               range != plan_.ranges.end() &&
                               range->second.too_large > 0;
        reads_wide = reads_wide || wide[Index(operand)] || too_large;
        if ((plan_.kept[Index(operand)] || wide[Index(operand)]) &&
            plan_.nodes[Index(id)] == Width::kHalf) {
          Keep(id, "numbers out of range");
        }
      }
      const bool makes_wide =
          CastsWideIntegers(n) || (reads_wide && IsCheap(n));
      if (!makes_wide) continue;
      for (ValueId result : n.results) {
        if (IsFloat(result)) wide[Index(result)] = true;
      }
    }
  }

  void SetNative() {
    for (BlockId id : blocks_) {
      const Block& block = graph_.block(id);
      for (size_t i = 0; i < block.params.size(); ++i) {
        plan_.native[Index(block.params[i])] = plan_.params[Index(id)][i];
      }
    }
    for (NodeId id : nodes_) {
      const Node& n = node(id);
      for (size_t i = 0; i < n.results.size(); ++i) {
        if (n.results[i] == kNoValue) continue;
        plan_.native[Index(n.results[i])] = ResultWidth(id, i);
      }
    }
  }

  Width ResultWidth(NodeId id, size_t index) const {
    const Node& n = node(id);
    const Control control = ControlOf(n);
    if (control == Control::kIf || control == Control::kLoop ||
        control == Control::kScan) {
      // The condition is a result of a Loop's body and not of the Loop.
      const size_t at = control == Control::kLoop ? index + 1 : index;
      const auto& results = plan_.results[Index(n.blocks.front())];
      return at < results.size() ? results[at] : Width::kSingle;
    }
    if (plan_.recast[Index(id)]) return Width::kHalf;
    if (ir::Lists(n.info->float32_results, index)) return Width::kSingle;
    return plan_.nodes[Index(id)];
  }

  // True if all that reads the result reads it in this width, or in any.
  bool AllRead(ValueId result, Width width,
               const std::vector<bool>* also) const {
    for (BlockId block : result_of_[Index(result)]) {
      const Block& b = graph_.block(block);
      for (size_t i = 0; i < b.results.size(); ++i) {
        if (b.results[i] == result && plan_.results[Index(block)][i] != width) {
          return false;
        }
      }
    }
    return std::all_of(
        uses_[Index(result)].begin(), uses_[Index(result)].end(),
        [&](const Use& use) {
          Width wanted;
          if (!WantedWidth(plan_, graph_, use.node, use.index, &wanted)) {
            return true;
          }
          return wanted == width ||
                 (also != nullptr && (*also)[Index(use.node)]);
        });
  }

  // Cheap nodes all of whose neighbours compute in float32.
  void LeaveBetweenSingles() {
    std::vector<bool> candidate(graph_.num_nodes(), false);
    std::vector<NodeId> candidates;
    for (NodeId id : nodes_) {
      if (plan_.nodes[Index(id)] != Width::kHalf || !IsCheap(node(id)) ||
          std::none_of(node(id).operands.begin(), node(id).operands.end(),
                       [&](ValueId v) { return IsData(v); })) {
        continue;
      }
      candidate[Index(id)] = true;
      candidates.push_back(id);
    }
    const auto fits = [&](NodeId id) {
      for (ValueId operand : node(id).operands) {
        if (!IsData(operand) ||
            plan_.native[Index(operand)] == Width::kSingle) {
          continue;
        }
        const NodeId producer = graph_.value(operand).producer;
        if (producer == ir::kNoNode || !candidate[Index(producer)]) {
          return false;
        }
      }
      return std::all_of(
          node(id).results.begin(), node(id).results.end(), [&](ValueId v) {
            return !IsFloat(v) || AllRead(v, Width::kSingle, &candidate);
          });
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (NodeId id : candidates) {
        if (!candidate[Index(id)] || fits(id)) continue;
        candidate[Index(id)] = false;
        changed = true;
      }
    }
    for (NodeId id : candidates) {
      if (candidate[Index(id)]) Keep(id, "between nodes in float32");
    }
  }

  void Recast() {
    for (NodeId id : nodes_) {
      const Node& n = node(id);
      if (!CastsToFloat(n) || n.results.size() != 1 || !IsFloat(n.results[0]) ||
          graph_.value(n.results[0]).contents != nullptr) {
        continue;
      }
      const bool is_used = std::any_of(
          uses_[Index(n.results[0])].begin(), uses_[Index(n.results[0])].end(),
          [&](const Use& use) {
            Width width;
            return WantedWidth(plan_, graph_, use.node, use.index, &width);
          });
      if (is_used && AllRead(n.results[0], Width::kHalf, nullptr)) {
        plan_.recast[Index(id)] = true;
      }
    }
  }

  const Graph& graph_;
  HalfPlan plan_;
  std::vector<BlockId> blocks_;
  std::vector<NodeId> nodes_;
  std::vector<std::vector<Use>> uses_;           // by ValueId
  std::vector<std::vector<BlockId>> result_of_;  // by ValueId
};

}  // namespace

bool IsFloatTensor(const Value& value) {
  return value.type.is_tensor() && value.type.element == ElementType::kFloat;
}

bool IsFloatConstant(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  if (!IsFloatTensor(value) || value.pinned || value.overridable) return false;
  if (value.weight != ir::kNoWeight) {
    const ir::Weight& weight = graph.weight(value.weight);
    return weight.element == ElementType::kFloat && !weight.is_transformed() &&
           (weight.storage == ir::WeightStorage::kRaw ||
            weight.storage == ir::WeightStorage::kExternal);
  }
  if (value.producer == ir::kNoNode || value.contents == nullptr) return false;
  const Node& producer = graph.node(value.producer);
  return producer.op_type == "Constant" && producer.domain.empty() &&
         std::all_of(value.contents->elements.begin(),
                     value.contents->elements.end(),
                     [](const ir::Element& e) { return e.real.has_value(); });
}

bool WantedWidth(const HalfPlan& plan, const Graph& graph, NodeId id,
                 size_t index, Width* width) {
  const Node& node = graph.node(id);
  *width = Width::kSingle;
  if (node.is_call) return true;
  if (!IsFloatTensor(graph.value(node.operands[index]))) return false;
  switch (ControlOf(node)) {
    case Control::kLoop:
    case Control::kScan: {
      const auto& params = plan.params[Index(node.blocks.front())];
      if (index < params.size()) *width = params[index];
      return true;
    }
    case Control::kIf:
    case Control::kOther:
      return true;
    case Control::kNone:
      break;
  }
  if (TakesAnyWidth(node)) return false;
  if (!ir::Lists(node.info->float32_operands, index)) {
    *width = plan.nodes[Index(id)];
  }
  return true;
}

absl::StatusOr<HalfPlan> PlanHalf(const Graph& graph,
                                  const HalfOptions& options) {
  return Planner(graph, options).Run();
}

}  // namespace onnx_memopt::rewrite
