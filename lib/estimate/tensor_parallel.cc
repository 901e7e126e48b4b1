#include "estimate/tensor_parallel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/ir/dimension_flow.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::estimate {
namespace {

using ir::NodeId;
using ir::ValueId;

constexpr int kWhole = -1;

bool IsProduct(absl::string_view op) { return op == "MatMul" || op == "Gemm"; }

class Splitter {
 public:
  Splitter(const ir::Graph& graph, absl::Span<const NodeId> steps,
           const GradientFlow& flow, int64_t ways)
      : graph_(graph),
        steps_(steps),
        flow_(flow),
        ways_(ways),
        bindings_(analysis::AssumedBindings(graph)),
        split_ways_(graph.num_nodes()),
        asked_(graph.num_nodes()),
        refused_(graph.num_nodes()) {}

  absl::StatusOr<TensorSplit> Run() {
    // Each round refuses at least one product, or is the last.
    for (size_t round = 0; round <= steps_.size(); ++round) {
      if (Propagate()) break;
    }
    if (!indivisible_.empty() && columns_ + rows_ == 0) {
      return absl::OutOfRangeError(indivisible_);
    }
    if (columns_ + rows_ == 0) {
      return absl::OutOfRangeError(absl::StrCat(
          "--tp ", ways_, ": the model has no products that can be divided"));
    }
    if (!indivisible_.empty()) return absl::OutOfRangeError(indivisible_);
    TensorSplit result{.split = std::vector<bool>(graph_.num_values()),
                       .column_products = columns_,
                       .row_products = rows_,
                       .whole_products = whole_};
    for (size_t i = 0; i < axis_.size(); ++i) {
      if (axis_[i] == kWhole) continue;
      result.split[i] = true;
    }
    for (size_t i = 0; i < weight_split_.size(); ++i) {
      if (weight_split_[i]) result.split[i] = true;
    }
    return result;
  }

 private:
  // One pass over the graph; false if a product had to be refused.
  bool Propagate() {
    axis_.assign(graph_.num_values(), kWhole);
    free_order_.assign(graph_.num_values(), false);
    sources_.assign(graph_.num_values(), {});
    weight_split_.assign(graph_.num_values(), false);
    columns_ = rows_ = whole_ = 0;
    // Goes on after a refusal, so that there are few passes.
    bool complete = true;
    for (NodeId id : steps_) complete &= Visit(id);
    return complete;
  }

  bool is_weight(ValueId value) const {
    return value != ir::kNoValue &&
           !flow_.weights_behind[ir::Index(value)].empty();
  }
  bool is_split(ValueId value) const {
    return value != ir::kNoValue && axis_[ir::Index(value)] != kWhole;
  }
  bool is_parameter(ValueId value) const {
    if (!is_weight(value)) return false;
    const auto& behind = flow_.weights_behind[ir::Index(value)];
    return std::any_of(behind.begin(), behind.end(), [&](ValueId weight) {
      return flow_.trained[ir::Index(weight)];
    });
  }
  const std::vector<ir::SplitWay>& WaysOf(NodeId id) {
    if (!asked_[ir::Index(id)]) {
      asked_[ir::Index(id)] = true;
      split_ways_[ir::Index(id)] = ir::SplitWays(graph_, id);
    }
    return split_ways_[ir::Index(id)];
  }
  std::optional<int64_t> Evaluate(const ir::Dim& dim) const {
    return dim.Evaluate(bindings_);
  }

  bool Visit(NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (node.results.empty() || node.results[0] == ir::kNoValue) return true;
    if (is_weight(node.results[0])) return true;
    const bool any = std::any_of(node.operands.begin(), node.operands.end(),
                                 [&](ValueId v) { return is_split(v); });
    if (!any) {
      if (node.op_type == "Gather" && !node.operands.empty() &&
          is_parameter(node.operands[0])) {
        SplitTable(node);
        return true;
      }
      if (!IsProduct(node.op_type) || !HasWeight(node)) return true;
      if (refused_[ir::Index(id)]) {
        ++whole_;
        return true;
      }
      return SplitByColumn(id);
    }
    if (node.op_type == "Dropout") {
      // Each GPU draws for its own part.
      const ValueId operand = node.operands[0];
      for (ValueId result : node.results) {
        if (result == ir::kNoValue || !is_split(operand)) continue;
        Inherit(operand, result, axis_[ir::Index(operand)],
                free_order_[ir::Index(operand)]);
      }
      return true;
    }
    if (SplitFreely(node)) return true;
    for (const ir::SplitWay& way : WaysOf(id)) {
      if (Fits(node, way)) {
        return Apply(id, way);
      }
    }
    return Refuse(node);
  }

  bool HasWeight(const ir::Node& node) const {
    return node.operands.size() > 1 && is_parameter(node.operands[1]) &&
           !is_weight(node.operands[0]);
  }

  // Rows of an embedding, by token: each GPU looks up its own and they add up.
  void SplitTable(const ir::Node& node) {
    for (ValueId weight : flow_.weights_behind[ir::Index(node.operands[0])]) {
      const ir::Weight& data = graph_.weight(graph_.value(weight).weight);
      if (data.dims.size() == 2 && data.dims[0] >= 1024 &&
          flow_.depends_on_input[ir::Index(node.results[0])]) {
        weight_split_[ir::Index(weight)] = true;
      }
    }
  }

  void SplitWeights(ValueId operand) {
    for (ValueId weight : flow_.weights_behind[ir::Index(operand)]) {
      weight_split_[ir::Index(weight)] = true;
    }
  }

  // Along the last axis of the result, of which the operand has none. Vocab
  // sizes are padded to a multiple.
  bool SplitByColumn(NodeId id) {
    const ir::Node& node = graph_.node(id);
    const ValueId result = node.results[0];
    const ir::Type& type = graph_.value(result).type;
    if (!type.shape || type.shape->empty() || !type.shape->back()) {
      refused_[ir::Index(id)] = true;
      ++whole_;
      return true;
    }
    const int64_t columns = Evaluate(*type.shape->back()).value_or(0);
    if (columns < ways_) {
      refused_[ir::Index(id)] = true;
      ++whole_;
      return true;
    }
    axis_[ir::Index(result)] = static_cast<int>(type.shape->size()) - 1;
    free_order_[ir::Index(result)] = true;
    sources_[ir::Index(result)] = {id};
    SplitWeights(node.operands[1]);
    ++columns_;
    return true;
  }

  // The columns of a product may be in any order, since its weights may: a
  // fused query-key-value projection is cut so that each GPU has whole heads of
  // all three. Handles Split along the axis, and Reshape of it into several.
  bool SplitFreely(const ir::Node& node) {
    const ValueId operand = node.operands[0];
    if (!is_split(operand) || !free_order_[ir::Index(operand)]) return false;
    const int axis = axis_[ir::Index(operand)];
    if (node.op_type == "SplitToSequence" || node.op_type == "SequenceAt") {
      Inherit(operand, node.results[0], axis, true);
      return true;
    }
    if (node.op_type == "Split" || node.op_type == "Slice") {
      const ir::Type& from = graph_.value(operand).type;
      for (ValueId result : node.results) {
        if (result == ir::kNoValue) continue;
        const ir::Type& to = graph_.value(result).type;
        if (!from.shape || !to.shape ||
            from.shape->size() != to.shape->size()) {
          return false;
        }
      }
      for (ValueId result : node.results) {
        if (result != ir::kNoValue) Inherit(operand, result, axis, true);
      }
      return true;
    }
    if (node.op_type != "Reshape") return false;
    return SplitReshape(operand, node.results[0], axis);
  }

  bool SplitReshape(ValueId operand, ValueId result, int axis) {
    const ir::Type& from = graph_.value(operand).type;
    const ir::Type& to = graph_.value(result).type;
    if (!from.shape || !to.shape || !(*from.shape)[axis] ||
        static_cast<size_t>(axis) + 1 != from.shape->size()) {
      return false;
    }
    // The last dims of the result whose product is the axis.
    const int64_t whole = Evaluate(*(*from.shape)[axis]).value_or(0);
    int64_t product = 1;
    int first = static_cast<int>(to.shape->size());
    while (first > 0 && product < whole) {
      const auto& dim = (*to.shape)[first - 1];
      if (!dim) return false;
      const int64_t size = Evaluate(*dim).value_or(0);
      if (size == 0) return false;
      product = CheckedMul(product, size).value_or(0);
      if (product == 0) return false;
      --first;
    }
    const int count = static_cast<int>(to.shape->size()) - first;
    if (product != whole) return false;
    if (count == 1) {
      Inherit(operand, result, first, true);
      return true;
    }
    // Heads: the largest of the dims but the last.
    int best = first;
    int64_t heads = 0;
    for (int i = first; i + 1 < first + count; ++i) {
      const int64_t size = Evaluate(*(*to.shape)[i]).value_or(0);
      if (size > heads) {
        heads = size;
        best = i;
      }
    }
    if (heads % ways_ != 0) {
      NoteIndivisible(heads, result);
      return false;
    }
    Inherit(operand, result, best, false);
    return true;
  }

  void NoteIndivisible(int64_t size, ValueId value) {
    if (!indivisible_.empty()) return;
    indivisible_ =
        absl::StrCat("--tp ", ways_, " does not divide the ", size,
                     " heads of \"", Printable(graph_.value(value).name), "\"");
  }

  void Inherit(ValueId from, ValueId to, int axis, bool free_order) {
    axis_[ir::Index(to)] = axis;
    free_order_[ir::Index(to)] = free_order;
    AddSources(from, to);
  }

  void AddSources(ValueId from, ValueId to) {
    auto& sources = sources_[ir::Index(to)];
    for (NodeId source : sources_[ir::Index(from)]) {
      if (std::find(sources.begin(), sources.end(), source) == sources.end()) {
        sources.push_back(source);
      }
    }
  }

  // Every split operand is split along the axis that the way wants, and the
  // others are weights where the way wants a part of them.
  bool Fits(const ir::Node& node, const ir::SplitWay& way) {
    if (way.windowed || way.operands.size() != node.operands.size())
      return false;
    if (way.combine != ir::Combine::kNone &&
        (way.combine != ir::Combine::kSum || !IsProduct(node.op_type))) {
      return false;
    }
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i];
      if (operand == ir::kNoValue) continue;
      const int wanted = way.operands[i].axis;
      if (is_split(operand)) {
        if (wanted != axis_[ir::Index(operand)]) return false;
      } else if (wanted != kWhole && !is_weight(operand) &&
                 flow_.has_gradient[ir::Index(operand)]) {
        return false;
      }
    }
    const std::optional<int64_t> extent = Evaluate(way.extent);
    const std::optional<int64_t> grain = Evaluate(way.grain);
    if (!extent || !grain || *grain == 0) return false;
    // Parts of an elementwise op may be uneven (a padded vocabulary).
    return *grain == 1 || (*extent / *grain) % ways_ == 0;
  }

  bool Apply(NodeId id, const ir::SplitWay& way) {
    const ir::Node& node = graph_.node(id);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId operand = node.operands[i];
      if (operand != ir::kNoValue && way.operands[i].axis != kWhole &&
          is_weight(operand)) {
        SplitWeights(operand);
      }
    }
    if (way.combine == ir::Combine::kSum) {
      // Partial sums: after adding up, every GPU has the whole.
      ++rows_;
      return true;
    }
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueId result = node.results[r];
      if (result == ir::kNoValue || way.result_axes[r] < 0) continue;
      axis_[ir::Index(result)] = way.result_axes[r];
      bool free_order = true;
      for (ValueId operand : node.operands) {
        if (!is_split(operand)) continue;
        AddSources(operand, result);
        free_order &= free_order_[ir::Index(operand)];
      }
      free_order_[ir::Index(result)] = free_order && node.op_type != "Reshape";
    }
    return true;
  }

  // The products that these operands come from stay whole; begin again.
  bool Refuse(const ir::Node& node) {
    bool any = false;
    for (ValueId operand : node.operands) {
      if (!is_split(operand)) continue;
      for (NodeId source : sources_[ir::Index(operand)]) {
        any |= !refused_[ir::Index(source)];
        refused_[ir::Index(source)] = true;
      }
    }
    return !any;
  }

  const ir::Graph& graph_;
  absl::Span<const NodeId> steps_;
  const GradientFlow& flow_;
  int64_t ways_;
  ir::Bindings bindings_;
  std::vector<std::vector<ir::SplitWay>> split_ways_;  // by NodeId
  std::vector<bool> asked_;
  std::vector<bool> refused_;  // by NodeId: products that stay whole
  std::vector<int> axis_;      // by ValueId
  std::vector<bool> free_order_;
  std::vector<llvm::SmallVector<NodeId, 2>> sources_;  // by ValueId
  std::vector<bool> weight_split_;
  int64_t columns_ = 0;
  int64_t rows_ = 0;
  int64_t whole_ = 0;
  std::string indivisible_;
};

}  // namespace

absl::StatusOr<TensorSplit> SplitTensors(const ir::Graph& graph,
                                         absl::Span<const NodeId> steps,
                                         const GradientFlow& flow,
                                         int64_t ways) {
  return Splitter(graph, steps, flow, ways).Run();
}

}  // namespace onnx_memopt::estimate
