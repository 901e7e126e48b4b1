#include "analysis/half_on_cpu.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"

namespace onnx_memopt::analysis {
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

struct Kernel {
  absl::string_view domain;
  absl::string_view name;
  int since = 1;
};

// Those that take float16 at any version from `since` on, by what the runtime
// itself lists (test/runtime/test_smaller.py compares them). Sorted.
constexpr Kernel kKernels[] = {
    {"", "Attention", 23},
    {"", "Cast"},
    {"", "Clip", 12},
    {"", "Compress"},
    {"", "Concat"},
    {"", "ConstantOfShape"},
    {"", "DequantizeLinear", 19},
    {"", "Expand"},
    {"", "Flatten"},
    {"", "Gather"},
    {"", "GatherElements"},
    {"", "GatherND"},
    {"", "Identity"},
    {"", "If"},
    {"", "IsInf", 20},
    {"", "IsNaN"},
    {"", "LayerNormalization"},
    {"", "Loop"},
    {"", "Max", 12},
    {"", "Min", 12},
    {"", "Mod"},
    {"", "Optional"},
    {"", "OptionalGetElement"},
    {"", "OptionalHasElement", 18},
    {"", "QuantizeLinear", 19},
    {"", "RMSNormalization", 23},
    {"", "RandomNormalLike"},
    {"", "RandomUniformLike"},
    {"", "Reshape"},
    {"", "ReverseSequence"},
    {"", "RotaryEmbedding", 23},
    {"", "Round"},
    {"", "Scan"},
    {"", "Scatter"},
    {"", "ScatterElements"},
    {"", "ScatterND"},
    {"", "SequenceAt"},
    {"", "SequenceConstruct"},
    {"", "Shape"},
    {"", "Shrink"},
    {"", "Sign"},
    {"", "SimplifiedLayerNormalization"},
    {"", "Slice"},
    {"", "Split"},
    {"", "SplitToSequence"},
    {"", "Squeeze"},
    {"", "TensorScatter"},
    {"", "Transpose"},
    {"", "Unsqueeze"},
    {"com.microsoft", "ExpandDims"},
    {"com.microsoft", "GatherBlockQuantized"},
    {"com.microsoft", "GatherND"},
    {"com.microsoft", "GroupQueryAttention"},
    {"com.microsoft", "MatMulNBits"},
    {"com.microsoft", "RotaryEmbedding"},
    {"com.microsoft", "SkipLayerNormalization"},
    {"com.microsoft", "SkipSimplifiedLayerNormalization"},
};

bool HasKernel(const Node& node) {
  const auto key = std::make_pair(absl::string_view(node.domain),
                                  absl::string_view(node.op_type));
  const Kernel* const found =
      std::lower_bound(std::begin(kKernels), std::end(kKernels), key,
                       [](const Kernel& kernel, const auto& k) {
                         return std::make_pair(kernel.domain, kernel.name) < k;
                       });
  return found != std::end(kKernels) && found->domain == key.first &&
         found->name == key.second && node.opset >= found->since;
}

bool IsOf(const Graph& graph, ValueId id, ElementType element) {
  return id != kNoValue && graph.value(id).type.is_tensor() &&
         graph.value(id).type.element == element;
}

bool IsCast(const Node& node) {
  return node.domain.empty() && node.op_type == "Cast" &&
         node.operands.size() == 1 && node.results.size() == 1;
}

class Widener {
 public:
  explicit Widener(const Graph& graph)
      : graph_(graph.Clone()), old_values_(graph.num_values()) {
    for (size_t i = 0; i < graph.num_values(); ++i) {
      values_.push_back(ValueId(static_cast<uint32_t>(i)));
    }
    for (size_t i = 0; i < graph.num_nodes(); ++i) {
      nodes_.push_back(NodeId(static_cast<uint32_t>(i)));
    }
    in_single_.resize(graph.num_nodes());
    wide_.assign(old_values_, kNoValue);
    is_made_wide_.resize(old_values_);
    readers_.resize(old_values_);
    is_result_.resize(old_values_);
  }

  HalfOnCpu Run() {
    blocks_ = BlocksOutsideCalls(graph_);
    InlineFunctions();
    FindReaders();
    for (BlockId block : blocks_) {
      for (NodeId id : graph_.block(block).nodes) {
        in_single_[Index(id)] = NeedsCasts(graph_.node(id));
      }
    }
    // Of several in a row, each looks at what those before it were made.
    for (BlockId block : blocks_) {
      for (NodeId id : graph_.block(block).nodes) {
        if (IsAlone(id)) in_single_[Index(id)] = true;
      }
    }
    // A node before what is in its blocks.
    for (BlockId block : blocks_) RewriteBlock(block);
    return {std::move(graph_), std::move(values_), std::move(nodes_)};
  }

 private:
  bool IsHalf(ValueId id) const {
    return IsOf(graph_, id, ElementType::kFloat16);
  }

  // From this opset on ONNX defines a Relu by other operators, and for what has
  // no kernel the runtime takes the definition: Max(x, 0), which has one.
  // Definitions of more than one operator are not followed.
  void InlineFunctions() {
    constexpr int kSince = 18;
    for (BlockId block : blocks_) {
      for (NodeId id : graph_.block(block).nodes) {
        Node& node = graph_.mutable_node(id);
        if (node.domain.empty() && node.op_type == "Relu" &&
            node.opset >= kSince && IsHalf(node.operands[0])) {
          node.op_type = "Max";
          node.info = &ir::FindOpInfo(node.domain, node.op_type);
        }
      }
    }
  }

  void FindReaders() {
    for (BlockId block : blocks_) {
      for (ValueId result : graph_.block(block).results) {
        is_result_[Index(result)] = true;
      }
      for (NodeId id : graph_.block(block).nodes) {
        for (ValueId operand : graph_.node(id).operands) {
          if (operand != kNoValue) readers_[Index(operand)].push_back(id);
        }
        if (!graph_.node(id).is_call) continue;
        std::vector<ValueId> captured;
        CollectUses(graph_, id, &captured);
        // Its body keeps on reading them.
        for (ValueId value : captured) is_result_[Index(value)] = true;
      }
    }
  }

  bool NeedsCasts(const Node& node) const {
    return !node.is_call && node.blocks.empty() && !HasKernel(node) &&
           std::any_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId v) { return IsHalf(v); });
  }

  // All float16 that it reads is made by nodes in float32, and all that it
  // makes is read by such.
  bool IsAlone(NodeId id) const {
    const Node& node = graph_.node(id);
    if (in_single_[Index(id)] || node.is_call || !node.blocks.empty() ||
        IsCast(node)) {
      return false;
    }
    bool reads = false;
    for (ValueId operand : node.operands) {
      if (!IsHalf(operand)) continue;
      const NodeId producer = graph_.value(operand).producer;
      if (producer == ir::kNoNode || !in_single_[Index(producer)]) return false;
      reads = true;
    }
    bool makes = false;
    for (ValueId result : node.results) {
      if (!IsHalf(result)) continue;
      if (is_result_[Index(result)]) return false;
      for (NodeId reader : readers_[Index(result)]) {
        if (!in_single_[Index(reader)]) return false;
        makes = true;
      }
    }
    return reads && makes;
  }

  ValueId AddValue(ValueId like, ElementType element, absl::string_view suffix,
                   NodeId producer) {
    const Value& old = graph_.value(like);
    Value value;
    value.name = absl::StrCat(old.name, suffix);
    value.type = ir::Type::Tensor(element, old.type.shape);
    value.block = old.block;
    value.producer = producer;
    values_.push_back(values_[Index(like)]);
    return graph_.AddValue(std::move(value));
  }

  // Writes into `to`, or into a new float32 value like `from`.
  NodeId AddCast(ValueId from, ValueId to, BlockId block, NodeId stands_for) {
    Node node;
    node.op_type = "Cast";
    node.opset = 13;
    node.block = block;
    node.operands = {from};
    const NodeId id = graph_.AddNode(std::move(node));
    nodes_.push_back(stands_for);
    if (to == kNoValue) {
      to = AddValue(from, ElementType::kFloat, "_float", id);
      graph_.mutable_value(to).block = block;
    }
    graph_.mutable_value(to).producer = id;
    Node& made = graph_.mutable_node(id);
    made.results = {to};
    made.attributes.push_back(
        {"to", static_cast<int64_t>(graph_.value(to).type.element)});
    return id;
  }

  // True if a reader or a block takes the value in 16 bits.
  bool IsReadInHalf(ValueId id) const {
    return is_result_[Index(id)] ||
           std::any_of(readers_[Index(id)].begin(), readers_[Index(id)].end(),
                       [&](NodeId reader) {
                         return !in_single_[Index(reader)] &&
                                !IsCastToFloat(reader);
                       });
  }
  bool IsCastToFloat(NodeId id) const {
    const Node& node = graph_.node(id);
    return IsCast(node) && IsOf(graph_, node.results[0], ElementType::kFloat);
  }

  void RewriteBlock(BlockId block) {
    std::vector<NodeId> schedule;
    llvm::DenseMap<ValueId, ValueId> local;  // made wide in this block
    for (NodeId id : graph_.block(block).nodes) {
      if (in_single_[Index(id)]) {
        WidenOperands(id, block, &local, &schedule);
        schedule.push_back(id);
        WidenResults(id, block, &schedule);
      } else if (!TakesOut(id)) {
        schedule.push_back(id);
      }
    }
    graph_.mutable_block(block).nodes = std::move(schedule);
  }

  void WidenOperands(NodeId id, BlockId block,
                     llvm::DenseMap<ValueId, ValueId>* local,
                     std::vector<NodeId>* schedule) {
    for (ValueId& operand : graph_.mutable_node(id).operands) {
      if (operand == kNoValue) continue;
      if (Index(operand) < old_values_ && wide_[Index(operand)] != kNoValue) {
        operand = wide_[Index(operand)];
        continue;
      }
      if (!IsHalf(operand)) continue;
      const auto it = local->find(operand);
      if (it != local->end()) {
        operand = it->second;
        continue;
      }
      const NodeId cast = AddCast(operand, kNoValue, block, id);
      schedule->push_back(cast);
      operand = local->try_emplace(operand, graph_.node(cast).results[0])
                    .first->second;
    }
  }

  void WidenResults(NodeId id, BlockId block, std::vector<NodeId>* schedule) {
    const size_t num_results = graph_.node(id).results.size();
    for (size_t i = 0; i < num_results; ++i) {
      const ValueId result = graph_.node(id).results[i];
      if (!IsHalf(result)) continue;
      const ValueId wide = AddValue(result, ElementType::kFloat, "_float", id);
      graph_.mutable_node(id).results[i] = wide;
      wide_[Index(result)] = wide;
      if (IsReadInHalf(result)) {
        schedule->push_back(AddCast(wide, result, block, id));
      }
    }
  }

  // A Cast between the two widths that the runtime takes out, or one of a value
  // that has an original in float32.
  bool TakesOut(NodeId id) {
    Node& node = graph_.mutable_node(id);
    if (!IsCast(node)) {
      ReadOriginals(&node);
      return false;
    }
    const ValueId from = node.operands[0];
    const ValueId to = node.results[0];
    const ValueId original = from != kNoValue && Index(from) < old_values_
                                 ? wide_[Index(from)]
                                 : kNoValue;
    if (original != kNoValue && (IsHalf(from) || is_made_wide_[Index(from)])) {
      node.operands[0] = original;
    }
    const ValueId source = node.operands[0];
    if (IsHalf(to) && IsOf(graph_, source, ElementType::kFloat)) {
      wide_[Index(to)] = source;
      return !IsReadInHalf(to);
    }
    if (IsOf(graph_, to, ElementType::kFloat) && source != from &&
        IsHalf(from) && !is_result_[Index(to)]) {
      wide_[Index(to)] = source;
      is_made_wide_[Index(to)] = true;
      return true;
    }
    return false;
  }

  // What was the result of a Cast that is gone.
  void ReadOriginals(Node* node) {
    for (ValueId& operand : node->operands) {
      if (operand != kNoValue && Index(operand) < old_values_ &&
          is_made_wide_[Index(operand)]) {
        operand = wide_[Index(operand)];
      }
    }
  }

  Graph graph_;
  const size_t old_values_;
  std::vector<ValueId> values_;
  std::vector<NodeId> nodes_;
  std::vector<BlockId> blocks_;
  // By NodeId of the graph as it was.
  std::vector<bool> in_single_;
  // By ValueId of the graph as it was: the same numbers in float32.
  std::vector<ValueId> wide_;
  std::vector<bool> is_made_wide_;  // a float32 value whose Cast is gone
  std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> is_result_;
};

}  // namespace

bool HasHalf(const Graph& graph) {
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const auto id = static_cast<ValueId>(i);
    if (IsOf(graph, id, ElementType::kFloat16)) return true;
  }
  return false;
}

HalfOnCpu RunsHalfAs(const Graph& graph) { return Widener(graph).Run(); }

}  // namespace onnx_memopt::analysis
