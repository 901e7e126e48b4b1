#include "onnx_memopt/grad/accumulate.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "onnx_memopt/rewrite/emitter.h"
#include "onnx_memopt/rewrite/outline.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

using ir::ElementType;
using ir::NodeId;
using ir::ValueId;
using rewrite::Attr;
using rewrite::Emitter;

class Accumulation {
 public:
  Accumulation(int64_t count, const StepInfo& step, ir::Graph* graph)
      : count_(count),
        step_(step),
        graph_(*graph),
        builder_(graph),
        loop_(builder_.Node(ir::kMainBlock, "Loop", {}, {}, "micro_batches")),
        body_(builder_.Subgraph(loop_, "body", "micro_batch")),
        outer_(&builder_, ir::kMainBlock),
        inner_(&builder_, body_) {}

  absl::StatusOr<AccumulatedStep> Run() {
    outer_.set_prefix("micro_batches");
    inner_.set_prefix("micro_batch");
    index_ = Param(ir::Type::Tensor(ElementType::kInt64, ir::Shape()),
                   "micro_batch/index");
    const ValueId more = Param(
        ir::Type::Tensor(ElementType::kBool, ir::Shape()), "micro_batch/more");
    results_ = {inner_.Op("Identity", {more})};
    operands_ = {outer_.Int(count_), ir::kNoValue};
    SplitNodes();
    ReadParts();
    RETURN_IF_ERROR(MakeParts());
    CarryStatistics();
    CarrySums();
    Assemble();
    RETURN_IF_ERROR(ir::Verify(graph_));
    return AccumulatedStep{.body = body_, .body_loss = body_loss_};
  }

 private:
  ValueId Param(ir::Type type, absl::string_view name) {
    params_.push_back(builder_.Value(body_, std::move(type), name,
                                     ir::ValueKind::kBlockParam));
    return params_.back();
  }

  // Into those of a micro-batch and those for after the last one.
  void SplitNodes() {
    const llvm::DenseSet<NodeId> after(step_.after.begin(), step_.after.end());
    for (NodeId id : graph_.block(ir::kMainBlock).nodes) {
      (after.contains(id) ? after_ : micro_).push_back(id);
    }
    rewrite::MoveIntoSubgraph(graph_, micro_, body_);
  }

  // What nodes read from now on in place of inputs.
  void ReadParts() {
    llvm::DenseMap<ValueId, ValueId> replaced;
    const auto name = [&](ValueId input) {
      return absl::StrCat(graph_.value(input).name, "/micro");
    };
    for (ValueId input : step_.batched) {
      ir::Type type = graph_.value(input).type;
      parts_.push_back(builder_.Value(body_, std::move(type), name(input)));
      replaced[input] = parts_.back();
    }
    for (const auto& [input, next] : step_.moved_statistics) {
      ir::Type type = graph_.value(input).type;
      replaced[input] = Param(std::move(type), name(input));
    }
    if (step_.micro_batch != ir::kNoValue) {
      replaced[step_.micro_batch] = index_;
      for (const ir::BlockId block : {ir::kMainBlock, body_}) {
        std::erase(graph_.mutable_block(block).initializers, step_.micro_batch);
      }
    }
    graph_.ReplaceUses(replaced);
    // But for the updates, which read the inputs themselves.
    llvm::DenseMap<ValueId, ValueId> back;
    for (const auto& [input, part] : replaced) back[part] = input;
    for (NodeId id : after_) Replace(back, &graph_.mutable_node(id).operands);
  }

  template <typename Uses>
  static void Replace(const llvm::DenseMap<ValueId, ValueId>& by, Uses* uses) {
    for (ValueId& use : *uses) {
      const auto it = use == ir::kNoValue ? by.end() : by.find(use);
      if (it != by.end()) use = it->second;
    }
  }

  // The caller's input has all micro-batches; the nodes read one of them.
  absl::Status MakeParts() {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const ValueId input = step_.batched[i];
      const ir::Shape part = *graph_.value(parts_[i]).type.shape;
      ir::Value& value = graph_.mutable_value(input);
      std::optional<ir::Dim>& extent = value.type.shape->front();
      if (extent) {
        extent = ir::Mul(*extent, ir::Dim(count_));
        if (!extent) {
          return absl::OutOfRangeError(
              absl::StrCat("input \"", Printable(value.name),
                           "\" is too large for ", count_, " micro-batches"));
        }
      }
      value.source_block = ir::kNoBlock;  // the model's has another type
      const ValueId stacked = Stack(input, part);
      inner_.mutable_nodes().push_back(builder_.Node(
          body_, "Gather", {stacked, index_}, {parts_[i]},
          graph_.value(parts_[i]).name, {Attr("axis", int64_t{0})}));
    }
    return absl::OkStatus();
  }

  // As [count, ...part].
  ValueId Stack(ValueId input, const ir::Shape& part) {
    std::vector<int64_t> dims = {count_, -1};
    bool known = true;
    for (size_t axis = 1; axis < part.size(); ++axis) {
      known = known && part[axis] && part[axis]->is_constant() &&
              part[axis]->constant() > 0;
      dims.push_back(known ? part[axis]->constant() : 0);
    }
    ValueId stacked = ir::kNoValue;
    if (known) {
      stacked = outer_.Reshape(input, dims);
    } else {
      const auto rank = static_cast<int64_t>(part.size());
      const ValueId rest =
          outer_.Slice(outer_.Op("Shape", {input}), {0}, {1}, {rank});
      stacked = outer_.Reshape(
          input, outer_.Concat({outer_.Ints({count_, -1}), rest}, 0));
    }
    ir::Shape shape = part;
    shape.insert(shape.begin(), ir::Dim(count_));
    graph_.mutable_value(stacked).type =
        ir::Type::Tensor(graph_.value(input).type.element, std::move(shape));
    return stacked;
  }

  // `start` comes in, `next` goes out; what is left after the loop is called
  // as `value`, the result that it stands for.
  void Carry(ValueId start, ValueId next, ValueId value) {
    operands_.push_back(start);
    results_.push_back(next);
    const std::string name = graph_.value(value).name;
    ir::Type type = graph_.value(next).type;
    carried_.push_back(builder_.Value(ir::kMainBlock, std::move(type),
                                      absl::StrCat(name, "/total")));
    outside_[value] = carried_.back();
    const auto& results = graph_.block(ir::kMainBlock).results;
    if (std::find(results.begin(), results.end(), value) == results.end()) {
      return;
    }
    graph_.mutable_value(value).name =
        builder_.UniqueName(absl::StrCat(name, "/micro"));
    graph_.mutable_value(carried_.back()).name = name;
  }

  // They move with each micro-batch.
  void CarryStatistics() {
    for (const auto& [input, next] : step_.moved_statistics) {
      Carry(input, next, next);
    }
  }

  void CarrySums() {
    for (const SummedValue& sum : step_.sums) {
      if (outside_.contains(sum.value)) continue;
      const bool is_scalar = sum.start == ir::kNoValue;
      const ir::Type type =
          graph_.value(is_scalar ? sum.value : sum.start).type;
      const ValueId start = is_scalar ? Zero(type) : sum.start;
      ValueId so_far =
          Param(type, absl::StrCat(graph_.value(sum.value).name, "/sum"));
      const ValueId factor = is_scalar ? ir::kNoValue : NotFirst(type.element);
      const size_t first = inner_.nodes().size();
      if (!is_scalar) so_far = inner_.Mul(so_far, factor);
      const ValueId total = inner_.Add(so_far, sum.value);
      graph_.mutable_value(total).type = type;
      std::vector<NodeId>& emitted = inner_.mutable_nodes();
      // Right behind what it adds, so that no two gradients are held.
      std::vector<NodeId>& behind = adders_[sum.value];
      behind.assign(emitted.begin() + static_cast<std::ptrdiff_t>(first),
                    emitted.end());
      emitted.resize(first);
      Carry(start, total, sum.value);
      if (sum.value == step_.sums.front().value) body_loss_ = total;
    }
  }

  // Of one element.
  ValueId Zero(const ir::Type& type) {
    const std::vector<int64_t> ones(type.shape->size(), 1);
    return builder_.Reals(ir::kMainBlock, "memopt/zero", type.element, ones,
                          {0});
  }

  // 0 in the first micro-batch, then 1.
  ValueId NotFirst(ElementType element) {
    const auto [it, added] = not_first_.try_emplace(element, ir::kNoValue);
    if (added) {
      const ValueId later = inner_.Op("Greater", {index_, inner_.Int(0)});
      it->second = inner_.Cast(later, element);
    }
    return it->second;
  }

  void Assemble() {
    std::vector<NodeId> nodes = inner_.nodes();
    const auto add = [&](ValueId value) {
      const auto it =
          value == ir::kNoValue ? adders_.end() : adders_.find(value);
      if (it == adders_.end()) return;
      nodes.insert(nodes.end(), it->second.begin(), it->second.end());
      adders_.erase(it);
    };
    for (NodeId id : micro_) {
      nodes.push_back(id);
      for (ValueId result : graph_.node(id).results) add(result);
    }
    // Gradients that no node makes: inputs and constants.
    for (const SummedValue& sum : step_.sums) add(sum.value);
    ir::Block& body = graph_.mutable_block(body_);
    body.nodes = std::move(nodes);
    body.params = params_;
    body.results = results_;

    ir::Node& loop = graph_.mutable_node(loop_);
    loop.operands.assign(operands_.begin(), operands_.end());
    loop.results.assign(carried_.begin(), carried_.end());
    for (ValueId result : carried_) {
      graph_.mutable_value(result).producer = loop_;
    }
    for (NodeId id : after_) {
      Replace(outside_, &graph_.mutable_node(id).operands);
    }
    ir::Block& main = graph_.mutable_block(ir::kMainBlock);
    Replace(outside_, &main.results);
    main.nodes = outer_.nodes();
    main.nodes.push_back(loop_);
    main.nodes.insert(main.nodes.end(), after_.begin(), after_.end());
  }

  const int64_t count_;
  const StepInfo& step_;
  ir::Graph& graph_;
  rewrite::Builder builder_;
  NodeId loop_;
  ir::BlockId body_;
  Emitter outer_;
  Emitter inner_;
  ValueId index_ = ir::kNoValue;
  ValueId body_loss_ = ir::kNoValue;
  std::vector<NodeId> micro_;
  std::vector<NodeId> after_;
  std::vector<ValueId> parts_;     // as step_.batched
  std::vector<ValueId> operands_;  // of the loop
  std::vector<ValueId> carried_;   // its results
  std::vector<ValueId> params_;    // of its body
  std::vector<ValueId> results_;
  std::map<ElementType, ValueId> not_first_;
  llvm::DenseMap<ValueId, std::vector<NodeId>> adders_;  // what adds a value
  llvm::DenseMap<ValueId, ValueId> outside_;  // what the loop leaves of it
};

}  // namespace

absl::StatusOr<AccumulatedStep> AccumulateGradients(int64_t count,
                                                    const StepInfo& step,
                                                    ir::Graph* graph) {
  return Accumulation(count, step, graph).Run();
}

}  // namespace onnx_memopt::grad
