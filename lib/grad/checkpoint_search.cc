// The plans of CheckpointPlanner::Search: the step as it is, the usual rules,
// segments of any number, and those of lib/plan for budgets between the least
// working set and what the step takes as it is. Each is written and predicted:
// what the planner counts is not all that the runtime takes.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "grad/segments.h"
#include "grad/step_units.h"
#include "onnx_memopt/grad/checkpoint.h"
#include "onnx_memopt/plan/recompute.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::grad {
namespace {

// Budgets, as parts of the way from the least working set to all that is live
// without recomputation.
constexpr double kShares[] = {0, 0.03, 0.06, 0.1, 0.15, 0.2, 0.28, 0.4, 0.6};
// Steps towards the cheapest plan within the budget.
constexpr int kRefinements = 5;
// Segments that the forward pass is cut into.
constexpr int kSegments[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48};

// By overhead; each point has to lower the peak.
std::vector<CheckpointPoint> Best(std::vector<CheckpointPoint> points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const CheckpointPoint& a, const CheckpointPoint& b) {
                     return std::pair(a.plan.overhead, a.peak_bytes) <
                            std::pair(b.plan.overhead, b.peak_bytes);
                   });
  std::vector<CheckpointPoint> curve;
  for (CheckpointPoint& point : points) {
    if (curve.empty() || point.peak_bytes < curve.back().peak_bytes) {
      curve.push_back(std::move(point));
    }
  }
  return curve;
}

// A move of the planner takes as long as the plan is.
int64_t MovesFor(size_t units) {
  constexpr int64_t kWork = 100'000'000;
  constexpr int64_t kMovesPerUnit = 200;
  const auto n = static_cast<int64_t>(units) + 1;
  return std::max<int64_t>(std::min(kMovesPerUnit * n, kWork / n), 20'000);
}

}  // namespace

int64_t PlannedBudget(int64_t budget, bool arena) {
  constexpr int64_t kMostConstant = 4 << 20;
  const int64_t constant = std::min(kMostConstant, budget / 16);
  return budget - budget / (arena ? 16 : 48) - constant / (arena ? 1 : 2);
}

absl::Status CheckpointPlanner::AddPoint(
    std::vector<int32_t> runs, CheckpointSearch* search,
    std::vector<CheckpointPoint>* points) const {
  if (!units_->CanRun(runs)) return absl::OkStatus();
  for (const CheckpointPoint& point : *points) {
    if (point.plan.runs == runs) return absl::OkStatus();
  }
  CheckpointPoint point = {.plan = PlanOf(std::move(runs))};
  ASSIGN_OR_RETURN(point.peak_bytes, PeakOf(point.plan));
  const bool least = std::all_of(points->begin(), points->end(),
                                 [&](const CheckpointPoint& other) {
                                   return other.peak_bytes > point.peak_bytes;
                                 });
  if (least) search->floor = HeldAtPeak(point.plan);
  points->push_back(std::move(point));
  return absl::OkStatus();
}

std::vector<int32_t> CheckpointPlanner::SequenceOf(
    const CheckpointPlan& plan) const {
  return units_->SequenceOf(plan.runs.empty() ? units_->PlainRuns()
                                              : plan.runs);
}

absl::StatusOr<CheckpointSearch> CheckpointPlanner::Search(
    std::optional<int64_t> budget) const {
  CheckpointSearch search;
  std::vector<CheckpointPoint> points;
  RETURN_IF_ERROR(AddPoint({}, &search, &points));
  RETURN_IF_ERROR(AddPoint(units_->PlainRuns(), &search, &points));
  RETURN_IF_ERROR(AddPoint(Sqrt().runs, &search, &points));
  if (absl::StatusOr<CheckpointPlan> layers = PerLayer(); layers.ok()) {
    RETURN_IF_ERROR(AddPoint(std::move(layers->runs), &search, &points));
  }
  for (const int segments : kSegments) {
    RETURN_IF_ERROR(
        AddPoint(RunsOfSegments(*units_, CutIntoSegments(*units_, segments)),
                 &search, &points));
  }
  const plan::RecomputeProblem& problem = units_->problem();
  ASSIGN_OR_RETURN(const plan::WorkingSet floor, LargestWorkingSet(problem));
  ASSIGN_OR_RETURN(
      const plan::RecomputeReplay plain,
      ReplayRecompute(problem, units_->SequenceOf(units_->PlainRuns())));
  for (const double share : kShares) {
    RETURN_IF_ERROR(
        Plan(floor.memory +
                 static_cast<int64_t>(
                     share * static_cast<double>(plain.peak - floor.memory)),
             &search, &points));
  }
  if (budget) {
    RETURN_IF_ERROR(Refine(PlannedBudget(*budget, options_.runtime.arena),
                           &search, &points));
  }
  search.curve = Best(std::move(points));
  return search;
}

absl::Status CheckpointPlanner::Plan(
    int64_t budget, CheckpointSearch* search,
    std::vector<CheckpointPoint>* points) const {
  const plan::RecomputeProblem& problem = units_->problem();
  plan::RecomputeOptions options = {
      .budget = budget,
      .max_moves = options_.max_moves > 0 ? options_.max_moves
                                          : MovesFor(units_->size())};
  // What the choices at the critical moment buy (docs/planning.md) is not worth
  // half of the time here.
  options.methods.choices = false;
  // The cheapest that is known within the budget, or the one that takes least.
  std::pair<int64_t, int64_t> best;
  for (const CheckpointPoint& point : *points) {
    std::vector<int32_t> sequence = SequenceOf(point.plan);
    ASSIGN_OR_RETURN(const plan::RecomputeReplay replay,
                     ReplayRecompute(problem, sequence));
    const std::pair<int64_t, int64_t> now = {
        std::max<int64_t>(replay.peak - budget, 0), replay.cost};
    if (!options.initial_sequence.empty() && now >= best) continue;
    best = now;
    options.initial_sequence = std::move(sequence);
  }
  ASSIGN_OR_RETURN(const plan::RecomputeResult result,
                   PlanRecompute(problem, options));
  if (result.sequence.empty()) return absl::OkStatus();
  return AddPoint(units_->RunsOf(result.sequence), search, points);
}

absl::Status CheckpointPlanner::Refine(
    int64_t budget, CheckpointSearch* search,
    std::vector<CheckpointPoint>* points) const {
  const plan::RecomputeProblem& problem = units_->problem();
  for (int step = 0; step < kRefinements; ++step) {
    const std::vector<CheckpointPoint> curve = Best(*points);
    const auto within = std::find_if(
        curve.begin(), curve.end(),
        [&](const CheckpointPoint& p) { return p.peak_bytes <= budget; });
    if (within == curve.begin() || within == curve.end() ||
        within->plan.runs.empty()) {
      return absl::OkStatus();
    }
    const auto over = within - 1;
    ASSIGN_OR_RETURN(const plan::RecomputeReplay low,
                     ReplayRecompute(problem, SequenceOf(within->plan)));
    ASSIGN_OR_RETURN(const plan::RecomputeReplay high,
                     ReplayRecompute(problem, SequenceOf(over->plan)));
    // Where the peak would be that of the budget if it went in a line.
    const double share =
        static_cast<double>(budget - within->peak_bytes) /
        static_cast<double>(over->peak_bytes - within->peak_bytes);
    const int64_t target =
        low.peak +
        static_cast<int64_t>(share * static_cast<double>(high.peak - low.peak));
    if (target <= low.peak) return absl::OkStatus();
    const size_t before = points->size();
    RETURN_IF_ERROR(Plan(target, search, points));
    if (points->size() == before) return absl::OkStatus();
  }
  return absl::OkStatus();
}

}  // namespace onnx_memopt::grad
