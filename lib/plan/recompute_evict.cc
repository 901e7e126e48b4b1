#include "plan/recompute_evict.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "plan/recompute_model.h"

namespace onnx_memopt::plan {
namespace {

// A value that is not read any more by the order itself, but may be by what is
// made again, counts as read this many times the whole order later.
constexpr int32_t kNever = 4;
constexpr size_t kRunsPerCheck = 64;
constexpr double kUnknown = -1;
// A node may be listed several times: a bound on that.
constexpr size_t kMaxWatchers = 1'024;

}  // namespace

Evictor::Evictor(const RecomputeModel& model, absl::Span<const int32_t> order,
                 int64_t budget)
    : model_(model),
      order_(order),
      budget_(budget),
      order_uses_(model.n),
      step_of_(model.n),
      uses_(model.n),
      live_at_(model.n),
      watchers_(model.n),
      visited_(model.n, 0) {
  for (size_t i = 0; i < order.size(); ++i) {
    step_of_[order[i]] = static_cast<int32_t>(i);
    for (int32_t u : model.inputs[order[i]]) {
      order_uses_[u].push_back(static_cast<int32_t>(i));
    }
  }
  uses_ = order_uses_;
}

void Evictor::Reset(const EvictionRule& rule) {
  rule_ = &rule;
  for (int32_t v : changed_) uses_[v] = order_uses_[v];
  changed_.clear();
  moment_ = -1;
  if (rule.moment >= 0 && !rule.goes_first.empty()) {
    moment_ = step_of_[rule.moment];
    AddUsesByRemakes();
  }
  if (power_ != rule.distance_power || distance_.empty()) {
    power_ = rule.distance_power;
    distance_.clear();
    for (int32_t i = 0; i <= kNever * model_.n + 1; ++i) {
      distance_.push_back(std::pow(static_cast<double>(i), power_));
    }
  }
  next_use_.assign(model_.n, 0);
  live_.clear();
  is_live_.assign(model_.n, 0);
  cost_again_.assign(model_.n, kUnknown);
  for (std::vector<int32_t>& watchers : watchers_) watchers.clear();
  locks_.assign(model_.n, 0);
  sequence_.clear();
  cost_ = 0;
  fits_ = true;
  live_memory_ = 0;
}

bool Evictor::Run(const EvictionRule& rule, int64_t max_runs, double max_cost,
                  const std::function<bool()>& stop) {
  stop_ = &stop;
  max_runs_ = max_runs;
  max_cost_ = max_cost;
  Reset(rule);
  for (now_ = 0; now_ < model_.n; ++now_) {
    const int32_t v = order_[now_];
    if (!Make(v)) return false;
    for (int32_t u : model_.inputs[v]) DropIfDone(u, now_ + 1);
    DropIfDone(v, now_ + 1);
  }
  return true;
}

// What goes first is made again when it is read after the moment, and then its
// inputs are read too: they must not go as if nobody read them any more.
void Evictor::AddUsesByRemakes() {
  remade_at_.assign(model_.n, -1);
  for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
    const std::vector<int32_t>& uses = uses_[*it];
    for (int32_t w : model_.users[*it]) {
      if (remade_at_[w] < 0) continue;
      AddUse(*it, 0, remade_at_[w]);
    }
    if (!rule_->goes_first[*it]) continue;
    const auto after = std::upper_bound(uses.begin(), uses.end(), moment_);
    if (after != uses.end()) remade_at_[*it] = *after;
  }
}

// `from`: no use before that index is as late as the step.
void Evictor::AddUse(int32_t v, size_t from, int32_t step) {
  std::vector<int32_t>& uses = uses_[v];
  const auto place = std::lower_bound(
      uses.begin() + static_cast<ptrdiff_t>(from), uses.end(), step);
  if (place != uses.end() && *place == step) return;
  uses.insert(place, step);
  changed_.push_back(v);
}

// The step of `order_` that reads the value next; far off if none.
int32_t Evictor::NextUse(int32_t v, int32_t from) {
  const std::vector<int32_t>& uses = uses_[v];
  int32_t& i = next_use_[v];
  while (i < static_cast<int32_t>(uses.size()) && uses[i] < from) ++i;
  return i < static_cast<int32_t>(uses.size()) ? uses[i] : kNever * model_.n;
}

void Evictor::DropIfDone(int32_t v, int32_t from) {
  if (!IsLive(v) || locks_[v] > 0) return;
  const int32_t use = NextUse(v, from);
  const bool eager =
      rule_->eager && from <= moment_ && use > moment_ && rule_->goes_first[v];
  if (eager || use >= model_.n) Drop(v);
}

void Evictor::Drop(int32_t v) {
  SetLive(v, false);
  live_memory_ -= model_.memory[v];
  if (model_.memory[v] == 0) return;
  const int32_t at = live_at_[v];
  live_[at] = live_.back();
  live_at_[live_[at]] = at;
  live_.pop_back();
}

void Evictor::SetLive(int32_t v, bool live) {
  is_live_[v] = live ? 1 : 0;
  ForgetCosts(v);
}

// Those that depend on whether the node is live.
void Evictor::ForgetCosts(int32_t v) {
  for (int32_t w : watchers_[v]) cost_again_[w] = kUnknown;
  watchers_[v].clear();
}

// Runs the node, after the inputs that are not live, and theirs. Inputs that
// are there are locked until the node that reads them has run.
bool Evictor::Make(int32_t node) {
  frames_.assign(1, {node, 0});
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    const int32_t v = frame.node;
    const std::vector<int32_t>& inputs = model_.inputs[v];
    if (frame.next_input < inputs.size()) {
      const int32_t u = inputs[frame.next_input];
      if (IsLive(u)) {
        ++locks_[u];
        ++frame.next_input;
      } else {
        frames_.push_back({u, 0});
      }
      continue;
    }
    frames_.pop_back();
    MakeRoom(model_.memory[v]);
    sequence_.push_back(v);
    cost_ += static_cast<double>(model_.cost[v]);
    SetLive(v, true);
    if (model_.memory[v] > 0) {
      live_at_[v] = static_cast<int32_t>(live_.size());
      live_.push_back(v);
    }
    live_memory_ += model_.memory[v];
    if (static_cast<int64_t>(sequence_.size()) > max_runs_ ||
        cost_ > max_cost_) {
      return false;
    }
    if (*stop_ && sequence_.size() % kRunsPerCheck == 0 && (*stop_)()) {
      return false;
    }
    for (int32_t u : inputs) --locks_[u];
  }
  return true;
}

void Evictor::MakeRoom(int64_t memory) {
  // What was let go at once is like any other value when it is made again.
  const bool choosing =
      !rule_->goes_first.empty() && (!rule_->eager || now_ <= moment_);
  while (live_memory_ > budget_ - memory) {
    int32_t worst = -1;
    double least = 0;
    bool worst_first = false;
    for (int32_t v : live_) {
      if (locks_[v] > 0) continue;
      const bool first = choosing && rule_->goes_first[v];
      if (worst_first && !first) continue;
      const bool compared = first == worst_first && worst >= 0;
      // At least its own cost: often that is too much already.
      if (compared && Worth(v, static_cast<double>(model_.cost[v])) > least) {
        continue;
      }
      const double worth = Worth(v, CostAgain(v));
      if (compared && (worth > least || (worth == least && v > worst))) {
        continue;
      }
      worst = v;
      worst_first = first;
      least = worth;
    }
    if (worst < 0) {
      fits_ = false;
      return;
    }
    Drop(worst);
    if (rule_->keep_sources) KeepSources(worst);
  }
}

// Where the value is read next, its inputs are read too, to make it again.
void Evictor::KeepSources(int32_t v) {
  const int32_t use = NextUse(v, now_);
  if (use >= model_.n) return;
  for (int32_t u : model_.inputs[v]) {
    AddUse(u, static_cast<size_t>(next_use_[u]), use);
  }
}

double Evictor::Worth(int32_t v, double cost) {
  const int32_t steps = NextUse(v, now_) - now_ + 1;
  return (cost + 1e-9) /
         (static_cast<double>(model_.memory[v]) * distance_[steps]);
}

// Of the node, and of those before it that are not live either. Known until one
// of the nodes that it depends on comes or goes.
double Evictor::CostAgain(int32_t node) {
  double& cost = cost_again_[node];
  if (cost < 0) cost = WalkToLive(node);
  return cost;
}

double Evictor::WalkToLive(int32_t node) {
  double cost = 0;
  ++visit_;
  stack_.assign(1, node);
  visited_[node] = visit_;
  int32_t left = rule_->neighbours;
  while (!stack_.empty()) {
    const int32_t v = stack_.back();
    stack_.pop_back();
    cost += static_cast<double>(model_.cost[v]);
    if (--left < 0) break;
    for (int32_t u : model_.inputs[v]) {
      if (visited_[u] == visit_) continue;
      visited_[u] = visit_;
      if (watchers_[u].size() == kMaxWatchers) ForgetCosts(u);
      watchers_[u].push_back(node);
      if (!IsLive(u)) stack_.push_back(u);
    }
  }
  return cost;
}

}  // namespace onnx_memopt::plan
