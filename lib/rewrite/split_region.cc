#include "onnx_memopt/rewrite/split_region.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/lay_out_filters.h"
#include "onnx_memopt/rewrite/outline.h"
#include "onnx_memopt/rewrite/region_windows.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"
#include "rewrite/boundary_nodes.h"
#include "rewrite/part_shape.h"
#include "rewrite/split_boundary.h"
#include "rewrite/window_boundary.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::BlockId;
using ir::Dim;
using ir::Graph;
using ir::kNoValue;
using ir::NodeId;
using ir::SplitWay;
using ir::Type;
using ir::ValueId;

// Shapes that parts of an image may have, so that no two loops share them.
constexpr int kShapes = 8;

class Splitter {
 public:
  Splitter(Graph* graph, const SplitPlan& plan)
      : graph_(*graph), plan_(plan), builder_(graph) {}

  absl::StatusOr<NodeId> Run() {
    RETURN_IF_ERROR(CheckCanBuild(graph_));
    RETURN_IF_ERROR(CheckNodes());
    RETURN_IF_ERROR(PlaceOthers());
    if (plan_.part.has_value()) {
      ASSIGN_OR_RETURN(windows_, RegionWindows::Find(graph_, plan_));
      RETURN_IF_ERROR(windows_->SetPart(*plan_.part));
    } else if (NeedsWindows(plan_)) {
      return absl::FailedPreconditionError("parts have to overlap");
    }

    scan_ = builder_.Node(plan_.block, "Scan", {}, {}, "split/Scan");
    body_ = builder_.Subgraph(scan_, "body", "split");
    BoundaryNodes nodes(&builder_, plan_.block, body_);
    Boundary boundary;
    if (windows_.has_value()) {
      boundary.ranges.emplace(&nodes, &*windows_, LoopsBefore() % kShapes);
    } else {
      boundary.equal.emplace(&nodes, plan_.parts);
    }
    RETURN_IF_ERROR(MakeParts());
    for (const SplitNode& split : plan_.nodes) {
      RETURN_IF_ERROR(EditNode(split, boundary));
      RETURN_IF_ERROR(EditShapes(split, nodes));
      order_.push_back(split.node);
    }
    std::vector<NodeId> moving;
    moving.reserve(plan_.nodes.size());
    for (const SplitNode& split : plan_.nodes) moving.push_back(split.node);
    MoveIntoSubgraph(graph_, moving, body_);
    graph_.mutable_block(body_).nodes = order_;
    for (ValueId whole : outputs_) {
      const ValueId inner = inner_[whole];
      const int axis = axis_[whole];
      RETURN_IF_ERROR(
          boundary.equal.has_value()
              ? boundary.equal->Output(inner, whole, axis)
              : boundary.ranges->Output(inner, whole, axis, MakerLevel(inner)));
    }
    RETURN_IF_ERROR(boundary.equal.has_value()
                        ? boundary.equal->EnsureInput()
                        : boundary.ranges->EnsureInput());
    Assemble(nodes);
    LayOutFilters(builder_, body_);
    return scan_;
  }

 private:
  // One of the two is used.
  struct Boundary {
    std::optional<SplitBoundary> equal;
    std::optional<WindowBoundary> ranges;
  };

  // Scans that the block has already; this one is in no schedule yet.
  int LoopsBefore() const {
    const auto& nodes = graph_.block(plan_.block).nodes;
    return static_cast<int>(std::count_if(
        nodes.begin(), nodes.end(),
        [&](NodeId id) { return graph_.node(id).op_type == "Scan"; }));
  }

  int MakerLevel(ValueId inner) const {
    return windows_->level(graph_.value(inner).producer);
  }

  absl::Status CheckNodes() {
    for (const SplitNode& split : plan_.nodes) {
      const ir::Node& node = graph_.node(split.node);
      if (node.block != plan_.block || node.is_call || !node.blocks.empty() ||
          !CanSplit(split.way)) {
        return absl::FailedPreconditionError(
            absl::StrCat("node \"", Printable(graph_.DisplayName(split.node)),
                         "\" cannot be part of a region"));
      }
      inside_.insert(split.node);
      for (size_t r = 0; r < node.results.size(); ++r) {
        if (node.results[r] == kNoValue) continue;
        if (split.way.result_axes[r] < 0) {
          return absl::FailedPreconditionError(
              absl::StrCat("\"", Printable(graph_.value(node.results[r]).name),
                           "\" is not split"));
        }
        axis_[node.results[r]] = split.way.result_axes[r];
      }
    }
    return absl::OkStatus();
  }

  // Nodes of the block that are not of the region, but stand among its nodes,
  // go before it, or after it if they read what it makes.
  absl::Status PlaceOthers() {
    llvm::DenseSet<ValueId> made;
    size_t left = plan_.nodes.size();
    bool begun = false;
    std::vector<ValueId> uses;
    for (NodeId id : graph_.block(plan_.block).nodes) {
      uses.clear();
      ir::CollectUses(graph_, id, &uses);
      if (inside_.contains(id)) {
        begun = true;
        --left;
        continue;
      }
      if (begun && left == 0) {
        after_.push_back(id);
        continue;
      }
      bool depends = false;
      for (ValueId value : uses) {
        depends = depends || axis_.contains(value) || made.contains(value);
      }
      if (!depends) {
        before_.push_back(id);
        continue;
      }
      between_.push_back(id);
      for (ValueId result : graph_.node(id).results) {
        if (result != kNoValue) made.insert(result);
      }
    }
    // No way back into the region.
    for (const SplitNode& split : plan_.nodes) {
      for (ValueId operand : graph_.node(split.node).operands) {
        if (operand != kNoValue && made.contains(operand)) {
          return absl::FailedPreconditionError(
              absl::StrCat("\"", Printable(graph_.value(operand).name),
                           "\" leaves the region and comes back"));
        }
      }
    }
    return absl::OkStatus();
  }

  // What the region makes becomes of a part's size; what is read outside gets a
  // second value for that.
  absl::Status MakeParts() {
    llvm::DenseSet<ValueId> outside;
    const auto mark = [&](absl::Span<const NodeId> nodes) {
      std::vector<ValueId> uses;
      for (NodeId id : nodes) ir::CollectUses(graph_, id, &uses);
      for (ValueId value : uses) outside.insert(value);
    };
    mark(between_);
    mark(after_);
    for (ValueId result : graph_.block(plan_.block).results) {
      outside.insert(result);
    }
    for (const SplitNode& split : plan_.nodes) {
      ir::Node& node = graph_.mutable_node(split.node);
      for (ValueId& result : node.results) {
        if (result == kNoValue) continue;
        const int axis = axis_[result];
        Type type = graph_.value(result).type;
        const std::optional<Dim> part =
            windows_.has_value()
                ? windows_->size(result, axis, windows_->level(split.node))
                : DivideExact(*(*type.shape)[axis], plan_.parts);
        if (!part.has_value()) {
          return absl::FailedPreconditionError(
              absl::StrCat("\"", Printable(graph_.value(result).name),
                           "\" has no whole parts"));
        }
        (*type.shape)[axis] = *part;
        if (!outside.contains(result) && !graph_.value(result).pinned) {
          graph_.mutable_value(result).type = std::move(type);
          graph_.mutable_value(result).contents = nullptr;
          inner_[result] = result;
          continue;
        }
        const ValueId whole = result;
        const ValueId inner =
            builder_.Value(plan_.block, std::move(type),
                           absl::StrCat(graph_.value(whole).name, "/part"));
        graph_.mutable_value(inner).producer = split.node;
        inner_[whole] = inner;
        result = inner;
        outputs_.push_back(whole);
      }
    }
    return absl::OkStatus();
  }

  absl::Status EditNode(const SplitNode& split, Boundary& boundary) {
    const SplitWay& way = split.way;
    const int level = windows_.has_value() ? windows_->level(split.node) : 0;
    for (size_t i = 0; i < way.operands.size(); ++i) {
      const ValueId operand = graph_.node(split.node).operands[i];
      if (operand == kNoValue) continue;
      const auto own = inner_.find(operand);
      const int axis = way.operands[i].axis;
      if (axis < 0) {
        if (own != inner_.end()) {
          return absl::FailedPreconditionError(
              absl::StrCat("node \"", Printable(graph_.DisplayName(split.node)),
                           "\" needs all of \"",
                           Printable(graph_.value(operand).name), "\""));
        }
        continue;
      }
      if (own != inner_.end() && axis_[operand] != axis) {
        return absl::FailedPreconditionError(
            absl::StrCat("\"", Printable(graph_.value(operand).name),
                         "\" is made along one axis and read along another"));
      }
      ValueId use = kNoValue;
      if (own != inner_.end() && !windows_.has_value()) {
        use = own->second;
      } else {
        auto& ranges = ranges_[std::make_pair(operand, axis)];
        const auto known = std::find_if(
            ranges.begin(), ranges.end(),
            [&](const auto& range) { return range.first == level; });
        if (known != ranges.end()) {
          use = known->second;
        } else {
          ASSIGN_OR_RETURN(use, Range(operand, axis, level, boundary));
          ranges.emplace_back(level, use);
        }
      }
      graph_.mutable_node(split.node).operands[i] = use;
    }
    return absl::OkStatus();
  }

  // What a node at `level` reads of `operand`, as a value of the body.
  absl::StatusOr<ValueId> Range(ValueId operand, int axis, int level,
                                Boundary& boundary) {
    if (!windows_.has_value()) return boundary.equal->Input(operand, axis);
    const auto own = inner_.find(operand);
    if (own == inner_.end()) {
      return boundary.ranges->Input(operand, axis, level);
    }
    const int from = MakerLevel(own->second);
    if (from == level) return own->second;
    return boundary.ranges->Cut(own->second, operand, axis, from, level,
                                &order_);
  }

  absl::Status EditShapes(const SplitNode& split, BoundaryNodes& nodes) {
    // By operand: a node has few.
    std::vector<std::pair<int, std::vector<ExtentOfPart>>> edits;
    const ir::Node& node = graph_.node(split.node);
    for (const ir::ShapeEdit& edit : split.way.edits) {
      auto it = std::find_if(edits.begin(), edits.end(), [&](const auto& e) {
        return e.first == edit.operand;
      });
      if (it == edits.end()) {
        it = edits.insert(it, {edit.operand, {}});
      }
      // The extent of the part of the first result that is split.
      for (size_t r = 0; r < node.results.size(); ++r) {
        if (node.results[r] == kNoValue) continue;
        const int axis = split.way.result_axes[r];
        const Dim& extent = *(*graph_.value(node.results[r]).type.shape)[axis];
        if (windows_.has_value() && !extent.is_constant() &&
            node.op_type != "Reshape") {
          return absl::FailedPreconditionError(
              absl::StrCat("node \"", Printable(graph_.DisplayName(split.node)),
                           "\" takes the extent of a part as a number"));
        }
        it->second.push_back({edit.element, extent});
        break;
      }
    }
    for (const auto& [operand, replacements] : edits) {
      ASSIGN_OR_RETURN(
          const ValueId shape,
          PartShape(nodes, graph_.node(split.node).operands[operand],
                    replacements));
      graph_.mutable_node(split.node).operands[operand] = shape;
    }
    return absl::OkStatus();
  }

  void Assemble(const BoundaryNodes& boundary) {
    using Place = BoundaryNodes::Place;
    ir::Node& scan = graph_.mutable_node(scan_);
    scan.operands.assign(boundary.operands().begin(),
                         boundary.operands().end());
    scan.results.assign(boundary.results().begin(), boundary.results().end());
    scan.attributes.push_back(
        {"num_scan_inputs", static_cast<int64_t>(boundary.operands().size())});
    for (ValueId result : scan.results) {
      graph_.mutable_value(result).producer = scan_;
      graph_.mutable_value(result).contents = nullptr;
    }
    ir::Block& body = graph_.mutable_block(body_);
    body.params = boundary.params();
    body.results = boundary.body_results();
    const auto& begin = boundary.at(Place::kBodyBegin);
    const auto& end = boundary.at(Place::kBodyEnd);
    body.nodes.insert(body.nodes.begin(), begin.begin(), begin.end());
    body.nodes.insert(body.nodes.end(), end.begin(), end.end());
    std::vector<NodeId>& nodes = graph_.mutable_block(plan_.block).nodes;
    nodes = before_;
    const auto append = [&](const std::vector<NodeId>& more) {
      nodes.insert(nodes.end(), more.begin(), more.end());
    };
    append(boundary.at(Place::kBefore));
    nodes.push_back(scan_);
    append(boundary.at(Place::kAfter));
    append(between_);
    append(after_);
  }

  Graph& graph_;
  const SplitPlan& plan_;
  Builder builder_;
  NodeId scan_ = ir::kNoNode;
  BlockId body_ = ir::kNoBlock;
  llvm::DenseSet<NodeId> inside_;
  llvm::DenseMap<ValueId, int> axis_;       // of what the region makes
  llvm::DenseMap<ValueId, ValueId> inner_;  // of what the region makes
  std::optional<RegionWindows> windows_;
  // What is read in the body, by tensor and axis: levels and values.
  llvm::DenseMap<std::pair<ValueId, int>, std::vector<std::pair<int, ValueId>>>
      ranges_;
  std::vector<NodeId> order_;  // of the body
  std::vector<ValueId> outputs_;
  std::vector<NodeId> before_, between_, after_;
};

}  // namespace

bool CanSplit(const SplitWay& way) {
  // The pads of an auto_pad depend on the extent only by its remainder when it
  // is divided by the stride, which ranges keep.
  return way.combine == ir::Combine::kNone && way.attributes.empty();
}

bool NeedsWindows(const SplitPlan& plan) {
  return std::any_of(plan.nodes.begin(), plan.nodes.end(),
                     [](const SplitNode& split) { return split.way.windowed; });
}

absl::StatusOr<NodeId> SplitRegion(Graph& graph, const SplitPlan& plan) {
  return Splitter(&graph, plan).Run();
}

}  // namespace onnx_memopt::rewrite
