#include "onnx_memopt/analysis/time_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "analysis/time_facts.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "onnx_memopt/analysis/cost.h"
#include "onnx_memopt/analysis/load_growth.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/timeline.h"
#include "onnx_memopt/ir/flops.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::analysis {
namespace {

using ir::BlockId;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

constexpr double kUs = 1e-6;
constexpr double kPs = 1e-12;

const time_facts::Row* RowOf(KernelKind kind) {
  const auto* row =
      std::find_if(std::begin(time_facts::kRows), std::end(time_facts::kRows),
                   [&](const time_facts::Row& r) { return r.kind == kind; });
  return row == std::end(time_facts::kRows) ? nullptr : row;
}

bool IsConv(const Node& node) {
  return node.info->recompute == ir::RecomputeCost::kExpensive &&
         absl::StrContains(node.op_type, "Conv");
}

class Builder {
 public:
  Builder(const ir::Graph& graph, const Timeline& timeline, const Sizes& sizes,
          const Cost& cost)
      : graph_(graph),
        sizes_(sizes),
        cost_(cost),
        bindings_(AssumedBindings(graph)),
        constant_(graph.num_values()),
        uses_(graph.num_values()),
        fused_(graph.num_values()) {
    for (size_t i = 0; i < graph.num_values(); ++i) {
      const ir::Value& value = graph.value(ValueId(static_cast<uint32_t>(i)));
      constant_[i] = value.weight != ir::kNoWeight && !value.overridable;
    }
    // Outer blocks come first: what they fold is constant inside.
    for (BlockId block : timeline.blocks()) {
      for (NodeId id : timeline.steps(block)) FindConstants(graph.node(id));
      for (ValueId result : graph.block(block).results) Use(result);
    }
  }

  NodeWork Work(NodeId id) {
    const Node& node = graph_.node(id);
    NodeWork work;
    if (Folds(node)) return work;
    if (FusesWithConvolution(node)) {
      fused_[ir::Index(node.results[0])] = true;
      return work;
    }
    work.kind = KindOf(node);
    const double written = BytesOf(node.results);
    double read = 0;
    for (ValueId operand : node.operands) {
      if (operand == ir::kNoValue) continue;
      const auto bytes = static_cast<double>(Bytes(operand));
      (IsWeight(operand) ? work.weight_bytes : read) += bytes;
    }
    switch (work.kind) {
      case KernelKind::kNone:
      case KernelKind::kView:
        work.weight_bytes = 0;
        return work;
      case KernelKind::kMove:
        // As much as is written: an index picks a part.
        work.weight_bytes = 0;
        work.data_bytes = 2 * written;
        break;
      case KernelKind::kElementwise:
      case KernelKind::kTranscendental:
      case KernelKind::kModerate:
      case KernelKind::kLrn:
        work.data_bytes = read + written + work.weight_bytes;
        work.weight_bytes = 0;
        break;
      default:
        work.data_bytes = read + written;
    }
    const int64_t flops = cost_.node(id).flops.value_or(0);
    work.flops = static_cast<double>(flops);
    if (IsConv(node)) {
      // Once for each image.
      work.weight_bytes *= static_cast<double>(Extent(node.operands[0], 0));
      if (!node.results.empty()) fused_[ir::Index(node.results[0])] = true;
    }
    work.unpacked = work.weight_bytes > 0 && IsUnpacked(node);
    return work;
  }

  // What a loop copies to and from stacks.
  double StackSeconds(const Node& node) const {
    double copied = 0;
    for (absl::string_view name : {"scan_input_axes", "scan_output_axes"}) {
      const auto* axes = IntsAttribute(node, name);
      if (axes == nullptr) continue;
      const bool is_input = name == "scan_input_axes";
      const auto count = static_cast<ptrdiff_t>(axes->size());
      const auto all = static_cast<ptrdiff_t>(is_input ? node.operands.size()
                                                       : node.results.size());
      for (ptrdiff_t i = 0; i < std::min(count, all); ++i) {
        if ((*axes)[static_cast<size_t>(i)] == 0) continue;
        const auto at = static_cast<size_t>(all - count + i);
        copied += static_cast<double>(
            Bytes(is_input ? node.operands[at] : node.results[at]));
      }
    }
    if (node.op_type == "Loop") {
      // What it stacks is kept apart, and joined in the end.
      for (size_t i = node.operands.size() < 2 ? 0 : node.operands.size() - 2;
           i < node.results.size(); ++i) {
        copied += static_cast<double>(Bytes(node.results[i]));
      }
    }
    return 2 * copied * time_facts::kStackPs * kPs;
  }

  int64_t Trips(const Node& node) const {
    return std::max<int64_t>(TripCount(graph_, node, bindings_), 0);
  }

 private:
  int64_t Bytes(ValueId value) const {
    return value == ir::kNoValue ? 0 : sizes_.bytes(value).value_or(0);
  }

  template <typename Values>
  double BytesOf(const Values& values) const {
    double total = 0;
    for (ValueId value : values) total += static_cast<double>(Bytes(value));
    return total;
  }

  // 1 where it is unknown.
  int64_t Extent(ValueId value, size_t axis) const {
    if (value == ir::kNoValue) return 1;
    const std::optional<ir::Shape>& shape = graph_.value(value).type.shape;
    if (!shape || axis >= shape->size() || !(*shape)[axis]) return 1;
    return std::max<int64_t>((*shape)[axis]->Evaluate(bindings_).value_or(1),
                             1);
  }

  bool IsWeight(ValueId value) const { return constant_[ir::Index(value)]; }

  bool Folds(const Node& node) const {
    return node.op_type == "Constant" ||
           (MayFold(node) &&
            std::all_of(node.operands.begin(), node.operands.end(),
                        [&](ValueId operand) {
                          return operand == ir::kNoValue || IsWeight(operand);
                        }));
  }

  void Use(ValueId value) {
    if (value != ir::kNoValue) ++uses_[ir::Index(value)];
  }

  void FindConstants(const Node& node) {
    const bool folds = Folds(node);
    for (ValueId operand : node.operands) Use(operand);
    for (ValueId result : node.results) {
      if (folds && result != ir::kNoValue) constant_[ir::Index(result)] = true;
    }
  }

  // ONNX Runtime runs a convolution together with the sum and the activation
  // behind it.
  bool FusesWithConvolution(const Node& node) const {
    if (node.info->recompute != ir::RecomputeCost::kCheap ||
        node.results.size() != 1 || node.results[0] == ir::kNoValue) {
      return false;
    }
    const bool is_activation = node.info->in_place != 0;
    if (!is_activation && node.op_type != "Add") return false;
    return std::any_of(
        node.operands.begin(), node.operands.end(), [&](ValueId operand) {
          return operand != ir::kNoValue && fused_[ir::Index(operand)] &&
                 uses_[ir::Index(operand)] == 1;
        });
  }

  KernelKind KindOf(const Node& node) const {
    switch (node.info->recompute) {
      case ir::RecomputeCost::kFree:
        return KernelKind::kView;
      case ir::RecomputeCost::kUnknown:
      case ir::RecomputeCost::kModerate:
        return node.op_type == "LRN" ? KernelKind::kLrn : KernelKind::kModerate;
      case ir::RecomputeCost::kCheap:
        return CheapKind(node);
      case ir::RecomputeCost::kExpensive:
        break;
    }
    if (IsConv(node)) return ConvKind(node);
    const bool has_weights = node.operands.size() > 1 &&
                             node.operands[1] != ir::kNoValue &&
                             IsWeight(node.operands[1]);
    return has_weights ? KernelKind::kProduct : KernelKind::kBatchedProduct;
  }

  KernelKind CheapKind(const Node& node) const {
    if (node.info->view_of >= 0) return KernelKind::kView;
    const std::optional<ir::Dim> flops = node.info->flops == nullptr
                                             ? std::nullopt
                                             : node.info->flops(graph_, node);
    const int64_t count = flops ? flops->Evaluate(bindings_).value_or(0) : 0;
    if (count == 0) return KernelKind::kMove;
    if (node.results.empty() || node.results[0] == ir::kNoValue) {
      return KernelKind::kElementwise;
    }
    const ir::Type& type = graph_.value(node.results[0]).type;
    const int64_t bits = BitWidth(type.element).value_or(32);
    const int64_t elements =
        Bytes(node.results[0]) / std::max<int64_t>(bits / 8, 1);
    return count >= ir::flops::kTranscendentalFlops * elements
               ? KernelKind::kTranscendental
               : KernelKind::kElementwise;
  }

  KernelKind ConvKind(const Node& node) const {
    const int64_t group = IntAttribute(node, "group", 1);
    if (group > 1 && node.operands.size() > 1 &&
        Extent(node.operands[1], 1) == 1) {
      return KernelKind::kDepthwiseConv;
    }
    const auto* kernel = IntsAttribute(node, "kernel_shape");
    const bool is_pointwise =
        kernel != nullptr && std::all_of(kernel->begin(), kernel->end(),
                                         [](int64_t k) { return k == 1; });
    return is_pointwise ? KernelKind::kPointwiseConv : KernelKind::kConv;
  }

  // docs/runtime_model.md, "What rewriting rests on".
  bool IsUnpacked(const Node& node) const {
    const bool is_conv = IsConv(node);
    int depth = 0;
    for (BlockId block = node.block; block != ir::kMainBlock;) {
      const ir::Block& b = graph_.block(block);
      if (b.owner == ir::kNoNode) break;
      depth += b.kind == ir::BlockKind::kSubgraph ? 1 : 0;
      block = graph_.node(b.owner).block;
    }
    if (depth == 0 || node.operands.size() < 2) return false;
    const ir::Value& weight = graph_.value(node.operands[1]);
    const bool is_captured = weight.block != node.block;
    return is_captured && (is_conv || depth > 1);
  }

  const ir::Graph& graph_;
  const Sizes& sizes_;
  const Cost& cost_;
  const ir::Bindings bindings_;
  std::vector<bool> constant_;  // by ValueId: once loaded
  std::vector<int> uses_;       // by ValueId
  // By ValueId: made by a convolution, or by what runs together with it.
  std::vector<bool> fused_;
};

}  // namespace

double SecondsOf(const NodeWork& work) {
  const time_facts::Row* row = RowOf(work.kind);
  if (row == nullptr) return 0;
  const double near =
      std::min(work.data_bytes, static_cast<double>(time_facts::kNearBytes));
  double flops = work.flops * row->flop_ps;
  double weights = work.weight_bytes * row->weight_ps;
  if (work.near_weights) weights *= time_facts::kNearWeights;
  if (work.unpacked) {
    if (work.kind == KernelKind::kProduct) {
      weights += work.weight_bytes * time_facts::kUnpackedWeightPs;
    } else {
      flops *= time_facts::kUnpackedConv;
    }
  }
  return row->fixed_us * kUs + kPs * (flops + weights + near * row->near_ps +
                                      (work.data_bytes - near) * row->far_ps);
}

bool StayInCache(double weight_bytes) {
  return weight_bytes <= static_cast<double>(time_facts::kNearWeightBytes);
}

NodeWork PartOf(const NodeWork& work, double parts, bool per_item,
                double whole_bytes) {
  NodeWork part = work;
  part.flops /= parts;
  const double whole = std::min(whole_bytes, work.data_bytes);
  part.data_bytes = (work.data_bytes - whole) / parts + whole;
  if (per_item) part.weight_bytes /= parts;
  return part;
}

double LoopSeconds(double trips) {
  return kUs * (time_facts::kBodyUs + time_facts::kTripUs * trips);
}

absl::StatusOr<TimeModel> TimeModel::Compute(const ir::Graph& graph,
                                             AnalysisManager& analyses) {
  ASSIGN_OR_RETURN(const Timeline* timeline, analyses.Get<Timeline>());
  ASSIGN_OR_RETURN(const Sizes* sizes, analyses.Get<Sizes>());
  ASSIGN_OR_RETURN(const Cost* cost, analyses.Get<Cost>());
  Builder builder(graph, *timeline, *sizes, *cost);
  TimeModel model;
  model.work_.resize(graph.num_nodes());
  model.seconds_.resize(graph.num_nodes());
  std::vector<double> block_seconds(graph.num_blocks());
  const auto& blocks = timeline->blocks();
  std::vector<double> block_weights(graph.num_blocks());
  for (const BlockId block : llvm::reverse(blocks)) {
    double total = 0;
    double& weights = block_weights[ir::Index(block)];
    for (NodeId id : timeline->steps(block)) {
      const Node& node = graph.node(id);
      if (node.blocks.empty()) {
        model.work_[ir::Index(id)] = builder.Work(id);
        weights += model.work_[ir::Index(id)].weight_bytes;
      }
      for (BlockId nested : node.blocks) {
        weights += block_weights[ir::Index(nested)];
      }
    }
    for (NodeId id : timeline->steps(block)) {
      const Node& node = graph.node(id);
      double& seconds = model.seconds_[ir::Index(id)];
      if (node.blocks.empty()) {
        NodeWork& work = model.work_[ir::Index(id)];
        work.near_weights =
            work.kind == KernelKind::kProduct && StayInCache(weights);
        seconds = SecondsOf(work);
      } else {
        double body = 0;
        for (BlockId nested : node.blocks) {
          body = std::max(body, block_seconds[ir::Index(nested)]);
        }
        const auto trips = static_cast<double>(builder.Trips(node));
        seconds =
            LoopSeconds(trips) + builder.StackSeconds(node) + body * trips;
      }
      total += seconds;
    }
    block_seconds[ir::Index(block)] = total;
    if (block == ir::kMainBlock) model.total_seconds_ = total;
  }
  model.runs_.assign(graph.num_blocks(), 1);
  for (const BlockId block : blocks) {
    const auto& steps = timeline->steps(block);
    for (NodeId id : steps) {
      const Node& node = graph.node(id);
      if (node.is_call) continue;
      for (BlockId nested : node.blocks) {
        model.runs_[ir::Index(nested)] =
            model.runs_[ir::Index(block)] *
            static_cast<double>(builder.Trips(node));
      }
    }
    model.shown_.insert(model.shown_.end(), steps.begin(), steps.end());
  }
  return model;
}

void TimeModel::Print(const ir::Graph& graph, std::string* out) const {
  for (NodeId id : shown_) {
    const NodeWork& w = work(id);
    const time_facts::Row* row = RowOf(w.kind);
    absl::StrAppendFormat(
        out,
        "%s: %s, %.0f flops, %.0f bytes of weights%s, %.0f of data, %.1f us\n",
        Printable(graph.DisplayName(id)),
        !graph.node(id).blocks.empty() ? "bodies"
        : row == nullptr               ? "none"
                                       : row->name,
        w.flops, w.weight_bytes, w.unpacked ? " unpacked" : "", w.data_bytes,
        node_seconds(id) / kUs);
  }
  absl::StrAppendFormat(out, "total %.1f us\n", total_seconds_ / kUs);
}

}  // namespace onnx_memopt::analysis
