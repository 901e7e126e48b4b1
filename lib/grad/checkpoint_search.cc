#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "grad/segments.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/grad/checkpoint.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

// Tensors of the floor that are named.
constexpr size_t kMaxNamed = 5;

// 1, 2, 3, 4, 6, 8, 12, ...: steps of about the square root of two.
std::vector<int> SegmentCounts(int most) {
  std::vector<int> counts;
  for (int n = 2; n <= most; n *= 2) {
    counts.push_back(n);
    if (n + n / 2 <= most && n > 1) counts.push_back(n + n / 2);
  }
  return counts;
}

}  // namespace

absl::StatusOr<CheckpointSearch> SearchCheckpoints(const StepInfo& step,
                                                   const ir::Graph& graph,
                                                   bool early,
                                                   const FinishStep& finish) {
  ASSIGN_OR_RETURN(const ForwardPass forward,
                   ForwardPass::Compute(graph, step));
  std::vector<CheckpointOptions> candidates = {{.segments = 1, .early = early}};
  for (const ir::RecomputeCost most :
       {ir::RecomputeCost::kCheap, ir::RecomputeCost::kModerate,
        ir::RecomputeCost::kExpensive}) {
    for (int segments : SegmentCounts(forward.MaxSegments())) {
      candidates.push_back(
          {.segments = segments, .most = most, .early = early});
    }
  }
  CheckpointSearch search;
  std::vector<CheckpointPoint> points;
  int64_t floor_bytes = INT64_MAX;
  std::set<std::pair<size_t, double>> seen;
  for (const CheckpointOptions& options : candidates) {
    ir::Graph trial = graph.Clone();
    ASSIGN_OR_RETURN(const CheckpointResult made,
                     InsertCheckpoints(options, step, &trial));
    if (!seen.emplace(made.segments.size(), made.seconds).second) continue;
    RETURN_IF_ERROR(finish(trial));
    ASSIGN_OR_RETURN(const analysis::RuntimePrediction predicted,
                     rewrite::PredictForRewrite(trial));
    CheckpointPoint point = {.options = options};
    point.peak_bytes =
        std::max(predicted.peak_first_bytes, predicted.peak_steady_bytes);
    point.overhead = made.overhead;
    points.push_back(point);
    if (point.peak_bytes >= floor_bytes) continue;
    floor_bytes = point.peak_bytes;
    search.floor.clear();
    for (const analysis::LiveBuffer& live : predicted.at_peak) {
      if (search.floor.size() == kMaxNamed) break;
      search.floor.emplace_back(trial.value(live.value).name, live.size_bytes);
    }
  }
  // By overhead; each point has to lower the peak.
  std::stable_sort(points.begin(), points.end(),
                   [](const CheckpointPoint& a, const CheckpointPoint& b) {
                     return std::pair(a.overhead, a.peak_bytes) <
                            std::pair(b.overhead, b.peak_bytes);
                   });
  for (const CheckpointPoint& point : points) {
    if (search.curve.empty() ||
        point.peak_bytes < search.curve.back().peak_bytes) {
      search.curve.push_back(point);
    }
  }
  return search;
}

}  // namespace onnx_memopt::grad
