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
  // one Scan of one step. What it reads of the forward pass are its scan
  // inputs, under a view with one more axis, and not captured: ONNX Runtime's
  // fusions overlook readers in subgraphs.
  void Emit(const std::vector<NodeId>& nodes,
            const std::vector<ValueId>& needed, size_t end) {
    const std::string name =
        absl::StrCat("recompute/", result_.segments.size());
    rewrite::Emitter outer(&builder_, ir::kMainBlock);
    outer.set_prefix(name);
    const NodeId scan = builder_.Node(ir::kMainBlock, "Scan", {}, {}, name);
    const ir::BlockId body = builder_.Subgraph(scan, "body", name);
    rewrite::Emitter inner(&builder_, body);
    inner.set_prefix(name);
    std::vector<ValueId> operands;
    std::vector<ValueId> params;
    llvm::DenseMap<ValueId, ValueId> copies;
    for (ValueId value : ReadFromOutside(nodes)) {
      operands.push_back(outer.Unsqueeze(value, {0}));
      ir::Type type = graph_.value(value).type;
      params.push_back(builder_.Value(
          body, std::move(type), absl::StrCat(graph_.value(value).name, "/in"),
          ir::ValueKind::kBlockParam));
      copies[value] = params.back();
    }
    if (operands.empty()) {
      operands.push_back(outer.Ints({0}));
      params.push_back(builder_.Value(
          body, ir::Type::Tensor(ir::ElementType::kInt64, ir::Shape()),
          absl::StrCat(name, "/once"), ir::ValueKind::kBlockParam));
    }
    for (NodeId id : nodes) Clone(id, inner, &copies);
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
    block.params = std::move(params);
    block.nodes = inner.nodes();
    block.results = std::move(results);
    outer.mutable_nodes().push_back(scan);
    ir::Node& node = graph_.mutable_node(scan);
    node.attributes.push_back(
        Attr("num_scan_inputs", static_cast<int64_t>(operands.size())));
    node.operands.assign(operands.begin(), operands.end());
    node.results.assign(stacked.begin(), stacked.end());
    for (size_t i = 0; i < needed.size(); ++i) {
      const ValueId value = outer.Squeeze(stacked[i], {0});
      const ir::Type type = graph_.value(needed[i]).type;
      graph_.mutable_value(value).type = type;
      replaced_[needed[i]] = value;
    }
    again_.push_back({.after = end, .nodes = outer.nodes()});
  }

  // Results of other nodes that these read; not weights and inputs.
  std::vector<ValueId> ReadFromOutside(const std::vector<NodeId>& nodes) const {
    llvm::DenseSet<ValueId> known;
    std::vector<ValueId> read;
    for (NodeId id : nodes) {
      const ir::Node& node = graph_.node(id);
      for (ValueId operand : node.operands) {
        if (operand == kNoValue || known.contains(operand)) continue;
        known.insert(operand);
        const ir::Value& value = graph_.value(operand);
        if (value.kind == ir::ValueKind::kResult &&
            value.weight == ir::kNoWeight && value.type.is_tensor()) {
          read.push_back(operand);
        }
      }
      known.insert(node.results.begin(), node.results.end());
    }
    return read;
  }

  void Clone(NodeId id, rewrite::Emitter& body,
             llvm::DenseMap<ValueId, ValueId>* copies) {
    const ir::Node node = graph_.node(id);
    std::vector<ValueId> operands;
    for (ValueId operand : node.operands) {
      const auto it =
          operand == kNoValue ? copies->end() : copies->find(operand);
      operands.push_back(it == copies->end() ? operand : it->second);
    }
    // ONNX Runtime updates the running statistics in place, and a second time
    // would be wrong; in training the result does not depend on them.
    if (node.op_type == "BatchNormalization" && operands.size() == 5 &&
        ir::IntAttribute(node, "training_mode", 0) != 0) {
      for (size_t i : {3, 4}) {
        operands[i] = body.Sub(operands[1], operands[1]);
      }
    }
    ir::Node copy;
    copy.name =
        builder_.UniqueName(absl::StrCat(graph_.DisplayName(id), "/copy"));
    copy.op_type = node.op_type;
    copy.domain = node.domain;
    copy.opset = node.opset;
    copy.operands.assign(operands.begin(), operands.end());
    copy.attributes = node.attributes;
    for (ValueId result : node.results) {
      if (result == kNoValue) {
        copy.results.push_back(kNoValue);
        continue;
      }
      ir::Type type = graph_.value(result).type;
      const ValueId value =
          builder_.Value(body.block(), std::move(type),
                         absl::StrCat(graph_.value(result).name, "/copy"));
      graph_.mutable_value(value).contents = graph_.value(result).contents;
      (*copies)[result] = value;
      copy.results.push_back(value);
    }
    copy.block = body.block();
    const llvm::SmallVector<ValueId, 2> results = copy.results;
    const NodeId made = graph_.AddNode(std::move(copy));
    for (ValueId result : results) {
      if (result != kNoValue) graph_.mutable_value(result).producer = made;
    }
    body.mutable_nodes().push_back(made);
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
