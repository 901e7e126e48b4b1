// A plan by simulation: run the nodes in a given order, and when memory is
// short let go of the live value that is worth least. Worth is what it costs to
// make again, for each unit of memory and of time until it is read next; the
// rule of dynamic tensor rematerialisation, with the future known.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "plan/recompute_model.h"
#include "plan/recompute_search.h"

namespace onnx_memopt::plan {
namespace {

// A value that is not read any more by the order itself, but may be by what is
// made again, counts as read this many times the whole order later.
constexpr int32_t kNever = 4;

class Eviction {
 public:
  Eviction(const RecomputeModel& model, absl::Span<const int32_t> order,
           int64_t budget, const EvictionRule& rule, int64_t max_runs)
      : model_(model),
        order_(order),
        budget_(budget),
        rule_(rule),
        max_runs_(max_runs),
        uses_(model.n),
        next_use_(model.n, 0),
        live_at_(model.n, -1),
        locks_(model.n, 0),
        visited_(model.n, 0) {
    for (size_t i = 0; i < order.size(); ++i) {
      for (int32_t u : model.inputs[order[i]]) {
        uses_[u].push_back(static_cast<int32_t>(i));
      }
    }
    if (rule.moment >= 0 && !rule.goes_first.empty()) {
      moment_ = static_cast<int32_t>(
          std::find(order.begin(), order.end(), rule.moment) - order.begin());
      AddUsesByRemakes();
    }
    weight_.reserve(model.n);
    for (int32_t v = 0; v < model.n; ++v) {
      weight_.push_back(std::pow(static_cast<double>(model.memory[v]) + 1e-9,
                                 rule.memory_power));
    }
  }

  std::vector<int32_t> Run() {
    for (now_ = 0; now_ < static_cast<int32_t>(order_.size()); ++now_) {
      const int32_t v = order_[now_];
      if (!Make(v)) return {};
      for (int32_t u : model_.inputs[v]) DropIfDone(u, now_ + 1);
      DropIfDone(v, now_ + 1);
    }
    return sequence_;
  }

 private:
  struct Frame {
    int32_t node;
    size_t next_input;
  };

  // What goes first is made again when it is read after the moment, and then
  // its inputs are read too: they must not go as if nobody read them any more.
  void AddUsesByRemakes() {
    std::vector<int32_t> remade_at(model_.n, -1);
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      int32_t& at = remade_at[*it];
      std::vector<int32_t>& uses = uses_[*it];
      for (int32_t w : model_.users[*it]) {
        if (remade_at[w] < 0) continue;
        const auto place =
            std::lower_bound(uses.begin(), uses.end(), remade_at[w]);
        if (place == uses.end() || *place != remade_at[w]) {
          uses.insert(place, remade_at[w]);
        }
      }
      if (!rule_.goes_first[*it]) continue;
      const auto after = std::upper_bound(uses.begin(), uses.end(), moment_);
      if (after != uses.end()) at = *after;
    }
  }

  bool IsLive(int32_t v) const { return live_at_[v] >= 0; }

  // The step of `order` that reads the value next; far off if none.
  int32_t NextUse(int32_t v, int32_t from) {
    int32_t& i = next_use_[v];
    while (i < static_cast<int32_t>(uses_[v].size()) && uses_[v][i] < from) {
      ++i;
    }
    return i < static_cast<int32_t>(uses_[v].size())
               ? uses_[v][i]
               : kNever * static_cast<int32_t>(order_.size());
  }

  void DropIfDone(int32_t v, int32_t from) {
    if (!IsLive(v) || locks_[v] > 0) return;
    const int32_t use = NextUse(v, from);
    const bool eager =
        rule_.eager && from <= moment_ && use > moment_ && rule_.goes_first[v];
    if (eager || use >= static_cast<int32_t>(order_.size())) Drop(v);
  }

  void Drop(int32_t v) {
    const int32_t at = live_at_[v];
    live_[at] = live_.back();
    live_at_[live_[at]] = at;
    live_.pop_back();
    live_at_[v] = -1;
    live_memory_ -= model_.memory[v];
  }

  // Runs the node, after the inputs that are not live, and theirs. Inputs that
  // are there are locked until the node that reads them has run. False if that
  // takes too many runs.
  bool Make(int32_t node) {
    std::vector<Frame> stack = {{node, 0}};
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const std::vector<int32_t>& inputs = model_.inputs[frame.node];
      if (frame.next_input < inputs.size()) {
        const int32_t u = inputs[frame.next_input];
        if (IsLive(u)) {
          ++locks_[u];
          ++frame.next_input;
        } else {
          stack.push_back({u, 0});
        }
        continue;
      }
      const int32_t v = frame.node;
      stack.pop_back();
      MakeRoom(model_.memory[v]);
      sequence_.push_back(v);
      live_at_[v] = static_cast<int32_t>(live_.size());
      live_.push_back(v);
      live_memory_ += model_.memory[v];
      if (static_cast<int64_t>(sequence_.size()) > max_runs_) return false;
      for (int32_t u : inputs) --locks_[u];
    }
    return true;
  }

  void MakeRoom(int64_t memory) {
    while (live_memory_ > budget_ - memory) {
      int32_t worst = -1;
      double least = 0;
      bool worst_first = false;
      // What was let go at once is like any other value when it is made again.
      const bool choosing =
          !rule_.goes_first.empty() && (!rule_.eager || now_ <= moment_);
      for (int32_t v : live_) {
        if (locks_[v] > 0 || model_.memory[v] == 0) continue;
        const bool first = choosing && rule_.goes_first[v];
        if (worst_first && !first) continue;
        const double worth = Worth(v);
        if (first == worst_first && worst >= 0 &&
            (worth > least || (worth == least && v > worst))) {
          continue;
        }
        worst = v;
        worst_first = first;
        least = worth;
      }
      if (worst < 0) return;
      Drop(worst);
    }
  }

  double Worth(int32_t v) {
    const double distance = NextUse(v, now_) - now_ + 1;
    return (CostAgain(v) + 1e-9) /
           (weight_[v] * std::pow(distance, rule_.distance_power));
  }

  // Of the node, and of those before it that are not live either.
  double CostAgain(int32_t node) {
    double cost = 0;
    ++visit_;
    stack_.assign(1, node);
    visited_[node] = visit_;
    int32_t left = rule_.neighbours;
    while (!stack_.empty()) {
      const int32_t v = stack_.back();
      stack_.pop_back();
      cost += static_cast<double>(model_.cost[v]);
      if (--left < 0) break;
      for (int32_t u : model_.inputs[v]) {
        if (IsLive(u) || visited_[u] == visit_) continue;
        visited_[u] = visit_;
        stack_.push_back(u);
      }
    }
    return cost;
  }

  const RecomputeModel& model_;
  absl::Span<const int32_t> order_;
  int64_t budget_;
  EvictionRule rule_;
  int64_t max_runs_;
  std::vector<std::vector<int32_t>> uses_;  // by node: steps of `order_`
  std::vector<int32_t> next_use_;           // by node: index in uses_
  std::vector<double> weight_;
  std::vector<int32_t> live_;
  std::vector<int32_t> live_at_;  // by node: index in live_, or -1
  std::vector<int32_t> locks_;
  std::vector<int64_t> visited_;
  std::vector<int32_t> stack_;
  std::vector<int32_t> sequence_;
  int64_t live_memory_ = 0;
  int64_t visit_ = 0;
  int32_t now_ = 0;
  int32_t moment_ = -1;  // a step of `order_`
};

}  // namespace

std::vector<int32_t> EvictGreedily(const RecomputeModel& model,
                                   absl::Span<const int32_t> order,
                                   int64_t budget, const EvictionRule& rule,
                                   int64_t max_runs) {
  return Eviction(model, order, budget, rule, max_runs).Run();
}

}  // namespace onnx_memopt::plan
