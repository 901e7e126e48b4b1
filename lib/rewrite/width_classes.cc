#include "onnx_memopt/rewrite/width_classes.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/ir/dimension_flow.h"
#include "onnx_memopt/support/format.h"
#include "rewrite/reshape_groups.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Index;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

// Where an axis is fixed: what is fixed for good wins over an op.
struct Fixed {
  std::string by;
  bool by_op = false;
};

class Finder {
 public:
  Finder(const ir::Graph& graph, absl::Span<const ValueId> weights,
         absl::Span<const std::string> outputs)
      : graph_(graph),
        weights_(weights.begin(), weights.end()),
        outputs_(outputs.begin(), outputs.end()) {
    first_.reserve(graph.num_values());
    for (size_t i = 0; i < graph.num_values(); ++i) {
      first_.push_back(parent_.size());
      const ValueId id{static_cast<uint32_t>(i)};
      parent_.resize(parent_.size() + Rank(id));
    }
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    fixed_.resize(parent_.size());
  }

  std::vector<WidthClass> Run() {
    FixBoundary();
    for (NodeId id : graph_.block(ir::kMainBlock).nodes) {
      if (!IsReshape(id)) Visit(id);
    }
    // What else fixes a factor is known by now.
    for (NodeId id : graph_.block(ir::kMainBlock).nodes) {
      if (IsReshape(id)) VisitReshape(id);
    }
    return Collect();
  }

 private:
  size_t Rank(ValueId id) const {
    const ir::Type& type = graph_.value(id).type;
    return type.is_tensor() && type.shape ? type.shape->size() : 0;
  }
  // Above 1 and without a name, or nothing.
  std::optional<int64_t> Extent(ValueId id, size_t axis) const {
    if (axis >= Rank(id)) return std::nullopt;
    const std::optional<ir::Dim>& dim = (*graph_.value(id).type.shape)[axis];
    if (!dim || !dim->is_constant() || dim->constant() < 2) return std::nullopt;
    return dim->constant();
  }

  size_t Find(size_t axis) {
    while (parent_[axis] != axis) {
      parent_[axis] = parent_[parent_[axis]];
      axis = parent_[axis];
    }
    return axis;
  }
  size_t At(ValueId id, size_t axis) const { return first_[Index(id)] + axis; }

  void Fix(ValueId id, size_t axis, const std::string& by, bool by_op) {
    Fixed& fixed = fixed_[Find(At(id, axis))];
    if (fixed.by.empty() || (fixed.by_op && !by_op)) fixed = {by, by_op};
  }
  void FixAll(ValueId id, const std::string& by, bool by_op = false) {
    for (size_t axis = 0; axis < Rank(id); ++axis) Fix(id, axis, by, by_op);
  }
  bool IsFixed(ValueId id, size_t axis) {
    return !fixed_[Find(At(id, axis))].by.empty();
  }

  void Tie(ValueId a, size_t axis_a, ValueId b, size_t axis_b) {
    const size_t x = Find(At(a, axis_a));
    const size_t y = Find(At(b, axis_b));
    if (x == y) return;
    const auto [from, to] = std::minmax(x, y);
    parent_[to] = from;
    Fixed& fixed = fixed_[from];
    const Fixed& other = fixed_[to];
    if (fixed.by.empty() ||
        (fixed.by_op && !other.by.empty() && !other.by_op)) {
      fixed = other;
    }
  }

  void FixBoundary() {
    const ir::Block& main = graph_.block(ir::kMainBlock);
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      const ValueId id{static_cast<uint32_t>(i)};
      const ir::Value& value = graph_.value(id);
      const std::string name = absl::StrCat("\"", Printable(value.name), "\"");
      for (size_t axis = 0; axis < Rank(id); ++axis) {
        if (!Extent(id, axis)) Fix(id, axis, "its size is open", false);
      }
      if (value.kind == ir::ValueKind::kInput) {
        FixAll(id, absl::StrCat("input ", name));
      } else if (value.weight != ir::kNoWeight && !weights_.contains(id)) {
        FixAll(id, absl::StrCat("constant ", name));
      }
    }
    for (ValueId id : main.results) {
      const std::string& name = graph_.value(id).name;
      if (outputs_.contains(name)) continue;
      FixAll(id, absl::StrCat("output \"", Printable(name), "\""));
    }
  }

  bool IsReshape(NodeId id) const {
    return graph_.node(id).info->flow == ir::flow_rules::Reshape;
  }

  std::string ByNode(NodeId id) const {
    return absl::StrCat("node \"", Printable(graph_.DisplayName(id)), "\" (",
                        Printable(graph_.node(id).op_type), ")");
  }

  void Visit(NodeId id) {
    const Node& node = graph_.node(id);
    // Extents that are read when the model runs follow by themselves.
    if (node.domain.empty() && node.op_type == "Shape") return;
    if (node.is_call || !node.blocks.empty()) {
      std::vector<ValueId> uses;
      CollectUses(graph_, id, &uses);
      uses.insert(uses.end(), node.results.begin(), node.results.end());
      for (ValueId use : uses) {
        if (use != kNoValue) FixAll(use, ByNode(id), /*by_op=*/true);
      }
      return;
    }
    Covered covered;
    for (const ir::SplitWay& way : ir::SplitWays(graph_, id)) {
      TieWay(id, way, &covered);
    }
    TieOthers(id, covered);
  }

  // (value, axis) that a way of the node splits.
  using Covered = llvm::DenseSet<size_t>;

  void TieWay(NodeId id, const ir::SplitWay& way, Covered* covered) {
    const Node& node = graph_.node(id);
    std::vector<AxisRef> axes;
    std::optional<AxisRef> result;
    for (size_t i = 0; i < way.result_axes.size(); ++i) {
      if (way.result_axes[i] < 0 || node.results[i] == kNoValue) continue;
      axes.push_back({node.results[i], way.result_axes[i]});
      if (!result) result = axes.back();
    }
    for (size_t i = 0; i < way.operands.size(); ++i) {
      if (way.operands[i].axis < 0 || node.operands[i] == kNoValue) continue;
      axes.push_back({node.operands[i], way.operands[i].axis});
    }
    if (axes.empty()) return;
    for (const AxisRef& axis : axes) {
      covered->insert(At(axis.value, static_cast<size_t>(axis.axis)));
      Tie(axes[0].value, static_cast<size_t>(axes[0].axis), axis.value,
          static_cast<size_t>(axis.axis));
    }
    if (way.windowed) {
      Fix(axes[0].value, static_cast<size_t>(axes[0].axis),
          absl::StrCat("windows of ", ByNode(id)), /*by_op=*/false);
      return;
    }
    if (!result) return;
    for (const ir::ShapeEdit& edit : way.edits) {
      operands_.push_back({id, edit.operand, edit.element, *result});
    }
    for (const ir::AttributeEdit& edit : way.attributes) {
      attributes_.push_back({.node = id,
                             .name = std::string(edit.name),
                             .element = edit.element,
                             .num = edit.num,
                             .den = edit.den,
                             .axis = *result});
    }
  }

  // Axes that no way of the node splits.
  void TieOthers(NodeId id, const Covered& covered) {
    const Node& node = graph_.node(id);
    const ir::FlowRule flow = node.info->flow;
    if (flow == ir::flow_rules::Concat || flow == ir::flow_rules::Split) {
      TieJoined(id);
    } else if (flow == ir::flow_rules::Conv ||
               flow == ir::flow_rules::FusedConv) {
      if (ir::IntAttribute(node, "group", 1) == 1) TieOperands(id, 0, 1, 1, 1);
    } else if (flow == ir::flow_rules::Gemm) {
      const bool a = ir::IntAttribute(node, "transA", 0) != 0;
      const bool b = ir::IntAttribute(node, "transB", 0) != 0;
      TieOperands(id, 0, a ? 0 : 1, 1, b ? 1 : 0);
    }
    const bool mirrors = flow == ir::flow_rules::Softmax ||
                         flow == ir::flow_rules::LayerNormalization ||
                         flow == ir::flow_rules::SkipLayerNormalization;
    const auto tie = [&](ValueId value, size_t operand) {
      for (size_t axis = 0; value != kNoValue && axis < Rank(value); ++axis) {
        if (!Extent(value, axis) || covered.contains(At(value, axis)) ||
            tied_.contains(At(value, axis))) {
          continue;
        }
        if (mirrors && TieMirrored(id, value, axis)) continue;
        const bool is_index = flow == ir::flow_rules::Gather && operand == 0;
        Fix(value, axis,
            absl::StrCat(is_index ? "what is indexed by " : "", ByNode(id)),
            /*by_op=*/!is_index);
      }
    };
    for (size_t i = 0; i < node.operands.size(); ++i) tie(node.operands[i], i);
    for (ValueId result : node.results) tie(result, 1);
    tied_.clear();
  }

  void TieOperands(NodeId id, size_t a, size_t axis_a, size_t b,
                   size_t axis_b) {
    const auto& operands = graph_.node(id).operands;
    if (b >= operands.size() || operands[a] == kNoValue ||
        operands[b] == kNoValue) {
      return;
    }
    const auto x = Extent(operands[a], axis_a);
    if (!x || x != Extent(operands[b], axis_b)) return;
    Tie(operands[a], axis_a, operands[b], axis_b);
    tied_.insert(At(operands[a], axis_a));
    tied_.insert(At(operands[b], axis_b));
  }

  // Along the axis of a Concat or Split: all grow alike.
  void TieJoined(NodeId id) {
    const Node& node = graph_.node(id);
    const bool is_split = node.info->flow == ir::flow_rules::Split;
    std::vector<ValueId> values(
        node.operands.begin(),
        is_split ? node.operands.begin() + 1 : node.operands.end());
    values.insert(values.end(), node.results.begin(), node.results.end());
    const auto rank = static_cast<int64_t>(Rank(values[0]));
    int64_t axis = ir::IntAttribute(node, "axis", 0);
    if (axis < 0) axis += rank;
    const auto at = static_cast<size_t>(axis);
    for (ValueId value : values) {
      // A part of one element, or of unknown size, stays as it is.
      if (value == kNoValue || !Extent(value, at)) return;
    }
    for (ValueId value : values) {
      Tie(values[0], at, value, at);
      tied_.insert(At(value, at));
    }
    if (!is_split) return;
    for (size_t i = 0; i < node.results.size(); ++i) {
      const AxisRef part = {node.results[i], static_cast<int>(axis)};
      const int element = static_cast<int>(i);
      if (node.operands.size() > 1) {
        operands_.push_back({id, 1, element, part});
      } else if (ir::IntsAttribute(node, "split") != nullptr) {
        attributes_.push_back(
            {.node = id, .name = "split", .element = element, .axis = part});
      }
    }
  }

  // A norm: what stands at the same place, counted from the right.
  bool TieMirrored(NodeId id, ValueId value, size_t axis) {
    const ValueId result = graph_.node(id).results[0];
    const size_t from_right = Rank(value) - axis;
    if (from_right > Rank(result)) return false;
    const size_t at = Rank(result) - from_right;
    if (Extent(result, at) != Extent(value, axis)) return false;
    Tie(result, at, value, axis);
    return true;
  }

  void VisitReshape(NodeId id) {
    const Node& node = graph_.node(id);
    const ValueId from = node.operands[0];
    const ValueId to = node.results[0];
    if (!graph_.value(from).type.shape || !graph_.value(to).type.shape) {
      FixAll(from, ByNode(id), /*by_op=*/true);
      FixAll(to, ByNode(id), /*by_op=*/true);
      return;
    }
    std::vector<bool> done_from(Rank(from));
    std::vector<bool> done_to(Rank(to));
    for (const ReshapeGroup& group : GroupReshape(
             *graph_.value(from).type.shape, *graph_.value(to).type.shape)) {
      for (size_t axis : group.from) done_from[axis] = true;
      for (size_t axis : group.to) done_to[axis] = true;
      TieGroup(id, group);
    }
    for (size_t axis = 0; axis < Rank(from); ++axis) {
      if (!done_from[axis]) Fix(from, axis, ByNode(id), /*by_op=*/true);
    }
    for (size_t axis = 0; axis < Rank(to); ++axis) {
      if (!done_to[axis]) Fix(to, axis, ByNode(id), /*by_op=*/true);
    }
  }

  // One axis of a side and its factors on the other: of several on both sides
  // the outermost ones.
  void TieGroup(NodeId id, const ReshapeGroup& group) {
    const Node& node = graph_.node(id);
    const ValueId from = node.operands[0];
    const ValueId to = node.results[0];
    const bool splits = group.to.size() > 1 && group.from.size() == 1;
    const bool merges = group.from.size() > 1 && group.to.size() == 1;
    const ValueId side = merges ? from : to;
    const std::vector<size_t>& factors = merges ? group.from : group.to;
    size_t chosen = factors.front();
    if (splits || merges) {
      const auto free =
          std::find_if(factors.begin(), factors.end() - 1,
                       [&](size_t axis) { return !IsFixed(side, axis); });
      if (free != factors.end() - 1) chosen = *free;
    }
    const size_t from_axis = merges ? chosen : group.from.front();
    const size_t to_axis = merges ? group.to.front() : chosen;
    Tie(from, from_axis, to, to_axis);
    operands_.push_back(
        {id, 1, static_cast<int>(to_axis), {to, static_cast<int>(to_axis)}});
    const std::string by = absl::StrCat("what ", ByNode(id),
                                        " keeps of a width, as a head's size");
    for (size_t axis : group.from) {
      if (axis != from_axis) Fix(from, axis, by, /*by_op=*/false);
    }
    for (size_t axis : group.to) {
      if (axis != to_axis) Fix(to, axis, by, /*by_op=*/false);
    }
  }

  std::vector<WidthClass> Collect() {
    std::vector<WidthClass> classes;
    llvm::DenseMap<size_t, size_t> class_of;  // by root
    for (size_t i = 0; i < graph_.num_values(); ++i) {
      const ValueId id{static_cast<uint32_t>(i)};
      for (size_t axis = 0; axis < Rank(id); ++axis) {
        const std::optional<int64_t> extent = Extent(id, axis);
        if (!extent) continue;
        const size_t root = Find(At(id, axis));
        const auto [it, added] = class_of.try_emplace(root, classes.size());
        if (added) {
          classes.push_back(
              {.fixed_by = fixed_[root].by, .fixed_by_op = fixed_[root].by_op});
        }
        WidthClass& found = classes[it->second];
        found.axes.push_back({id, static_cast<int>(axis)});
        found.unit = std::gcd(found.unit, *extent);
        found.extent = std::max(found.extent, *extent);
        if (!weights_.contains(id)) continue;
        ++found.weights;
        found.weight_bytes += graph_.weight(graph_.value(id).weight).size_bytes;
      }
    }
    const auto of = [&](const AxisRef& axis) -> WidthClass* {
      const auto it =
          class_of.find(Find(At(axis.value, static_cast<size_t>(axis.axis))));
      return it == class_of.end() ? nullptr : &classes[it->second];
    };
    for (const ExtentOperand& operand : operands_) {
      if (WidthClass* found = of(operand.axis)) {
        found->operands.push_back(operand);
      }
    }
    for (const ExtentAttribute& attribute : attributes_) {
      WidthClass* found = of(attribute.axis);
      if (found == nullptr) continue;
      const auto extent = Extent(attribute.axis.value,
                                 static_cast<size_t>(attribute.axis.axis));
      found->unit =
          std::gcd(found->unit, *extent * attribute.num / attribute.den);
      found->attributes.push_back(attribute);
    }
    std::erase_if(classes, [](const WidthClass& c) { return c.weights == 0; });
    return classes;
  }

  const ir::Graph& graph_;
  const llvm::DenseSet<ValueId> weights_;
  const absl::flat_hash_set<std::string> outputs_;
  std::vector<size_t> first_;   // by value: its first axis
  std::vector<size_t> parent_;  // by axis, of the union-find
  std::vector<Fixed> fixed_;    // by root
  Covered tied_;                // of the node that is visited
  std::vector<ExtentOperand> operands_;
  std::vector<ExtentAttribute> attributes_;
};

}  // namespace

std::vector<WidthClass> FindWidthClasses(
    const ir::Graph& graph, absl::Span<const ValueId> weights,
    absl::Span<const std::string> outputs) {
  return Finder(graph, weights, outputs).Run();
}

}  // namespace onnx_memopt::rewrite
