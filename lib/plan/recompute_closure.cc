#include "plan/recompute_closure.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace onnx_memopt::plan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void ClosureProblem::AddArc(int32_t from, int32_t to, double capacity) {
  out_[from].push_back(static_cast<int32_t>(arcs_.size()));
  arcs_.push_back({to, capacity});
  out_[to].push_back(static_cast<int32_t>(arcs_.size()));
  arcs_.push_back({from, 0});
}

// Distances from the source along arcs with room.
bool ClosureProblem::Label() {
  level_.assign(out_.size(), -1);
  std::vector<int32_t> queue = {source_};
  level_[source_] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (int32_t arc : out_[queue[i]]) {
      const Arc& a = arcs_[arc];
      if (a.room <= least_ || level_[a.to] >= 0) continue;
      level_[a.to] = level_[queue[i]] + 1;
      queue.push_back(a.to);
    }
  }
  return level_[sink_] >= 0;
}

// Sends what it can along one path of rising levels; 0: there is none.
double ClosureProblem::Augment() {
  std::vector<int32_t> path;
  int32_t at = source_;
  while (at != sink_) {
    bool advanced = false;
    for (size_t& i = next_[at]; i < out_[at].size(); ++i) {
      const Arc& a = arcs_[out_[at][i]];
      if (a.room <= least_ || level_[a.to] != level_[at] + 1) continue;
      path.push_back(out_[at][i]);
      at = a.to;
      advanced = true;
      break;
    }
    if (advanced) continue;
    if (path.empty()) return 0;
    at = arcs_[path.back() ^ 1].to;
    path.pop_back();
    ++next_[at];
  }
  double amount = kInfinity;
  for (int32_t arc : path) amount = std::min(amount, arcs_[arc].room);
  for (int32_t arc : path) {
    arcs_[arc].room -= amount;
    arcs_[arc ^ 1].room += amount;
  }
  return amount;
}

double ClosureProblem::Solve() {
  const auto n = static_cast<int32_t>(weights_.size());
  source_ = n;
  sink_ = n + 1;
  arcs_.clear();
  out_.assign(n + 2, {});
  double total = 0;
  double size = 0;
  for (int32_t i = 0; i < n; ++i) {
    size = std::max(size, std::abs(weights_[i]));
    if (must_[i]) AddArc(source_, i, kInfinity);
    if (weights_[i] > 0) AddArc(i, sink_, weights_[i]);
    if (weights_[i] < 0) {
      total += weights_[i];
      AddArc(source_, i, -weights_[i]);
    }
  }
  for (const Force& f : forces_) AddArc(f.choice, f.forced, kInfinity);
  least_ = size * 1e-13;
  while (Label()) {
    next_.assign(out_.size(), 0);
    while (true) {
      const double amount = Augment();
      if (amount <= 0) break;
      total += amount;
    }
  }
  return total;
}

}  // namespace onnx_memopt::plan
