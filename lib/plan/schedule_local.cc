// Local search: takes the first peak step of an order and moves one unit from
// after it to before it (it frees something), or the other way (it allocates
// something). A move changes only the steps between the two places, since the
// sets of units before and after them stay the same, so only those are
// evaluated again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/schedule_cell_problem.h"
#include "plan/schedule_search.h"

namespace onnx_memopt::plan {
namespace {

constexpr int32_t kWindow = 48;  // steps to each side of the peak

class LocalSearch {
 public:
  LocalSearch(CellProblem& cell, Budget& budget, std::vector<int32_t> order)
      : cell_(cell),
        budget_(budget),
        order_(std::move(order)),
        position_(order_.size()),
        cost_(order_.size()),
        start_(cell.num_words()),
        done_(cell.num_words()) {}

  // The peak reached: `bound`, or where no move helps any more.
  int64_t Run(int64_t bound) {
    Measure();
    while (peak_ > bound && budget_.states > 0 && Improve()) Measure();
    return peak_;
  }
  const std::vector<int32_t>& order() const { return order_; }

 private:
  int32_t size() const { return static_cast<int32_t>(order_.size()); }

  // Costs, peak, and the state at the beginning of the window.
  void Measure() {
    budget_.states -= size();
    std::fill(done_.begin(), done_.end(), 0);
    int64_t live = 0;
    peak_step_ = 0;
    for (int32_t step = 0; step < size(); ++step) {
      const Effect effect = cell_.Evaluate(order_[step], done_.data());
      cost_[step] = live + effect.hill;
      if (cost_[step] > cost_[peak_step_]) peak_step_ = step;
      live += effect.net;
      Insert(done_.data(), order_[step]);
      position_[order_[step]] = step;
    }
    peak_ = cost_[peak_step_];
    low_ = std::max(peak_step_ - kWindow, 0);
    high_ = std::min(peak_step_ + kWindow, size() - 1);
    std::fill(start_.begin(), start_.end(), 0);
    start_live_ = 0;
    for (int32_t step = 0; step < low_; ++step) {
      start_live_ += cell_.Evaluate(order_[step], start_.data()).net;
      Insert(start_.data(), order_[step]);
    }
  }

  bool Improve() {
    for (int32_t from = peak_step_ + 1; from <= high_; ++from) {
      int32_t earliest = low_;
      for (int32_t pred : cell_.preds()[order_[from]]) {
        earliest = std::max(earliest, position_[pred] + 1);
      }
      if (earliest > peak_step_) continue;
      if (Try(from, peak_step_) || Try(from, earliest)) return true;
    }
    for (int32_t from = peak_step_; from >= low_; --from) {
      int32_t latest = high_;
      for (int32_t succ : cell_.succs()[order_[from]]) {
        latest = std::min(latest, position_[succ] - 1);
      }
      const int32_t past = from == peak_step_ ? from + 1 : peak_step_;
      if (latest < past) continue;
      if (Try(from, past) || Try(from, latest)) return true;
    }
    return false;
  }

  // Keeps the move if it leaves fewer steps at the peak.
  bool Try(int32_t from, int32_t to) {
    if (from == to || budget_.states <= 0) return false;
    Move(from, to);
    const int32_t last = std::max(from, to);
    budget_.states -= last - low_ + 1;
    int64_t at_peak = 0;
    int64_t live = start_live_;
    bool better = true;
    done_ = start_;
    for (int32_t step = low_; step <= last; ++step) {
      const Effect effect = cell_.Evaluate(order_[step], done_.data());
      if (live + effect.hill > peak_) {
        better = false;
        break;
      }
      if (live + effect.hill == peak_) ++at_peak;
      live += effect.net;
      Insert(done_.data(), order_[step]);
    }
    if (better && at_peak < std::count(cost_.begin() + low_,
                                       cost_.begin() + last + 1, peak_)) {
      return true;
    }
    Move(to, from);
    return false;
  }

  void Move(int32_t from, int32_t to) {
    auto begin = order_.begin();
    if (from < to) {
      std::rotate(begin + from, begin + from + 1, begin + to + 1);
    } else {
      std::rotate(begin + to, begin + from, begin + from + 1);
    }
  }

  CellProblem& cell_;
  Budget& budget_;
  std::vector<int32_t> order_;
  std::vector<int32_t> position_;
  std::vector<int64_t> cost_;  // per step
  int64_t peak_ = 0;
  int32_t peak_step_ = 0;
  int32_t low_ = 0;  // the window
  int32_t high_ = 0;
  std::vector<uint64_t> start_;  // what ran before the window
  int64_t start_live_ = 0;
  std::vector<uint64_t> done_;
};

}  // namespace

void ImproveLocally(CellProblem& cell, int64_t bound, Budget& budget,
                    CellSolution& best) {
  LocalSearch search(cell, budget, best.order);
  const int64_t peak = search.Run(bound);
  budget.states = std::max<int64_t>(budget.states, 0);
  if (peak >= best.peak) return;
  best.peak = peak;
  best.order = search.order();
  best.found_by = "local";
}

}  // namespace onnx_memopt::plan
