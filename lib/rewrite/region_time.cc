#include "rewrite/region_time.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "onnx_memopt/ir/type.h"
#include "onnx_memopt/rewrite/outline.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Dim;
using ir::kNoValue;
using ir::ValueId;

// Of the time that is left, for one region.
constexpr double kTimeShare = 1.0 / 64;

}  // namespace

RegionTime::RegionTime(const ir::Graph& graph, const analysis::Sizes& sizes,
                       const analysis::TimeModel& time, Limits limits)
    : graph_(graph),
      sizes_(sizes),
      time_(time),
      bindings_(analysis::AssumedBindings(graph)),
      limits_(limits) {}

// Computed operands that each part reads as a whole.
double RegionTime::WholeBytes(const SplitNode& split) const {
  const ir::Node& node = graph_.node(split.node);
  if (time_.work(split.node).kind == analysis::KernelKind::kMove) return 0;
  double bytes = 0;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId operand = node.operands[i];
    if (operand == kNoValue || i >= split.way.operands.size() ||
        split.way.operands[i].axis >= 0 ||
        graph_.value(operand).weight != ir::kNoWeight) {
      continue;
    }
    bytes += static_cast<double>(sizes_.bytes(operand).value_or(0));
  }
  return bytes;
}

double RegionTime::AddedSeconds(const SplitPlan& plan, const Dim& parts,
                                const RegionWindows* windows) const {
  const auto count = static_cast<double>(parts.Evaluate(bindings_).value_or(1));
  double added = analysis::LoopSeconds(count);
  double weights = 0;
  for (const SplitNode& split : plan.nodes) {
    weights += time_.work(split.node).weight_bytes;
  }
  const bool near = analysis::StayInCache(weights);
  for (const SplitNode& split : plan.nodes) {
    const analysis::NodeWork& work = time_.work(split.node);
    // Filters are read for each image.
    const bool per_item =
        IsConvolution(graph_.node(split.node)) && split.way.result_axes[0] == 0;
    analysis::NodeWork part = PartOf(work, count, per_item, WholeBytes(split));
    part.near_weights = near && work.kind == analysis::KernelKind::kProduct;
    const double overlap =
        windows == nullptr ? 1 : Overlap(split, count, *windows);
    added += count * overlap * SecondsOf(part) - SecondsOf(work);
  }
  return time_.runs(plan.block) * added;
}

// Rows of the result in all parts, over those that there are.
double RegionTime::Overlap(const SplitNode& split, double count,
                           const RegionWindows& windows) const {
  const ValueId result = graph_.node(split.node).results[0];
  if (result == kNoValue) return 1;
  const int axis = split.way.result_axes[0];
  const int64_t extent =
      (*graph_.value(result).type.shape)[axis]->Evaluate(bindings_).value_or(0);
  const int64_t size = windows.size(result, axis, windows.level(split.node))
                           .Evaluate(bindings_)
                           .value_or(0);
  return extent <= 0
             ? 1
             : count * static_cast<double>(size) / static_cast<double>(extent);
}

bool RegionTime::Keeps(const SplitPlan& plan, const Dim& parts,
                       const RegionWindows* windows) const {
  const double added = AddedSeconds(plan, parts, windows);
  if (added <= 0) return true;
  const double left = limits_.max_seconds - time_.total_seconds();
  if (std::isinf(limits_.max_slowdown)) return added <= left;
  double region = 0;
  for (const SplitNode& split : plan.nodes) {
    region += time_.runs(plan.block) * time_.node_seconds(split.node);
  }
  return added <= left &&
         added <= std::max(limits_.max_slowdown * region, kTimeShare * left);
}

}  // namespace onnx_memopt::rewrite
