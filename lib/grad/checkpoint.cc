#include "onnx_memopt/grad/checkpoint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grad/segments.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/rewrite/emitter.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

using ir::Index;
using ir::kNoValue;
using ir::NodeId;
using ir::ValueId;
using rewrite::Attr;

class Inserter {
 public:
  Inserter(const CheckpointOptions& options, const ForwardPass& forward,
           ir::Graph* graph)
      : options_(options), forward_(forward), graph_(*graph), builder_(graph) {}

  absl::StatusOr<CheckpointResult> Run() {
    const std::vector<size_t> cuts = forward_.Cuts(options_.segments);
    // The last segment is needed as soon as the backward pass begins.
    for (size_t i = 0; i + 2 < cuts.size(); ++i) {
      MakeAgain(cuts[i], cuts[i + 1]);
    }
    if (replaced_.empty()) return std::move(result_);
    if (forward_.TotalSeconds() > 0) {
      result_.overhead = result_.seconds / forward_.TotalSeconds();
    }
    ReplaceInBackward();
    Schedule();
    return std::move(result_);
  }

 private:
  const std::vector<NodeId>& order() const { return forward_.order(); }

  // Of nodes [begin, end) of the forward pass.
  void MakeAgain(size_t begin, size_t end) {
    llvm::DenseSet<ValueId> inside;  // results that may be made again
    for (size_t i = begin; i < end; ++i) {
      const NodeId id = order()[i];
      if (!forward_.CanRepeat(id, options_.most)) continue;
      for (ValueId result : graph_.node(id).results) {
        if (result != kNoValue && !forward_.ReadAfter(result, end)) {
          inside.insert(result);
        }
      }
    }
    std::vector<ValueId> needed;
    llvm::DenseSet<ValueId> wanted;
    RecomputedSegment segment;
    for (size_t i = begin; i < end; ++i) {
      for (ValueId result : graph_.node(order()[i]).results) {
        if (result == kNoValue || !inside.contains(result)) continue;
        if (!forward_.ReadByBackward(result)) continue;
        needed.push_back(result);
        wanted.insert(result);
        segment.bytes += forward_.OwnBytes(result);
      }
    }
    if (segment.bytes < kMinSegmentBytes) return;
    // What it takes to make them, from the last to the first.
    std::vector<NodeId> nodes;
    for (size_t i = end; i-- > begin;) {
      const ir::Node& node = graph_.node(order()[i]);
      const bool any =
          std::any_of(node.results.begin(), node.results.end(),
                      [&](ValueId v) { return wanted.contains(v); });
      if (!any) continue;
      nodes.push_back(order()[i]);
      segment.seconds += forward_.Seconds(order()[i]);
      for (ValueId operand : node.operands) {
        if (operand != kNoValue && inside.contains(operand)) {
          wanted.insert(operand);
        }
      }
    }
    std::reverse(nodes.begin(), nodes.end());
    segment.nodes = nodes.size();
    segment.first = graph_.DisplayName(nodes.front());
    segment.last = graph_.DisplayName(nodes.back());
    Emit(nodes, needed, end);
    result_.seconds += segment.seconds;
    result_.segments.push_back(std::move(segment));
  }

  // Every recomputed value of a segment read by the backward pass comes out of
  // one Scan over a list of one number.
  void Emit(const std::vector<NodeId>& nodes,
            const std::vector<ValueId>& needed, size_t end) {
    const std::string name =
        absl::StrCat("recompute/", result_.segments.size());
    rewrite::Emitter e(&builder_, ir::kMainBlock);
    e.set_prefix(name);
    const NodeId scan = builder_.Node(ir::kMainBlock, "Scan", {}, {}, name);
    const ir::BlockId body = builder_.Subgraph(scan, "body", name);
    const ValueId once = builder_.Value(
        body, ir::Type::Tensor(ir::ElementType::kInt64, ir::Shape()),
        absl::StrCat(name, "/once"), ir::ValueKind::kBlockParam);
    llvm::DenseMap<ValueId, ValueId> copies;
    std::vector<NodeId> schedule;
    for (NodeId id : nodes) schedule.push_back(Clone(id, body, &copies));
    std::vector<ValueId> stacked;
    std::vector<ValueId> results;
    for (ValueId value : needed) {
      ir::Type type = graph_.value(value).type;
      if (type.shape) type.shape->insert(type.shape->begin(), ir::Dim(1));
      results.push_back(copies[value]);
      stacked.push_back(
          builder_.Value(ir::kMainBlock, std::move(type),
                         absl::StrCat(graph_.value(value).name, "/again")));
      graph_.mutable_value(stacked.back()).producer = scan;
    }
    ir::Block& block = graph_.mutable_block(body);
    block.params = {once};
    block.nodes = std::move(schedule);
    block.results = std::move(results);
    const ValueId one = e.Ints({0});
    ir::Node& node = graph_.mutable_node(scan);
    node.operands.push_back(one);
    node.results.assign(stacked.begin(), stacked.end());
    node.attributes.push_back(Attr("num_scan_inputs", int64_t{1}));
    Again again = {.after = end, .nodes = {scan}};
    for (size_t i = 0; i < needed.size(); ++i) {
      const ValueId value = e.Squeeze(stacked[i], {0});
      const ir::Type type = graph_.value(needed[i]).type;
      graph_.mutable_value(value).type = type;
      replaced_[needed[i]] = value;
    }
    again.nodes.insert(again.nodes.end(), e.nodes().begin(), e.nodes().end());
    again_.push_back(std::move(again));
  }

  NodeId Clone(NodeId id, ir::BlockId body,
               llvm::DenseMap<ValueId, ValueId>* copies) {
    const ir::Node node = graph_.node(id);
    std::vector<ValueId> operands;
    for (ValueId operand : node.operands) {
      const auto it =
          operand == kNoValue ? copies->end() : copies->find(operand);
      operands.push_back(it == copies->end() ? operand : it->second);
    }
    std::vector<ValueId> results;
    for (ValueId result : node.results) {
      if (result == kNoValue) {
        results.push_back(kNoValue);
        continue;
      }
      ir::Type type = graph_.value(result).type;
      const ValueId copy =
          builder_.Value(body, std::move(type),
                         absl::StrCat(graph_.value(result).name, "/copy"));
      graph_.mutable_value(copy).contents = graph_.value(result).contents;
      (*copies)[result] = copy;
      results.push_back(copy);
    }
    ir::Node copy;
    copy.name =
        builder_.UniqueName(absl::StrCat(graph_.DisplayName(id), "/copy"));
    copy.op_type = node.op_type;
    copy.domain = node.domain;
    copy.opset = node.opset;
    copy.block = body;
    copy.operands.assign(operands.begin(), operands.end());
    copy.results.assign(results.begin(), results.end());
    copy.attributes = node.attributes;
    const NodeId made = graph_.AddNode(std::move(copy));
    for (ValueId result : results) {
      if (result != kNoValue) graph_.mutable_value(result).producer = made;
    }
    return made;
  }

  void ReplaceInBackward() {
    for (NodeId id : forward_.backward()) {
      for (ValueId& operand : graph_.mutable_node(id).operands) {
        if (operand == kNoValue) continue;
        const auto it = replaced_.find(operand);
        if (it != replaced_.end()) operand = it->second;
      }
    }
  }

  // Early: right behind the segment. Else before the first reader.
  void Schedule() {
    std::vector<NodeId> schedule;
    size_t next = 0;
    if (options_.early) {
      for (size_t i = 0; i < order().size(); ++i) {
        schedule.push_back(order()[i]);
        while (next < again_.size() && again_[next].after == i + 1) {
          Append(again_[next++].nodes, &schedule);
        }
      }
      Append(forward_.backward(), &schedule);
    } else {
      Append(order(), &schedule);
      llvm::DenseMap<ValueId, size_t> made_by;
      for (size_t k = 0; k < again_.size(); ++k) {
        for (NodeId id : again_[k].nodes) {
          for (ValueId v : graph_.node(id).results) made_by[v] = k;
        }
      }
      std::vector<bool> placed(again_.size());
      for (NodeId id : forward_.backward()) {
        for (ValueId operand : graph_.node(id).operands) {
          if (operand == kNoValue) continue;
          const auto it = made_by.find(operand);
          if (it == made_by.end() || placed[it->second]) continue;
          placed[it->second] = true;
          Append(again_[it->second].nodes, &schedule);
        }
        schedule.push_back(id);
      }
    }
    graph_.mutable_block(ir::kMainBlock).nodes = std::move(schedule);
  }

  static void Append(const std::vector<NodeId>& from,
                     std::vector<NodeId>* schedule) {
    schedule->insert(schedule->end(), from.begin(), from.end());
  }

  // Less is not worth a subgraph.
  static constexpr int64_t kMinSegmentBytes = 4096;

  struct Again {
    size_t after = 0;  // nodes of the forward pass
    std::vector<NodeId> nodes;
  };

  const CheckpointOptions& options_;
  const ForwardPass& forward_;
  ir::Graph& graph_;
  rewrite::Builder builder_;
  llvm::DenseMap<ValueId, ValueId> replaced_;
  std::vector<Again> again_;
  CheckpointResult result_;
};

}  // namespace

absl::StatusOr<CheckpointResult> InsertCheckpoints(
    const CheckpointOptions& options, const StepInfo& step, ir::Graph* graph) {
  ASSIGN_OR_RETURN(const ForwardPass forward,
                   ForwardPass::Compute(*graph, step));
  return Inserter(options, forward, graph).Run();
}

}  // namespace onnx_memopt::grad
