#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/half_precision.h"

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

Width Other(Width width) {
  return width == Width::kHalf ? Width::kSingle : Width::kHalf;
}

class Converter {
 public:
  Converter(const HalfPlan& plan, Graph* graph)
      : plan_(plan), graph_(*graph), builder_(graph) {}

  HalfCounts Run() {
    Collect();
    FindNamedWidths();
    for (BlockId block : blocks_) PrepareBlock(block);
    // Uses in the order of the schedule: the first reader of a Cast is found
    // first.
    for (NodeId id : nodes_) Rewire(id);
    Schedule();
    for (NodeId id : nodes_) RetypeAttribute(id);
    RemoveIdleCasts();
    return counts_;
  }

 private:
  ElementType ElementOf(Width width) const {
    return width == Width::kHalf ? plan_.options.type : ElementType::kFloat;
  }

  void Collect() {
    CollectBlock(ir::kMainBlock);
    versions_.resize(graph_.num_values(), {kNoValue, kNoValue});
    named_.resize(graph_.num_values());
    is_float_.resize(graph_.num_values());
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      is_float_[i] =
          IsFloatTensor(graph_.value(ValueId(static_cast<uint32_t>(i))));
    }
  }

  // A node before what is in its blocks. Graphs are nested 32 deep at most.
  void CollectBlock(BlockId id) {
    blocks_.push_back(id);
    for (NodeId n : graph_.block(id).nodes) {
      nodes_.push_back(n);
      if (graph_.node(n).is_call) continue;
      for (BlockId nested : graph_.node(n).blocks) CollectBlock(nested);
    }
  }

  // Results of blocks keep their names, whatever width they are made in.
  void FindNamedWidths() {
    for (BlockId id : blocks_) {
      const Block& block = graph_.block(id);
      for (size_t i = 0; i < block.results.size(); ++i) {
        named_[Index(block.results[i])] = plan_.results[Index(id)][i];
      }
    }
    // Now: types are about to change.
    wanted_.resize(graph_.num_values());
    reads_.resize(graph_.num_nodes());
    for (NodeId id : nodes_) {
      const Node& node = graph_.node(id);
      reads_[Index(id)].resize(node.operands.size());
      for (size_t i = 0; i < node.operands.size(); ++i) {
        const ValueId operand = node.operands[i];
        Width width;
        if (operand == kNoValue || !is_float_[Index(operand)] ||
            !WantedWidth(plan_, graph_, id, i, &width)) {
          continue;
        }
        reads_[Index(id)][i] = width;
        wanted_[Index(operand)][static_cast<size_t>(width)] = true;
      }
    }
  }

  ValueId& Version(ValueId value, Width width) {
    return versions_[Index(value)][static_cast<size_t>(width)];
  }

  // Gives each value that is defined in the block its native width.
  void PrepareBlock(BlockId id) {
    // Copies: both lists grow.
    const std::vector<ValueId> initializers = graph_.block(id).initializers;
    const std::vector<NodeId> nodes = graph_.block(id).nodes;
    for (ValueId value : graph_.block(id).params) {
      if (is_float_[Index(value)]) PrepareFixed(value);
    }
    for (ValueId value : initializers) {
      if (!is_float_[Index(value)]) continue;
      if (IsFloatConstant(graph_, value)) {
        PrepareConstant(value, id);
      } else {
        Version(value, Width::kSingle) = value;
      }
    }
    for (NodeId node : nodes) PrepareResults(node, id);
  }

  void PrepareFixed(ValueId value) {
    const Width native = plan_.native[Index(value)];
    Version(value, native) = value;
    if (native == Width::kHalf) Retype(value);
  }

  void PrepareResults(NodeId id, BlockId block) {
    const size_t num_results = graph_.node(id).results.size();
    for (size_t i = 0; i < num_results; ++i) {
      const ValueId value = graph_.node(id).results[i];
      if (value == kNoValue || !is_float_[Index(value)]) continue;
      if (IsFloatConstant(graph_, value)) {
        if (PrepareConstant(value, block)) dead_[block].push_back(id);
        continue;
      }
      const Width native = plan_.native[Index(value)];
      const std::optional<Width> named = named_[Index(value)];
      // A call's body defines its results by these names.
      if (!named || *named == native || graph_.node(id).is_call) {
        PrepareFixed(value);
        continue;
      }
      // The name goes to what a Cast makes.
      const Value& old = graph_.value(value);
      const ValueId made = builder_.Value(
          block, ir::Type::Tensor(ElementOf(native), old.type.shape),
          NameFor(old.name, native));
      graph_.mutable_node(id).results[i] = made;
      graph_.mutable_value(made).producer = id;
      Version(value, native) = made;
      Version(value, *named) = value;
      if (*named == Width::kHalf) Retype(value);
      after_[id].push_back(Cast(made, value, *named, block));
    }
  }

  std::string NameFor(absl::string_view base, Width width) {
    return absl::StrCat(base, "_", ir::Name(ElementOf(width)));
  }

  // The element type of a value of the model; what the file says of it is
  // written anew.
  void Retype(ValueId id) {
    Value& value = graph_.mutable_value(id);
    value.type.element = plan_.options.type;
    value.source_block = ir::kNoBlock;
    value.contents = nullptr;
  }

  NodeId Cast(ValueId from, ValueId to, Width width, BlockId block) {
    ++counts_.casts;
    return builder_.Node(block, "Cast", {from}, {to},
                         absl::StrCat(graph_.value(to).name, "/Cast"),
                         {{"to", static_cast<int64_t>(ElementOf(width))}});
  }

  // True if it was made by a node that is not needed any more.
  bool PrepareConstant(ValueId value, BlockId block) {
    const auto& wanted = wanted_[Index(value)];
    const std::optional<Width> named = named_[Index(value)];
    const bool half =
        wanted[static_cast<size_t>(Width::kHalf)] || named == Width::kHalf;
    const bool single =
        wanted[static_cast<size_t>(Width::kSingle)] || named == Width::kSingle;
    if (!half) {
      Version(value, Width::kSingle) = value;
      return false;
    }
    const ir::WeightId weight = HalfWeight(value);
    ++counts_.weights;
    if (single) {
      // Both are there: the one that is named so keeps the name.
      if (named == Width::kHalf) {
        const ir::WeightId old = SingleWeight(value);
        Version(value, Width::kSingle) =
            AddConstant(value, old, Width::kSingle, block);
        return MakeHalf(value, weight, block);
      }
      Version(value, Width::kSingle) = value;
      Version(value, Width::kHalf) =
          AddConstant(value, weight, Width::kHalf, block);
      counts_.saved_bytes -= graph_.weight(weight).size_bytes;
      return false;
    }
    counts_.saved_bytes += graph_.weight(weight).size_bytes;
    return MakeHalf(value, weight, block);
  }

  bool MakeHalf(ValueId id, ir::WeightId weight, BlockId block) {
    Version(id, Width::kHalf) = id;
    Retype(id);
    Value& value = graph_.mutable_value(id);
    value.weight = weight;
    if (value.kind == ir::ValueKind::kInitializer) return false;
    value.kind = ir::ValueKind::kInitializer;
    value.producer = ir::kNoNode;
    graph_.mutable_block(block).initializers.push_back(id);
    return true;
  }

  ValueId AddConstant(ValueId like, ir::WeightId weight, Width width,
                      BlockId block) {
    const Value& old = graph_.value(like);
    const ValueId id = builder_.Value(
        block, ir::Type::Tensor(ElementOf(width), old.type.shape),
        NameFor(old.name, width), ir::ValueKind::kInitializer);
    graph_.mutable_value(id).weight = weight;
    graph_.mutable_block(block).initializers.push_back(id);
    return id;
  }

  ir::WeightId SingleWeight(ValueId id) {
    const Value& value = graph_.value(id);
    if (value.weight != ir::kNoWeight) return value.weight;
    ir::Weight weight;
    weight.name = value.name;
    weight.element = ElementType::kFloat;
    weight.dims.assign(value.contents->dims.begin(),
                       value.contents->dims.end());
    std::string bytes;
    for (const ir::Element& element : value.contents->elements) {
      const auto number = static_cast<float>(*element.real);
      char raw[sizeof(number)];
      std::memcpy(raw, &number, sizeof(number));
      bytes.append(raw, sizeof(raw));
    }
    weight.size_bytes = static_cast<int64_t>(bytes.size());
    weight.bytes = graph_.OwnBytes(std::move(bytes));
    return graph_.AddWeight(std::move(weight));
  }

  // The same bytes, converted when they are written.
  ir::WeightId HalfWeight(ValueId id) {
    ir::Weight weight = graph_.weight(SingleWeight(id));
    weight.element = plan_.options.type;
    weight.size_bytes /= 2;
    weight.transform = {
        .from = ElementType::kFloat,
        .clamp = plan_.options.out_of_range == OutOfRange::kClamp};
    return graph_.AddWeight(std::move(weight));
  }

  void Rewire(NodeId id) {
    if (graph_.node(id).is_call) return RewireCall(id);
    const size_t num_operands = graph_.node(id).operands.size();
    bool reads_half = false;
    bool has_float = false;
    for (size_t i = 0; i < num_operands; ++i) {
      const ValueId operand = graph_.node(id).operands[i];
      if (operand == kNoValue || !is_float_[Index(operand)]) continue;
      const std::optional<Width>& wanted = reads_[Index(id)][i];
      const Width width = wanted.value_or(
          Version(operand, Width::kHalf) != kNoValue ? Width::kHalf
                                                     : Width::kSingle);
      if (wanted) {
        has_float = true;
        reads_half = reads_half || width == Width::kHalf;
      }
      graph_.mutable_node(id).operands[i] = Get(operand, width, id);
    }
    if (has_float) ++(reads_half ? counts_.half_nodes : counts_.single_nodes);
  }

  // A call and its body read what the caller has in float32.
  void RewireCall(NodeId call) {
    const auto single = [&](ValueId* use) {
      if (*use == kNoValue || Index(*use) >= is_float_.size() ||
          !is_float_[Index(*use)]) {
        return;
      }
      // Values of the body itself have no versions.
      if (Version(*use, Width::kHalf) == kNoValue &&
          Version(*use, Width::kSingle) == kNoValue) {
        return;
      }
      *use = Get(*use, Width::kSingle, call);
    };
    for (ValueId& operand : graph_.mutable_node(call).operands) {
      single(&operand);
    }
    for (BlockId block : BlocksWithin(graph_, call)) {
      for (NodeId id : graph_.block(block).nodes) {
        for (ValueId& operand : graph_.mutable_node(id).operands) {
          single(&operand);
        }
      }
      for (ValueId& result : graph_.mutable_block(block).results) {
        single(&result);
      }
    }
  }

  // The value in this width, by a Cast where it is not there yet.
  ValueId Get(ValueId value, Width width, NodeId reader) {
    const ValueId version = Version(value, width);
    if (version != kNoValue) return version;
    const ValueId from = Version(value, Other(width));
    assert(from != kNoValue && "a value has its native width");
    const Value& old = graph_.value(value);
    const BlockId block = old.block;
    const NodeId producer = graph_.value(from).producer;
    const ValueId to = builder_.Value(
        block, ir::Type::Tensor(ElementOf(width), old.type.shape),
        NameFor(old.name, width));
    const NodeId cast = Cast(from, to, width, block);
    // The small form is the one that waits.
    if (width == Width::kHalf && producer != ir::kNoNode) {
      after_[producer].push_back(cast);
    } else {
      before_[AncestorIn(block, reader)].push_back(cast);
    }
    Version(value, width) = to;
    return to;
  }

  // The node of `block` that is `id` or holds it.
  NodeId AncestorIn(BlockId block, NodeId id) const {
    while (graph_.node(id).block != block) {
      id = graph_.block(graph_.node(id).block).owner;
    }
    return id;
  }

  void Schedule() {
    for (BlockId id : blocks_) {
      if (const auto it = dead_.find(id); it != dead_.end()) {
        graph_.EraseNodes(id, it->second);
      }
      std::vector<NodeId> schedule;
      for (NodeId node : graph_.block(id).nodes) {
        Append(before_, node, &schedule);
        schedule.push_back(node);
        Append(after_, node, &schedule);
      }
      graph_.mutable_block(id).nodes = std::move(schedule);
    }
  }

  using Insertions = llvm::DenseMap<NodeId, std::vector<NodeId>>;
  static void Append(const Insertions& insertions, NodeId at,
                     std::vector<NodeId>* schedule) {
    const auto it = insertions.find(at);
    if (it == insertions.end()) return;
    schedule->insert(schedule->end(), it->second.begin(), it->second.end());
  }

  void RetypeAttribute(NodeId id) {
    if (!plan_.recast[Index(id)]) return;
    Node& node = graph_.mutable_node(id);
    for (ir::Attribute& attribute : node.attributes) {
      if (attribute.name == "to") {
        attribute.value = static_cast<int64_t>(plan_.options.type);
      }
    }
    node.ForgetSource();
  }

  // A Cast of the model to the type that its operand has by now.
  void RemoveIdleCasts() {
    llvm::DenseMap<ValueId, ValueId> replacements;
    for (BlockId id : blocks_) {
      std::vector<NodeId> idle;
      for (NodeId n : graph_.block(id).nodes) {
        const Node& node = graph_.node(n);
        if (node.op_type != "Cast" || !node.domain.empty() ||
            node.operands.size() != 1 || node.results.size() != 1 ||
            node.operands[0] == kNoValue || node.results[0] == kNoValue) {
          continue;
        }
        const ir::Type& from = graph_.value(node.operands[0]).type;
        const Value& to = graph_.value(node.results[0]);
        const bool is_result = Index(node.results[0]) < named_.size() &&
                               named_[Index(node.results[0])].has_value();
        if (!from.is_tensor() || from.element != plan_.options.type ||
            to.type.element != from.element || is_result || to.pinned ||
            IsResult(node.results[0], id)) {
          continue;
        }
        const auto before = replacements.find(node.operands[0]);
        replacements[node.results[0]] =
            before == replacements.end() ? node.operands[0] : before->second;
        idle.push_back(n);
      }
      counts_.removed += static_cast<int64_t>(idle.size());
      graph_.EraseNodes(id, idle);
    }
    if (!replacements.empty()) graph_.ReplaceUses(replacements);
  }

  bool IsResult(ValueId value, BlockId block) const {
    const auto& results = graph_.block(block).results;
    return std::find(results.begin(), results.end(), value) != results.end();
  }

  const HalfPlan& plan_;
  Graph& graph_;
  Builder builder_;
  HalfCounts counts_;
  std::vector<BlockId> blocks_;
  std::vector<NodeId> nodes_;
  // By ValueId of the graph as it was.
  std::vector<bool> is_float_;
  std::vector<std::array<ValueId, 2>> versions_;  // by Width
  std::vector<std::optional<Width>> named_;       // of results of blocks
  std::vector<std::array<bool, 2>> wanted_;
  // By NodeId and operand: the width that is read; nullopt: any.
  std::vector<std::vector<std::optional<Width>>> reads_;
  Insertions before_;
  Insertions after_;
  llvm::DenseMap<BlockId, std::vector<NodeId>> dead_;
};

}  // namespace

absl::StatusOr<HalfCounts> ConvertToHalf(const HalfPlan& plan, Graph* graph) {
  return Converter(plan, graph).Run();
}

}  // namespace onnx_memopt::rewrite
