#include "rewrite/image_norm.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/ir/flow_rules.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Combine;
using ir::Dim;
using ir::ElementType;
using ir::kMainBlock;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::Shape;
using ir::ValueId;

constexpr size_t kImageRank = 4;
constexpr float kDefaultEpsilon = 1e-5F;
// Since this version GroupNormalization scales channels, not groups.
constexpr int kScalesChannels = 21;

bool IsReal(const ir::Type& type) {
  // Sums of 16-bit rows would be rounded once more.
  return type.element == ElementType::kFloat ||
         type.element == ElementType::kDouble;
}

}  // namespace

ReductionFinder::ReductionFinder(const ir::Graph& graph, int64_t min_bytes)
    : graph_(graph),
      bindings_(analysis::AssumedBindings(graph)),
      min_bytes_(min_bytes) {
  const ir::Block& main = graph_.block(kMainBlock);
  returned_.insert(main.results.begin(), main.results.end());
  std::vector<ValueId> uses;
  for (NodeId id : main.nodes) {
    uses.clear();
    ir::CollectUses(graph_, id, &uses);
    for (ValueId value : uses) readers_[value].push_back(id);
  }
}

std::optional<ImageNorm> ReductionFinder::NormAt(NodeId id) const {
  const Node& node = graph_.node(id);
  const bool by_instance =
      node.info->flow == ir::flow_rules::InstanceNormalization;
  const bool by_group = node.info->flow == ir::flow_rules::GroupNormalization;
  if ((!by_instance && !by_group) || node.operands.size() != 3) {
    return std::nullopt;
  }
  ImageNorm norm{.x = node.operands[0],
                 .y = node.results[0],
                 .epsilon = FloatAttribute(node, "epsilon", kDefaultEpsilon),
                 .scale = node.operands[1],
                 .shift = node.operands[2]};
  const Shape* shape = ShapeOf(norm.x);
  if (shape == nullptr || shape->size() <= kChannelAxis ||
      !(*shape)[kChannelAxis].has_value() ||
      !(*shape)[kChannelAxis]->is_constant() || norm.scale == kNoValue ||
      norm.shift == kNoValue) {
    return std::nullopt;
  }
  norm.channels = (*shape)[kChannelAxis]->constant();
  norm.groups = by_group ? IntAttribute(node, "num_groups", 0) : norm.channels;
  norm.scales_channels = by_group && node.opset >= kScalesChannels;
  norm.nodes = {id};
  if (by_instance) LookThroughReshapes(&norm);
  if (!Fits(norm)) return std::nullopt;
  TakeScalesAndShifts(&norm);
  TakeUnused(&norm);
  return norm;
}

std::optional<ImageReduction> ReductionFinder::ReductionAt(NodeId id) const {
  const Node& node = graph_.node(id);
  const bool pools = node.info->flow == ir::flow_rules::GlobalPool;
  if (!pools && node.info->flow != ir::flow_rules::Reduce) {
    return std::nullopt;
  }
  // Those that are their own second phase.
  const absl::string_view op = node.op_type;
  if (!pools && op != "ReduceSum" && op != "ReduceMean" && op != "ReduceMax") {
    return std::nullopt;
  }
  ImageReduction reduction{.x = node.operands[0], .y = node.results[0]};
  const Shape* shape = ShapeOf(reduction.x);
  const Shape* result = ShapeOf(reduction.y);
  if (shape == nullptr || result == nullptr || !IsLarge(reduction.x)) {
    return std::nullopt;
  }
  std::vector<bool> reduced(shape->size(), false);
  for (const ir::SplitWay& way : SplitWays(graph_, id)) {
    if (way.combine == Combine::kNone) continue;
    reduction.combine = way.combine;
    reduced[static_cast<size_t>(way.operands[0].axis)] = true;
  }
  // Axes of one element are no ways, but may be reduced. Where their rank stays
  // that makes no difference, and else it shows.
  reduction.keep_dims = pools || IntAttribute(node, "keepdims", 1) != 0;
  const auto count =
      static_cast<size_t>(std::count(reduced.begin(), reduced.end(), true));
  if (count < 2 ||
      (!reduction.keep_dims && result->size() != shape->size() - count)) {
    return std::nullopt;
  }
  // What is left for the second phase: rows of an image, else the first axis.
  const bool has_rows = shape->size() >= kImageRank && reduced[kRowAxis];
  const auto first = std::find(reduced.begin(), reduced.end(), true);
  const size_t last =
      has_rows ? kRowAxis : static_cast<size_t>(first - reduced.begin());
  for (size_t axis = 0; axis < reduced.size(); ++axis) {
    if (!reduced[axis]) continue;
    reduction.all.push_back(static_cast<int64_t>(axis));
    if (axis != last) reduction.first.push_back(static_cast<int64_t>(axis));
  }
  if (!IsReal(graph_.value(reduction.x).type)) return std::nullopt;
  return reduction;
}

const Shape* ReductionFinder::ShapeOf(ValueId value) const {
  const ir::Type& type = graph_.value(value).type;
  if (!type.is_tensor() || !type.shape.has_value()) return nullptr;
  return std::all_of(type.shape->begin(), type.shape->end(),
                     [](const auto& dim) { return dim.has_value(); })
             ? &*type.shape
             : nullptr;
}

int64_t ReductionFinder::BytesOf(ValueId value) const {
  const std::optional<Dim> bytes = SizeBytes(graph_.value(value).type);
  return bytes ? bytes->Evaluate(bindings_).value_or(0) : 0;
}

// The one node that reads it; kNoNode if it is read otherwise, too.
NodeId ReductionFinder::OnlyReader(ValueId value) const {
  const auto it = readers_.find(value);
  if (it == readers_.end() || it->second.size() != 1 ||
      returned_.contains(value) || graph_.value(value).pinned) {
    return ir::kNoNode;
  }
  const NodeId reader = it->second.front();
  const auto& operands = graph_.node(reader).operands;
  return std::count(operands.begin(), operands.end(), value) == 1 ? reader
                                                                  : ir::kNoNode;
}

// Group norm as it is exported: x [items, channels, rows, columns] becomes
// [items, groups, elements], is normalized, and becomes what it was.
void ReductionFinder::LookThroughReshapes(ImageNorm* norm) const {
  const NodeId before = graph_.value(norm->x).producer;
  const NodeId after = OnlyReader(norm->y);
  if (before == ir::kNoNode || after == ir::kNoNode ||
      graph_.node(before).op_type != "Reshape" ||
      graph_.node(after).op_type != "Reshape" ||
      graph_.node(after).operands[0] != norm->y) {
    return;
  }
  const ValueId x = graph_.node(before).operands[0];
  const ValueId y = graph_.node(after).results[0];
  const Shape* grouped = ShapeOf(norm->x);
  const Shape* outer = ShapeOf(x);
  const Shape* result = ShapeOf(y);
  if (outer == nullptr || result == nullptr || *outer != *result ||
      outer->size() < kImageRank || *(*outer)[0] != *(*grouped)[0] ||
      !(*outer)[kChannelAxis]->is_constant()) {
    return;
  }
  const bool only_here = OnlyReader(norm->x) == norm->nodes.front();
  if (only_here && graph_.node(before).block == kMainBlock) {
    norm->nodes.insert(norm->nodes.begin(), before);
  }
  norm->nodes.push_back(after);
  norm->x = x;
  norm->y = y;
  norm->channels = (*outer)[kChannelAxis]->constant();
}

bool ReductionFinder::Fits(const ImageNorm& norm) const {
  const Shape* shape = ShapeOf(norm.x);
  if (shape == nullptr || shape->size() < kImageRank || !IsLarge(norm.x) ||
      !IsReal(graph_.value(norm.x).type) || norm.groups < 1 ||
      norm.channels % norm.groups != 0) {
    return false;
  }
  for (ValueId parameter : {norm.scale, norm.shift}) {
    const Shape* own = ShapeOf(parameter);
    const int64_t size = norm.scales_channels ? norm.channels : norm.groups;
    if (own == nullptr || own->size() != 1 || *(*own)[0] != Dim(size)) {
      return false;
    }
  }
  return *(*shape)[kRowAxis] != Dim(1);
}

// True if it has one element for each channel, or one for all.
bool ReductionFinder::IsOfChannels(ValueId value, int64_t channels,
                                   size_t rank) const {
  const Shape* shape = ShapeOf(value);
  if (shape == nullptr || shape->size() > rank ||
      graph_.value(value).weight == ir::kNoWeight) {
    return false;
  }
  for (size_t i = 0; i < shape->size(); ++i) {
    const size_t axis = rank - shape->size() + i;
    const Dim& dim = *(*shape)[i];
    if (dim != Dim(1) && (axis != kChannelAxis || dim != Dim(channels))) {
      return false;
    }
  }
  return true;
}

void ReductionFinder::TakeScalesAndShifts(ImageNorm* norm) const {
  const size_t rank = ShapeOf(norm->x)->size();
  while (true) {
    const NodeId next = OnlyReader(norm->y);
    if (next == ir::kNoNode) return;
    const Node& node = graph_.node(next);
    const bool scales = node.op_type == "Mul";
    if ((!scales && node.op_type != "Add") || !node.domain.empty() ||
        node.operands.size() != 2) {
      return;
    }
    const ValueId other =
        node.operands[0] == norm->y ? node.operands[1] : node.operands[0];
    if (!IsOfChannels(other, norm->channels, rank)) return;
    norm->scales_and_shifts.emplace_back(scales, other);
    norm->nodes.push_back(next);
    norm->y = node.results[0];
  }
}

// What only the nodes of the norm read, such as the shape of x.
void ReductionFinder::TakeUnused(ImageNorm* norm) const {
  llvm::DenseSet<ValueId> kept = {norm->x, norm->scale, norm->shift};
  for (const auto& [scales, operand] : norm->scales_and_shifts) {
    kept.insert(operand);
  }
  llvm::DenseSet<NodeId> gone(norm->nodes.begin(), norm->nodes.end());
  const auto is_unused = [&](ValueId value) {
    if (value == kNoValue) return true;
    const auto it = readers_.find(value);
    return !kept.contains(value) && !returned_.contains(value) &&
           !graph_.value(value).pinned && it != readers_.end() &&
           std::all_of(it->second.begin(), it->second.end(),
                       [&](NodeId reader) { return gone.contains(reader); });
  };
  std::vector<NodeId> pending = norm->nodes;
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    for (ValueId operand : graph_.node(id).operands) {
      if (operand == kNoValue) continue;
      const NodeId maker = graph_.value(operand).producer;
      if (maker == ir::kNoNode || gone.contains(maker) ||
          graph_.node(maker).block != kMainBlock ||
          graph_.node(maker).is_call || !graph_.node(maker).blocks.empty() ||
          graph_.node(maker).info->random) {
        continue;
      }
      const auto& results = graph_.node(maker).results;
      if (std::all_of(results.begin(), results.end(), is_unused)) {
        gone.insert(maker);
        pending.push_back(maker);
      }
    }
  }
  norm->nodes.clear();
  for (NodeId id : graph_.block(kMainBlock).nodes) {
    if (gone.contains(id)) norm->nodes.push_back(id);
  }
}

}  // namespace onnx_memopt::rewrite
