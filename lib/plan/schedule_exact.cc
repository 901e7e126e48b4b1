// Exact search on a small cell. A state is a set of units that ran; what is
// live then depends on the set alone, and so does what each further unit costs.
// The peak of a path is the largest cost on it, so a best-first search that
// always extends the state with the lowest peak reaches the full set at the
// lowest peak of all.
//
// One rule keeps it small: a unit that is ready, gives back at least what it
// allocates and fits under the peak that the state has anyway is run at once.
// Doing so never hurts: from then on less is live, and a larger set never makes
// another unit's cost above the live bytes larger.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "plan/schedule_cell_problem.h"
#include "plan/schedule_search.h"

namespace onnx_memopt::plan {
namespace {

struct State {
  uint64_t done;
  int64_t peak;
  int64_t live;
  int32_t parent;  // -1: the empty set
  int32_t unit;    // that ran last
};

// Lowest peak first; then the fullest set, to reach the end soon.
struct Entry {
  int64_t peak;
  int32_t units_left;
  int64_t live;
  int32_t state;
  bool operator>(const Entry& other) const {
    return std::tie(peak, units_left, live, state) >
           std::tie(other.peak, other.units_left, other.live, other.state);
  }
};

}  // namespace

void SearchExactly(CellProblem& cell, int64_t bound, int64_t max_states,
                   Budget& budget, CellSolution& best) {
  const int32_t n = cell.size();
  if (n == 0 || n > kMaxExactUnits) return;
  max_states = std::min(max_states, budget.states);
  int64_t looked_at = 0;
  const uint64_t all = (uint64_t{1} << n) - 1;
  std::vector<uint64_t> needs(n, 0);
  for (int32_t unit = 0; unit < n; ++unit) {
    for (int32_t pred : cell.preds()[unit]) Insert(&needs[unit], pred);
  }
  // No order stays below `bound`, so costs up to it are free.
  std::vector<State> states = {{0, bound, 0, -1, -1}};
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.push({bound, n, 0, 0});
  absl::flat_hash_set<uint64_t> visited;
  bool out_of_budget = false;
  int32_t end = -1;
  while (!queue.empty() && end < 0 && !out_of_budget) {
    const int32_t index = queue.top().state;
    queue.pop();
    const State state = states[index];
    if (!visited.insert(state.done).second) continue;
    if (state.done == all) {
      end = index;
      break;
    }
    const size_t first_child = states.size();
    for (uint64_t left = all & ~state.done; left != 0; left &= left - 1) {
      const int32_t unit = std::countr_zero(left);
      if ((needs[unit] & ~state.done) != 0) continue;
      if (++looked_at > max_states) {
        out_of_budget = true;
        break;
      }
      const Effect effect = cell.Evaluate(unit, &state.done);
      const int64_t cost = state.live + effect.hill;
      if (cost >= best.peak) continue;
      const bool at_once = effect.net <= 0 && cost <= state.peak;
      if (at_once) states.resize(first_child);
      states.push_back({state.done | (uint64_t{1} << unit),
                        std::max(state.peak, cost), state.live + effect.net,
                        index, unit});
      if (at_once) break;
    }
    for (size_t i = first_child; i < states.size(); ++i) {
      if (visited.contains(states[i].done)) continue;
      queue.push({states[i].peak, n - std::popcount(states[i].done),
                  states[i].live, static_cast<int32_t>(i)});
    }
  }
  budget.states -= std::min(looked_at, budget.states);
  if (out_of_budget) return;
  best.proved = true;
  if (end < 0) return;  // nothing is better than what was known
  best.peak = states[end].peak;
  best.found_by = "exact";
  best.order.clear();
  for (int32_t i = end; states[i].parent >= 0; i = states[i].parent) {
    best.order.push_back(states[i].unit);
  }
  std::reverse(best.order.begin(), best.order.end());
}

}  // namespace onnx_memopt::plan
