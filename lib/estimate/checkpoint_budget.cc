// The cheapest checkpoints that fit, and the curve of memory against
// recomputation.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "estimate/checkpoint_plan.h"
#include "estimate/evaluate.h"
#include "onnx_memopt/estimate/configuration.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::estimate {
namespace {

constexpr std::array<CheckpointKind, 4> kSimpleKinds = {
    CheckpointKind::kNone, CheckpointKind::kSelective, CheckpointKind::kSqrt,
    CheckpointKind::kFull};

class BudgetSearch {
 public:
  BudgetSearch(const Model::View& view, const Configuration& configuration,
               const EvaluateOptions& options)
      : view_(view),
        c_(configuration),
        options_(options),
        chooser_(view.facts, view.blocks, WholeStep(view, configuration)) {}

  struct Plan {
    std::vector<Checkpoint> checkpoints;
    int64_t total_bytes = 0;
    double overhead = 0;
  };

  // The cheapest that takes no more than the budget; nullopt: none was found.
  absl::StatusOr<std::optional<Plan>> Cheapest(int64_t budget_bytes) {
    std::optional<Plan> best;
    const auto consider =
        [&](std::vector<Checkpoint> checkpoints) -> absl::StatusOr<bool> {
      ASSIGN_OR_RETURN(Plan plan, Evaluated(std::move(checkpoints)));
      if (least_bytes_ == 0 || plan.total_bytes < least_bytes_) {
        least_bytes_ = plan.total_bytes;
      }
      if (plan.total_bytes > budget_bytes) return false;
      if (!best || plan.overhead < best->overhead) best = std::move(plan);
      return true;
    };
    Configuration simple = c_;
    for (const CheckpointKind kind : kSimpleKinds) {
      simple.checkpoint = kind;
      ASSIGN_OR_RETURN(const bool fits, consider(CheckpointsOf(view_, simple)));
      if (fits && best->checkpoints.empty()) return best;
    }
    // The more forward may keep, the less is computed again.
    int64_t low = 0;
    int64_t high = chooser_.all_bytes();
    constexpr int kHalvings = 12;
    for (int i = 0; i < kHalvings && high - low > 1; ++i) {
      const int64_t middle = low + (high - low) / 2;
      std::optional<std::vector<Checkpoint>> plan = chooser_.Choose(middle);
      bool room = !plan.has_value();
      if (plan) {
        ASSIGN_OR_RETURN(room, consider(*std::move(plan)));
      }
      (room ? low : high) = middle;
    }
    if (best) RETURN_IF_ERROR(DropNeedless(budget_bytes, &*best));
    return best;
  }

  // Keeps what there is room for, the costliest first.
  absl::Status DropNeedless(int64_t budget_bytes, Plan* plan) const {
    std::vector<Checkpoint> by_cost = plan->checkpoints;
    std::stable_sort(by_cost.begin(), by_cost.end(),
                     [&](const Checkpoint& a, const Checkpoint& b) {
                       return Cost(a) > Cost(b);
                     });
    constexpr size_t kMostTries = 32;
    by_cost.resize(std::min(by_cost.size(), kMostTries));
    for (const Checkpoint& dropped : by_cost) {
      std::vector<Checkpoint> rest;
      for (const Checkpoint& c : plan->checkpoints) {
        if (c.begin != dropped.begin) rest.push_back(c);
      }
      ASSIGN_OR_RETURN(Plan without, Evaluated(std::move(rest)));
      if (without.total_bytes <= budget_bytes) *plan = std::move(without);
    }
    return absl::OkStatus();
  }

  int64_t Cost(const Checkpoint& c) const {
    return FlopsOf(view_.facts, c.begin, c.end, c_.batch);
  }

  absl::StatusOr<Plan> Evaluated(std::vector<Checkpoint> checkpoints) const {
    ASSIGN_OR_RETURN(const Estimate estimate,
                     EvaluateWith(view_, c_, options_, checkpoints));
    return Plan{.checkpoints = std::move(checkpoints),
                .total_bytes = estimate.worst().total_bytes,
                .overhead = estimate.recompute_overhead};
  }

  const CheckpointChooser& chooser() const { return chooser_; }
  // Of all plans that were considered.
  int64_t least_bytes() const { return least_bytes_; }

 private:
  const Model::View& view_;
  const Configuration& c_;
  const EvaluateOptions& options_;
  CheckpointChooser chooser_;
  int64_t least_bytes_ = 0;
};

}  // namespace

absl::StatusOr<Estimate> EvaluateBudget(const Model::View& view,
                                        const Configuration& configuration,
                                        const EvaluateOptions& options) {
  BudgetSearch search(view, configuration, options);
  const int64_t budget = configuration.checkpoint_budget_bytes;
  ASSIGN_OR_RETURN(const auto plan, search.Cheapest(budget));
  if (plan) {
    return EvaluateWith(view, configuration, options, plan->checkpoints);
  }
  return absl::OutOfRangeError(
      absl::StrCat("--checkpoint ", FormatBytes(budget),
                   ": recomputation alone does not get there; the least is "
                   "about ",
                   FormatBytes(search.least_bytes())));
}

absl::StatusOr<std::vector<CheckpointPoint>> CheckpointCurve(
    Model* model, const Configuration& configuration,
    const EvaluateOptions& options) {
  ASSIGN_OR_RETURN(const Model::View* view, model->Get(configuration));
  std::vector<CheckpointPoint> points;
  if (!configuration.training) return points;
  const BudgetSearch search(*view, configuration, options);
  const auto add = [&](const Configuration& c,
                       std::vector<Checkpoint> checkpoints) -> absl::Status {
    ASSIGN_OR_RETURN(const auto plan, search.Evaluated(std::move(checkpoints)));
    points.push_back({.configuration = c,
                      .total_bytes = plan.total_bytes,
                      .overhead = plan.overhead});
    if (c.checkpoint == CheckpointKind::kBudget) {
      points.back().configuration.checkpoint_budget_bytes = plan.total_bytes;
    }
    return absl::OkStatus();
  };
  Configuration c = configuration;
  for (const CheckpointKind kind : kSimpleKinds) {
    c.checkpoint = kind;
    std::vector<Checkpoint> checkpoints = CheckpointsOf(*view, c);
    if (checkpoints.empty() && kind != CheckpointKind::kNone) continue;
    RETURN_IF_ERROR(add(c, std::move(checkpoints)));
  }
  c.checkpoint = CheckpointKind::kBudget;
  for (const int percent : {80, 60, 45, 32, 22, 14, 8}) {
    std::optional<std::vector<Checkpoint>> plan =
        search.chooser().Choose(search.chooser().all_bytes() / 100 * percent);
    if (!plan || plan->empty()) continue;
    RETURN_IF_ERROR(add(c, *std::move(plan)));
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const CheckpointPoint& a, const CheckpointPoint& b) {
                     return std::pair(a.overhead, a.total_bytes) <
                            std::pair(b.overhead, b.total_bytes);
                   });
  std::vector<CheckpointPoint> curve;
  for (const CheckpointPoint& point : points) {
    if (curve.empty() || point.total_bytes < curve.back().total_bytes) {
      curve.push_back(point);
    }
  }
  return curve;
}

}  // namespace onnx_memopt::estimate
