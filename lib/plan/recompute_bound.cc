// What no plan can go below: memory (working sets) and cost (cuts).
//
// The cost bound looks at the moment when node j runs for the first time. All
// ancestors of j have run; no descendant has. What a descendant reads from the
// ancestors is live at that moment, or is made again later; and what is made
// again later reads values that, again, are live or made again:
//
//        ancestors        | j |    descendants
//     a -> b -> c -> ...  | j | ... reads c, b
//
// Live values, j and its inputs fit the budget together. Let `live` and
// `again` be choices per ancestor; minimise the cost of `again`. With a price
// on memory instead of the budget this is a closure problem, and for any price
// its value less price x budget is a lower bound; the best price is found by
// Newton's method on the concave bound. Nodes that are neither ancestors nor
// descendants are taken to be free.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/plan/recompute.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"
#include "plan/recompute_closure.h"
#include "plan/recompute_model.h"
#include "plan/recompute_search.h"

namespace onnx_memopt::plan {
namespace {

// Nodes beyond which pairs of them are not looked at.
constexpr int64_t kMaxPairWork = 20'000'000;
// Work of all flow problems together, in choices x problems.
constexpr int64_t kMaxFlowWork = 200'000;
constexpr int kMaxPrices = 20;
constexpr double kRounding = 1e-9;

int64_t MemoryOf(const RecomputeModel& model,
                 const std::vector<int32_t>& values) {
  int64_t sum = 0;
  for (int32_t v : values) sum += model.memory[v];
  return sum;
}

std::vector<int32_t> WithInputs(const RecomputeModel& model, int32_t node) {
  std::vector<int32_t> set = model.inputs[node];
  set.push_back(node);
  std::sort(set.begin(), set.end());
  return set;
}

// One of the inputs of `node` is made last while the others are live: the
// least set over which one that is.
WorkingSet WithLastInput(const RecomputeModel& model, int32_t node) {
  WorkingSet best;
  std::vector<int32_t> own = model.inputs[node];
  std::sort(own.begin(), own.end());
  for (int32_t last : own) {
    const std::vector<int32_t> more = WithInputs(model, last);
    std::vector<int32_t> set;
    std::set_union(own.begin(), own.end(), more.begin(), more.end(),
                   std::back_inserter(set));
    const int64_t memory = MemoryOf(model, set);
    if (best.node >= 0 && memory >= best.memory) continue;
    best = {.memory = memory,
            .node = last,
            .before = node,
            .values = std::move(set)};
  }
  return best;
}

// All nodes that `next` leads to from `node`, without it.
std::vector<bool> Reach(const std::vector<std::vector<int32_t>>& next,
                        int32_t node) {
  std::vector<bool> seen(next.size(), false);
  std::vector<int32_t> stack = {node};
  while (!stack.empty()) {
    const int32_t v = stack.back();
    stack.pop_back();
    for (int32_t w : next[v]) {
      if (seen[w]) continue;
      seen[w] = true;
      stack.push_back(w);
    }
  }
  return seen;
}

// The moment when `node` first runs.
class Moment {
 public:
  Moment(const RecomputeModel& model, int32_t node, int64_t budget)
      : model_(model), live_(model.n, -1), again_(model.n, -1) {
    at_.node = node;
    at_.required.assign(model.n, false);
    const std::vector<bool> before = Reach(model.inputs, node);
    const std::vector<bool> after = Reach(model.users, node);
    for (int32_t u : model.order) {
      if (!before[u]) continue;
      at_.ancestors.push_back(u);
      for (int32_t w : model.users[u]) {
        if (!after[w]) continue;
        at_.required[u] = true;
        break;
      }
    }
    at_.held.assign(model.n, false);
    at_.room =
        static_cast<double>(budget) - static_cast<double>(model.memory[node]);
    for (int32_t u : model.inputs[node]) {
      at_.held[u] = true;
      at_.room -= static_cast<double>(model.memory[u]);
    }
  }

  // Of the last solution that fits the budget.
  const std::vector<bool>& again() const { return chosen_again_; }
  const RecomputeMoment& at() const { return at_; }
  size_t num_ancestors() const { return at_.ancestors.size(); }
  // How much more would be live than fits, were nothing made again.
  double Excess() const {
    double sum = 0;
    for (int32_t u : at_.ancestors) {
      if (at_.required[u]) sum += Memory(u);
    }
    return sum - at_.room;
  }

  // The largest bound on the cost of what is made again.
  double Bound(const std::function<bool()>& stop) {
    if (Excess() <= 0) return 0;
    Build();
    // Lines of the bound: at price 0 all is live, at a high price as little as
    // can be.
    double low_value = 0;
    double low_slope = Excess();
    double best = 0;
    double high = 1;
    double high_value = 0;
    double high_slope = 0;
    for (int i = 0; i < 200; ++i, high *= 4) {
      Evaluate(high, high_value, high_slope);
      best = std::max(best, high_value);
      if (high_slope <= 0) NoteAgain();
      if (high_slope <= 0 || (stop && stop())) break;
      low_value = high_value - high_slope * high;
      low_slope = high_slope;
    }
    if (high_slope > 0) return best;
    double high_at_zero = high_value - high_slope * high;
    for (int i = 0; i < kMaxPrices && !(stop && stop()); ++i) {
      const double price =
          (high_at_zero - low_value) / (low_slope - high_slope);
      if (!(price > 0) || !std::isfinite(price)) break;
      const double crossing = low_value + low_slope * price;
      double value = 0;
      double slope = 0;
      Evaluate(price, value, slope);
      best = std::max(best, value);
      if (value >= crossing - 1e-9 * std::abs(crossing)) break;
      if (slope > 0) {
        low_value = value - slope * price;
        low_slope = slope;
      } else {
        NoteAgain();
        high_at_zero = value - slope * price;
        high_slope = slope;
      }
    }
    return best;
  }

 private:
  // What keeping the value takes beyond what is live anyway.
  double Memory(int32_t node) const {
    return at_.held[node] ? 0 : static_cast<double>(model_.memory[node]);
  }

  void NoteAgain() {
    chosen_again_.assign(model_.n, false);
    for (int32_t u : at_.ancestors) {
      // A value that is neither live nor made again has no reader left.
      chosen_again_[u] = closure_.chosen(again_[u]);
    }
  }

  // Choices: a value is there (live or made again), and it is made again.
  void Build() {
    for (int32_t u : at_.ancestors) {
      live_[u] = closure_.AddChoice(0);
      again_[u] = closure_.AddChoice(0);
    }
    for (int32_t u : at_.ancestors) {
      closure_.AddForce(again_[u], live_[u]);
      for (int32_t x : model_.inputs[u]) {
        closure_.AddForce(again_[u], live_[x]);
      }
    }
    for (int32_t u : at_.ancestors) {
      if (at_.required[u]) closure_.Require(live_[u]);
    }
  }

  void Evaluate(double price, double& value, double& slope) {
    for (int32_t u : at_.ancestors) {
      const double rent = price * Memory(u);
      closure_.SetWeight(live_[u], rent);
      closure_.SetWeight(again_[u], static_cast<double>(model_.cost[u]) - rent);
    }
    value = closure_.Solve() - price * at_.room;
    double memory = 0;
    for (int32_t u : at_.ancestors) {
      if (closure_.chosen(live_[u]) && !closure_.chosen(again_[u])) {
        memory += Memory(u);
      }
    }
    slope = memory - at_.room;
  }

  const RecomputeModel& model_;
  RecomputeMoment at_;
  ClosureProblem closure_;
  std::vector<int32_t> live_;
  std::vector<int32_t> again_;
  std::vector<bool> chosen_again_;
};

}  // namespace

WorkingSet FindWorkingSet(const RecomputeModel& model) {
  WorkingSet best;
  int64_t pairs = 0;
  for (int32_t v = 0; v < model.n; ++v) {
    std::vector<int32_t> own = WithInputs(model, v);
    const int64_t memory = MemoryOf(model, own);
    if (best.node < 0 || memory > best.memory) {
      best = {.memory = memory, .node = v, .before = -1, .values = own};
    }
    pairs += static_cast<int64_t>(own.size() * own.size());
    for (int32_t u : model.inputs[v]) {
      pairs += static_cast<int64_t>(model.inputs[u].size());
    }
    if (pairs > kMaxPairWork || model.inputs[v].empty()) continue;
    WorkingSet last = WithLastInput(model, v);
    if (last.memory > best.memory) best = std::move(last);
  }
  return best;
}

CostBound FindCostBound(const RecomputeModel& model, int64_t budget,
                        const std::function<bool()>& stop) {
  // Moments by how much has to go: those first, as many as the work allows.
  std::vector<std::pair<double, int32_t>> moments;
  const int64_t reach_work =
      std::max<int64_t>(1, 10'000'000 / std::max<int64_t>(1, int64_t{model.n}));
  const int32_t step =
      static_cast<int32_t>(std::max<int64_t>(1, model.n / reach_work));
  for (int32_t i = 0; i < model.n; i += step) {
    if (stop && stop()) break;
    const int32_t v = model.order[i];
    const double excess = Moment(model, v, budget).Excess();
    if (excess > 0) moments.emplace_back(-excess, v);
  }
  std::sort(moments.begin(), moments.end());
  double bound = 0;
  std::vector<bool> again;
  RecomputeMoment at;
  int64_t work = 0;
  for (const auto& [excess, v] : moments) {
    Moment moment(model, v, budget);
    work += static_cast<int64_t>(moment.num_ancestors());
    const double own = moment.Bound(stop);
    if (own > bound) {
      bound = own;
      again = moment.again();
      at = moment.at();
    }
    if (work > kMaxFlowWork / kMaxPrices || (stop && stop())) break;
  }
  const double base = static_cast<double>(model.base_cost);
  bound = std::ceil(bound - kRounding * (base + bound));
  if (!(bound > 0)) return {.cost = model.base_cost};
  const int64_t more = bound >= 0x1p62 ? std::numeric_limits<int64_t>::max()
                                       : static_cast<int64_t>(bound);
  return {.cost = SaturatingAdd(model.base_cost, more),
          .again = std::move(again),
          .moment = std::move(at)};
}

absl::StatusOr<WorkingSet> LargestWorkingSet(const RecomputeProblem& problem) {
  ASSIGN_OR_RETURN(const RecomputeModel model, RecomputeModel::Create(problem));
  return FindWorkingSet(model);
}

absl::StatusOr<int64_t> RecomputeCostBound(const RecomputeProblem& problem,
                                           int64_t budget) {
  ASSIGN_OR_RETURN(const RecomputeModel model, RecomputeModel::Create(problem));
  return FindCostBound(model, budget, {}).cost;
}

}  // namespace onnx_memopt::plan
