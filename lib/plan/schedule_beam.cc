// Beam search on a larger cell: level k holds the most promising sets of k
// units. Sets reached twice are kept once. As long as no set had to be dropped
// for want of room the search is exhaustive, and its result proved.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "plan/schedule_cell_problem.h"
#include "plan/schedule_search.h"

namespace onnx_memopt::plan {
namespace {

// Fewer sets than this are no better than a list schedule.
constexpr int64_t kMinWidth = 4;

struct Child {
  int64_t peak;
  int64_t live;
  uint64_t hash;   // of the set
  int32_t parent;  // in the level before
  int32_t unit;
};

bool LowPeakFirst(const Child& a, const Child& b) {
  return std::tie(a.peak, a.live, a.parent, a.unit) <
         std::tie(b.peak, b.live, b.parent, b.unit);
}

bool LowLiveFirst(const Child& a, const Child& b) {
  return std::tie(a.live, a.peak, a.parent, a.unit) <
         std::tie(b.live, b.peak, b.parent, b.unit);
}

struct State {
  int64_t peak = 0;
  int64_t live = 0;
  uint64_t hash = 0;
  std::vector<uint64_t> done;
  std::vector<int32_t> ready;  // ascending
};

// A fixed scramble of the unit number; the hash of a set is the xor over it.
uint64_t HashOf(int32_t unit) {
  uint64_t x = (static_cast<uint64_t>(unit) + 1) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

class Beam {
 public:
  Beam(CellProblem& cell, int64_t bound, int64_t below, Budget& budget)
      : cell_(cell), below_(below), budget_(budget) {
    State start;
    start.peak = bound;
    start.done.assign(cell.num_words(), 0);
    for (int32_t unit = 0; unit < cell.size(); ++unit) {
      if (cell.preds()[unit].empty()) start.ready.push_back(unit);
    }
    level_.push_back(std::move(start));
  }

  // False: out of budget. Afterwards level() holds the full set if an order
  // below the limit was found, and is empty otherwise.
  bool Search(int64_t width) {
    for (int32_t step = 0; step < cell_.size() && !level_.empty(); ++step) {
      if (!Expand()) return false;
      Select(width);
      Advance();
    }
    return true;
  }

  const std::vector<State>& level() const { return level_; }
  bool dropped() const { return dropped_; }

  std::vector<int32_t> Order() const {
    std::vector<int32_t> order;
    int32_t state = 0;
    for (auto it = trace_.rbegin(); it != trace_.rend(); ++it) {
      order.push_back((*it)[state].second);
      state = (*it)[state].first;
    }
    std::reverse(order.begin(), order.end());
    return order;
  }

 private:
  bool Expand() {
    children_.clear();
    for (size_t s = 0; s < level_.size(); ++s) {
      const State& state = level_[s];
      const size_t first_child = children_.size();
      budget_.states -= static_cast<int64_t>(state.ready.size());
      if (budget_.states < 0) {
        budget_.states = 0;
        return false;
      }
      for (int32_t unit : state.ready) {
        const Effect effect = cell_.Evaluate(unit, state.done.data());
        const int64_t cost = state.live + effect.hill;
        if (cost >= below_) continue;
        // The rule of the exact search.
        const bool at_once = effect.net <= 0 && cost <= state.peak;
        if (at_once) children_.resize(first_child);
        children_.push_back({std::max(state.peak, cost),
                             state.live + effect.net, state.hash ^ HashOf(unit),
                             static_cast<int32_t>(s), unit});
        if (at_once) break;
      }
    }
    return true;
  }

  bool SameSet(const Child& a, const Child& b) const {
    const std::vector<uint64_t>& x = level_[a.parent].done;
    const std::vector<uint64_t>& y = level_[b.parent].done;
    for (size_t w = 0; w < x.size(); ++w) {
      auto with = [w](uint64_t bits, int32_t unit) {
        return static_cast<size_t>(unit) / 64 == w
                   ? bits | uint64_t{1} << (unit % 64)
                   : bits;
      };
      if (with(x[w], a.unit) != with(y[w], b.unit)) return false;
    }
    return true;
  }

  void Select(int64_t width) {
    std::sort(children_.begin(), children_.end(), LowPeakFirst);
    absl::flat_hash_map<uint64_t, size_t> seen;
    size_t kept = 0;
    for (const Child& child : children_) {
      auto [it, is_new] = seen.try_emplace(child.hash, kept);
      if (!is_new && SameSet(children_[it->second], child)) continue;
      children_[kept++] = child;
    }
    children_.resize(kept);
    if (static_cast<int64_t>(kept) <= width) return;
    // Most places go to the lowest peaks, some to the least live bytes: sets
    // that have their hill behind them.
    dropped_ = true;
    const auto low_live = children_.begin() + (width - width / 4);
    std::partial_sort(low_live, children_.begin() + width, children_.end(),
                      LowLiveFirst);
    children_.resize(static_cast<size_t>(width));
  }

  void Advance() {
    std::vector<State> next;
    next.reserve(children_.size());
    std::vector<std::pair<int32_t, int32_t>> trace;
    for (const Child& child : children_) {
      const State& parent = level_[child.parent];
      State state;
      state.peak = child.peak;
      state.live = child.live;
      state.hash = child.hash;
      state.done = parent.done;
      Insert(state.done.data(), child.unit);
      for (int32_t unit : parent.ready) {
        if (unit != child.unit) state.ready.push_back(unit);
      }
      for (int32_t succ : cell_.succs()[child.unit]) {
        const auto preds = cell_.preds()[succ];
        if (std::all_of(preds.begin(), preds.end(), [&](int32_t pred) {
              return Has(state.done.data(), pred);
            })) {
          state.ready.push_back(succ);
        }
      }
      std::sort(state.ready.begin(), state.ready.end());
      next.push_back(std::move(state));
      trace.emplace_back(child.parent, child.unit);
    }
    level_ = std::move(next);
    trace_.push_back(std::move(trace));
  }

  CellProblem& cell_;
  int64_t below_;
  Budget& budget_;
  std::vector<State> level_;
  std::vector<Child> children_;
  std::vector<std::vector<std::pair<int32_t, int32_t>>> trace_;
  bool dropped_ = false;
};

// The number of ready units, summed over the steps of an order.
int64_t SumOfReady(const CellProblem& cell, const std::vector<int32_t>& order) {
  std::vector<size_t> waits;
  int64_t ready = 0;
  for (int32_t unit = 0; unit < cell.size(); ++unit) {
    waits.push_back(cell.preds()[unit].size());
    if (waits.back() == 0) ++ready;
  }
  int64_t sum = 0;
  for (int32_t unit : order) {
    sum += ready--;
    for (int32_t succ : cell.succs()[unit]) {
      if (--waits[succ] == 0) ++ready;
    }
  }
  return sum;
}

}  // namespace

void SearchBeam(CellProblem& cell, int64_t bound, int width, Budget& budget,
                CellSolution& best) {
  // Narrower if the budget would not last.
  const int64_t per_set = std::max<int64_t>(SumOfReady(cell, best.order), 1);
  const int64_t affordable =
      std::min<int64_t>(width, budget.states / 2 / per_set);
  if (affordable < std::min<int64_t>(width, kMinWidth) || affordable < 1) {
    return;
  }
  Beam beam(cell, bound, best.peak, budget);
  if (!beam.Search(affordable)) return;
  best.proved = best.proved || !beam.dropped();
  if (beam.level().empty()) return;
  best.peak = beam.level()[0].peak;
  best.order = beam.Order();
  best.found_by = "beam";
}

}  // namespace onnx_memopt::plan
