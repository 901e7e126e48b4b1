#include "grad/lower_control.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {
namespace {

using ir::BlockId;
using ir::kNoValue;
using ir::NodeId;
using ir::ValueId;
using rewrite::Attr;
using rewrite::Emitter;

constexpr int64_t kMaxTrips = 1024;
// Of one loop that is written out.
constexpr int64_t kMaxNodes = 20'000;

std::optional<int64_t> Number(const ir::Graph& graph, ValueId value) {
  if (value == kNoValue) return std::nullopt;
  return ir::OnlyInteger(graph.value(value).contents.get());
}

bool IsOp(const ir::Node& node, absl::string_view op) {
  return node.op_type == op && node.domain.empty() && !node.is_call;
}

class Lowering {
 public:
  explicit Lowering(rewrite::Builder* builder)
      : builder_(*builder), graph_(builder->graph()) {
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      ++names_[graph_.value(ValueId{static_cast<uint32_t>(i)}).name];
    }
  }

  // Inner blocks first. Recursive: the importer bounds the depth.
  void LowerIn(BlockId block) {
    std::vector<NodeId> schedule;
    const std::vector<NodeId> nodes = graph_.block(block).nodes;
    std::vector<NodeId> dead;
    for (NodeId id : nodes) {
      if (graph_.node(id).blocks.empty() || graph_.node(id).is_call) {
        schedule.push_back(id);
        continue;
      }
      const llvm::SmallVector<BlockId, 1> inner = graph_.node(id).blocks;
      for (BlockId body : inner) LowerIn(body);
      if (Lower(id, &schedule)) {
        dead.push_back(id);
      } else {
        schedule.push_back(id);
      }
    }
    if (dead.empty()) return;
    for (NodeId id : dead) schedule.push_back(id);
    graph_.mutable_block(block).nodes = std::move(schedule);
    graph_.EraseNodes(block, dead);
  }

 private:
  // True if `id` is replaced by nodes at the end of `schedule`.
  bool Lower(NodeId id, std::vector<NodeId>* schedule) {
    const ir::Node& node = graph_.node(id);
    if (IsOp(node, "If")) return TakeBranch(id, schedule);
    if (IsOp(node, "Loop")) return UnrollLoop(id, schedule);
    return IsOp(node, "Scan") && UnrollScan(id, schedule);
  }

  BlockId Body(const ir::Node& node, absl::string_view attribute) const {
    for (BlockId block : node.blocks) {
      if (graph_.block(block).attribute_name == attribute) return block;
    }
    return ir::kNoBlock;
  }

  // The nodes of the branch become those of the block around it.
  bool TakeBranch(NodeId id, std::vector<NodeId>* schedule) {
    const std::optional<int64_t> condition =
        Number(graph_, graph_.node(id).operands[0]);
    if (!condition) return false;
    const BlockId outer = graph_.node(id).block;
    const BlockId branch =
        Body(graph_.node(id), *condition != 0 ? "then_branch" : "else_branch");
    if (branch == ir::kNoBlock) return false;
    MoveWeights(branch, outer);
    const std::vector<NodeId> nodes = graph_.block(branch).nodes;
    graph_.mutable_block(branch).nodes.clear();
    for (NodeId inner : nodes) {
      ir::Node& node = graph_.mutable_node(inner);
      node.block = outer;
      node.ForgetSource();
      for (ValueId result : node.results) {
        if (result != kNoValue) MoveValue(result, outer);
      }
      schedule->push_back(inner);
    }
    Replace(id, graph_.block(branch).results);
    return true;
  }

  bool UnrollLoop(NodeId id, std::vector<NodeId>* schedule) {
    const ir::Node node = graph_.node(id);
    const BlockId body = Body(node, "body");
    const std::optional<int64_t> trips = Number(graph_, node.operands[0]);
    if (body == ir::kNoBlock || !trips || !CanCopy(body, *trips)) return false;
    const ir::Block& block = graph_.block(body);
    const size_t carried = node.operands.size() - 2;
    if (block.params.size() != carried + 2 ||
        block.results.size() < carried + 1) {
      return false;
    }
    // It must not end before: the condition is true, or handed through.
    if (node.operands[1] != kNoValue && Number(graph_, node.operands[1]) != 1) {
      return false;
    }
    if (!StaysTrue(block)) return false;
    Emitter e(&builder_, node.block);
    e.set_prefix(graph_.DisplayName(id));
    MoveWeights(body, node.block);
    const ValueId yes = builder_.Tensor(node.block, "memopt/true",
                                        ir::ElementType::kBool, {}, {'\1'});
    std::vector<ValueId> state(node.operands.begin() + 2, node.operands.end());
    std::vector<std::vector<ValueId>> stacked(block.results.size() - 1 -
                                              carried);
    for (int64_t trip = 0; trip < *trips; ++trip) {
      std::vector<ValueId> given = {e.Int(trip), yes};
      given.insert(given.end(), state.begin(), state.end());
      const std::vector<ValueId> made = Copy(body, given, &e);
      state.assign(made.begin() + 1,
                   made.begin() + 1 + static_cast<std::ptrdiff_t>(carried));
      for (size_t i = 0; i < stacked.size(); ++i) {
        stacked[i].push_back(e.Unsqueeze(made[1 + carried + i], {0}));
      }
    }
    for (const std::vector<ValueId>& parts : stacked) {
      state.push_back(e.Concat(parts, 0));
    }
    Finish(id, state, e, schedule);
    return true;
  }

  bool UnrollScan(NodeId id, std::vector<NodeId>* schedule) {
    const ir::Node node = graph_.node(id);
    const BlockId body = Body(node, "body");
    const int64_t inputs = ir::IntAttribute(node, "num_scan_inputs", 0);
    const auto operands = static_cast<int64_t>(node.operands.size());
    if (body == ir::kNoBlock || inputs < 1 || inputs > operands) return false;
    const auto carried = static_cast<size_t>(operands - inputs);
    const ir::Block& block = graph_.block(body);
    if (block.params.size() != node.operands.size() ||
        block.results.size() < carried) {
      return false;
    }
    const size_t outputs = block.results.size() - carried;
    std::optional<int64_t> trips;
    std::vector<int64_t> axes;
    for (size_t i = carried; i < node.operands.size(); ++i) {
      const ir::Type& type = graph_.value(node.operands[i]).type;
      if (!type.is_tensor() || !type.shape || type.shape->empty()) return false;
      const std::optional<int64_t> axis =
          AxisOf(node, "scan_input_axes", i - carried, type.shape->size());
      if (!axis) return false;
      const std::optional<ir::Dim>& extent =
          (*type.shape)[static_cast<size_t>(*axis)];
      if (!extent || !extent->is_constant()) return false;
      if (trips && *trips != extent->constant()) return false;
      trips = extent->constant();
      axes.push_back(*axis);
    }
    if (!CanCopy(body, *trips)) return false;
    std::vector<int64_t> output_axes;
    for (size_t i = 0; i < outputs; ++i) {
      const ir::Type& type = graph_.value(block.results[carried + i]).type;
      if (!type.is_tensor() || !type.shape) return false;
      const std::optional<int64_t> axis =
          AxisOf(node, "scan_output_axes", i, type.shape->size() + 1);
      if (!axis) return false;
      output_axes.push_back(*axis);
    }
    Emitter e(&builder_, node.block);
    e.set_prefix(graph_.DisplayName(id));
    MoveWeights(body, node.block);
    std::vector<std::vector<ValueId>> parts;
    for (size_t i = carried; i < node.operands.size(); ++i) {
      parts.push_back(Parts(node.operands[i], axes[i - carried], *trips, e));
      if (IsReversed(node, "scan_input_directions", i - carried)) {
        std::reverse(parts.back().begin(), parts.back().end());
      }
    }
    std::vector<ValueId> state(
        node.operands.begin(),
        node.operands.begin() + static_cast<std::ptrdiff_t>(carried));
    std::vector<std::vector<ValueId>> stacked(outputs);
    for (size_t trip = 0; trip < static_cast<size_t>(*trips); ++trip) {
      std::vector<ValueId> given = state;
      for (const std::vector<ValueId>& of : parts) given.push_back(of[trip]);
      const std::vector<ValueId> made = Copy(body, given, &e);
      state.assign(made.begin(),
                   made.begin() + static_cast<std::ptrdiff_t>(carried));
      for (size_t i = 0; i < outputs; ++i) {
        stacked[i].push_back(e.Unsqueeze(made[carried + i], {output_axes[i]}));
      }
    }
    for (size_t i = 0; i < outputs; ++i) {
      if (IsReversed(node, "scan_output_directions", i)) {
        std::reverse(stacked[i].begin(), stacked[i].end());
      }
      state.push_back(e.Concat(stacked[i], output_axes[i]));
    }
    Finish(id, state, e, schedule);
    return true;
  }

  // The items along an axis, without it.
  static std::vector<ValueId> Parts(ValueId value, int64_t axis, int64_t count,
                                    Emitter& e) {
    const auto n = static_cast<size_t>(count);
    std::vector<ValueId> parts =
        e.Ops("Split", {value, e.Ints(std::vector<int64_t>(n, 1))}, n,
              {Attr("axis", axis)});
    for (ValueId& part : parts) part = e.Squeeze(part, {axis});
    return parts;
  }

  static std::optional<int64_t> AxisOf(const ir::Node& node,
                                       absl::string_view attribute, size_t i,
                                       size_t rank) {
    const std::vector<int64_t>* axes = ir::IntsAttribute(node, attribute);
    int64_t axis = axes != nullptr && i < axes->size() ? (*axes)[i] : 0;
    if (axis < 0) axis += static_cast<int64_t>(rank);
    if (axis < 0 || axis >= static_cast<int64_t>(rank)) return std::nullopt;
    return axis;
  }

  static bool IsReversed(const ir::Node& node, absl::string_view attribute,
                         size_t i) {
    const std::vector<int64_t>* list = ir::IntsAttribute(node, attribute);
    return list != nullptr && i < list->size() && (*list)[i] != 0;
  }

  bool StaysTrue(const ir::Block& body) const {
    ValueId condition = body.results[0];
    while (condition != body.params[1]) {
      if (Number(graph_, condition) == 1) return true;
      const ir::Value& value = graph_.value(condition);
      if (value.kind != ir::ValueKind::kResult ||
          !IsOp(graph_.node(value.producer), "Identity")) {
        return false;
      }
      condition = graph_.node(value.producer).operands[0];
    }
    return true;
  }

  // What stands in bodies and branches of its own is not copied.
  bool CanCopy(BlockId body, int64_t trips) const {
    const std::vector<NodeId>& nodes = graph_.block(body).nodes;
    if (trips < 1 || trips > kMaxTrips ||
        static_cast<int64_t>(nodes.size()) * trips > kMaxNodes) {
      return false;
    }
    return std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) {
      const ir::Node& node = graph_.node(id);
      return node.blocks.empty() && !node.is_call &&
             std::none_of(
                 node.attributes.begin(), node.attributes.end(),
                 [](const ir::Attribute& a) {
                   return std::holds_alternative<ir::OpaqueAttribute>(a.value);
                 });
    });
  }

  // One trip; returns what stands for the body's results.
  std::vector<ValueId> Copy(BlockId body, const std::vector<ValueId>& given,
                            Emitter* e) {
    llvm::DenseMap<ValueId, ValueId> now;
    const std::vector<ValueId> params = graph_.block(body).params;
    for (size_t i = 0; i < params.size(); ++i) now[params[i]] = given[i];
    const auto at = [&](ValueId value) {
      const auto it = now.find(value);
      return it == now.end() ? value : it->second;
    };
    const std::vector<NodeId> nodes = graph_.block(body).nodes;
    for (NodeId id : nodes) {
      const ir::Node node = graph_.node(id);
      std::vector<ValueId> operands;
      operands.reserve(node.operands.size());
      for (ValueId operand : node.operands) operands.push_back(at(operand));
      // Inferred anew: what is known of contents differs from trip to trip.
      const std::vector<ValueId> made =
          e->Ops(node.op_type, operands, node.results.size(), node.attributes);
      const NodeId copy = e->nodes().back();
      graph_.mutable_node(copy).domain = node.domain;
      graph_.mutable_node(copy).opset = node.opset;
      graph_.mutable_node(copy).info = node.info;
      for (size_t i = 0; i < made.size(); ++i) {
        if (node.results[i] == kNoValue) {
          graph_.mutable_node(copy).results[i] = kNoValue;
          continue;
        }
        ir::Type known = graph_.value(node.results[i]).type;
        ir::Type& type = graph_.mutable_value(made[i]).type;
        if (!type.is_tensor() || !type.shape || type.element != known.element) {
          type = std::move(known);
        }
        now[node.results[i]] = made[i];
      }
    }
    std::vector<ValueId> results;
    for (ValueId result : graph_.block(body).results) {
      results.push_back(at(result));
    }
    return results;
  }

  void Finish(NodeId id, const std::vector<ValueId>& made, const Emitter& e,
              std::vector<NodeId>* schedule) {
    schedule->insert(schedule->end(), e.nodes().begin(), e.nodes().end());
    Replace(id, made);
  }

  void MoveValue(ValueId id, BlockId to) {
    ir::Value& value = graph_.mutable_value(id);
    value.block = to;
    value.source_block = ir::kNoBlock;
    // The other branch may have used it, too.
    if (names_[value.name] > 1) value.name = builder_.UniqueName(value.name);
  }

  void MoveWeights(BlockId from, BlockId to) {
    const std::vector<ValueId> weights = graph_.block(from).initializers;
    graph_.mutable_block(from).initializers.clear();
    for (ValueId id : weights) {
      MoveValue(id, to);
      graph_.mutable_block(to).initializers.push_back(id);
    }
  }

  // Readers of the node's results read `made`. Outputs keep their names.
  void Replace(NodeId id, const std::vector<ValueId>& made) {
    const ir::Node& node = graph_.node(id);
    const std::vector<ValueId>& outputs = graph_.block(ir::kMainBlock).results;
    llvm::DenseMap<ValueId, ValueId> replaced;
    for (size_t i = 0; i < node.results.size() && i < made.size(); ++i) {
      const ValueId result = node.results[i];
      if (result == kNoValue) continue;
      replaced[result] = made[i];
      const ir::Value& value = graph_.value(made[i]);
      if (value.kind != ir::ValueKind::kResult ||
          std::find(outputs.begin(), outputs.end(), result) == outputs.end() ||
          std::find(outputs.begin(), outputs.end(), made[i]) != outputs.end()) {
        continue;
      }
      std::string name = graph_.value(result).name;
      graph_.mutable_value(result).name = builder_.UniqueName(name);
      graph_.mutable_value(made[i]).name = std::move(name);
    }
    graph_.ReplaceUses(replaced);
  }

  rewrite::Builder& builder_;
  ir::Graph& graph_;
  std::map<std::string, int> names_;  // how many values had each at first
};

}  // namespace

void LowerControl(rewrite::Builder& builder) {
  const ir::Graph& graph = builder.graph();
  const std::vector<NodeId>& nodes = graph.block(ir::kMainBlock).nodes;
  // Lowering counts all names, and most models have nothing to lower.
  const bool any = std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    return !graph.node(id).blocks.empty();
  });
  if (any) Lowering(&builder).LowerIn(ir::kMainBlock);
}

}  // namespace onnx_memopt::grad
