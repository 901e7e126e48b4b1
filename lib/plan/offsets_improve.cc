#include "plan/offsets_improve.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "plan/offsets_internal.h"
#include "plan/offsets_random.h"

namespace onnx_memopt::plan {
namespace {

using Clock = std::chrono::steady_clock;
using Order = std::vector<int32_t>;

constexpr int64_t kMaxPairs = 20'000'000;  // 8 bytes each
// The share of the bound from which a section counts as a peak.
constexpr double kPeakShare = 0.985;
// How much higher than the present plan a new one may be and still replace it.
constexpr double kTolerance = 0.002;

// First fit asks what lies where at the time of a buffer, in one of two ways:
// from a list of whom it lives together with, if there are few such pairs, or
// from one list of all that is placed, by offset, which it walks from the
// bottom to the first gap.
class FirstFit {
 public:
  explicit FirstFit(const SectionProblem& problem) : problem_(problem) {
    std::vector<Buffer> lives;
    lives.reserve(problem.buffers.size());
    for (const SectionBuffer& buffer : problem.buffers) {
      lives.push_back({buffer.first, buffer.past, buffer.size});
    }
    const auto count = static_cast<int64_t>(lives.size());
    // A pair costs as much as some tens of steps of the walk.
    neighbours_ =
        FindNeighbours(lives, std::min(kMaxPairs, count * count / 100));
    if (neighbours_) return;
    const size_t n = problem.buffers.size();
    begin_.reserve(n);
    end_.reserve(n);
    first_.reserve(n);
    past_.reserve(n);
  }

  // The height; kNone if the time was up.
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t Place(const Order& order, Clock::time_point deadline,
                std::vector<int64_t>& offsets) {
    begin_.clear();
    end_.clear();
    first_.clear();
    past_.clear();
    offsets.assign(order.size(), -1);
    int64_t height = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      if (k % 1024 == 0 && Clock::now() >= deadline) return kNone;
      const SectionBuffer& buffer = problem_.buffers[order[k]];
      const int64_t at =
          neighbours_ ? LowestBeside(order[k], offsets) : Lowest(buffer);
      offsets[order[k]] = at;
      height = std::max(height, at + buffer.size);
      if (neighbours_) continue;
      const auto position =
          std::lower_bound(begin_.begin(), begin_.end(), at) - begin_.begin();
      begin_.insert(begin_.begin() + position, at);
      end_.insert(end_.begin() + position, at + buffer.size);
      first_.insert(first_.begin() + position, buffer.first);
      past_.insert(past_.begin() + position, buffer.past);
    }
    return height;
  }

 private:
  int64_t Lowest(const SectionBuffer& buffer) const {
    int64_t at = 0;
    for (size_t k = 0; k < begin_.size(); ++k) {
      if (first_[k] >= buffer.past || past_[k] <= buffer.first) continue;
      if (begin_[k] - at >= buffer.size) break;
      at = std::max(at, end_[k]);
    }
    return at;
  }

  int64_t LowestBeside(int32_t i, const std::vector<int64_t>& offsets) {
    taken_.clear();
    for (int64_t k = neighbours_->first[i]; k < neighbours_->first[i + 1];
         ++k) {
      const int32_t other = neighbours_->list[k];
      if (offsets[other] < 0) continue;
      taken_.emplace_back(offsets[other],
                          offsets[other] + problem_.buffers[other].size);
    }
    std::sort(taken_.begin(), taken_.end());
    int64_t at = 0;
    for (const auto& [begin, end] : taken_) {
      if (begin - at >= problem_.buffers[i].size) break;
      at = std::max(at, end);
    }
    return at;
  }

  const SectionProblem& problem_;
  std::optional<Neighbours> neighbours_;
  std::vector<std::pair<int64_t, int64_t>> taken_;
  std::vector<int64_t> begin_, end_;
  std::vector<int32_t> first_, past_;
};

template <typename Key>
Order SortedBy(const SectionProblem& problem, Key key) {
  const auto n = static_cast<int32_t>(problem.buffers.size());
  std::vector<double> keys(n);
  for (int32_t i = 0; i < n; ++i) keys[i] = key(i);
  Order order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return keys[a] != keys[b] ? keys[a] > keys[b] : a < b;
  });
  return order;
}

// The orders to start from. What lives at a peak must be stacked without a
// gap, so it goes first, and the long lives lowest; the rest fills the holes.
std::vector<Order> Starts(const SectionProblem& problem) {
  std::vector<int32_t> peaks;
  for (int32_t s = 0; s < problem.num_sections; ++s) {
    if (static_cast<double>(problem.total[s]) >=
        kPeakShare * static_cast<double>(problem.bound)) {
      peaks.push_back(s);
    }
  }
  auto size = [&](int32_t i) {
    return static_cast<double>(problem.buffers[i].size);
  };
  auto width = [&](int32_t i) {
    return static_cast<double>(problem.buffers[i].past -
                               problem.buffers[i].first);
  };
  auto at_peak = [&](int32_t i) {
    auto it =
        std::lower_bound(peaks.begin(), peaks.end(), problem.buffers[i].first);
    return it != peaks.end() && *it < problem.buffers[i].past;
  };
  // Shares of the whole, so that the sums below order as tuples do.
  const double most = static_cast<double>(problem.bound) + 1;
  const double sections = problem.num_sections + 1.0;
  std::vector<Order> starts;
  starts.push_back(SortedBy(problem, [&](int32_t i) {
    return at_peak(i) ? 2 + width(i) / sections : size(i) / most;
  }));
  starts.push_back(SortedBy(problem, size));
  starts.push_back(SortedBy(problem, [&](int32_t i) {
    return at_peak(i) ? 2 - problem.buffers[i].first / sections
                      : size(i) / most;
  }));
  starts.push_back(SortedBy(
      problem, [&](int32_t i) { return size(i) * std::pow(width(i), 0.3); }));
  starts.push_back(SortedBy(
      problem, [&](int32_t i) { return size(i) * std::sqrt(width(i)); }));
  starts.push_back(
      SortedBy(problem, [&](int32_t i) { return width(i) + size(i) / most; }));
  return starts;
}

struct Candidate {
  Order order;
  std::vector<int64_t> offsets;
  int64_t height = FirstFit::kNone;
};

// One thread's walk: buffers that end above a random line move forward in the
// order, each by a random share, and the new order replaces the old one unless
// its plan is higher by more than the tolerance.
class Walk {
 public:
  Walk(const SectionProblem& problem, Candidate start, uint64_t seed)
      : problem_(problem),
        fit_(problem),
        random_(seed),
        now_(start),
        best_(std::move(start)) {}

  void Run(int64_t passes, const ImproveLimits& limits, int64_t enough,
           std::atomic<int64_t>& stop_after) {
    Candidate next;
    std::vector<double> keys(now_.order.size());
    while (passes_ < passes && passes_ < stop_after.load()) {
      ++passes_;
      Change(keys, next.order);
      next.height = fit_.Place(next.order, limits.deadline, next.offsets);
      if (next.height == FirstFit::kNone) return;
      if (next.height < best_.height) best_ = next;
      const double allowed =
          static_cast<double>(now_.height) * (1 + kTolerance * random_.Real());
      if (static_cast<double>(next.height) <= allowed) std::swap(now_, next);
      if (best_.height <= enough) {
        int64_t stop = stop_after.load();
        while (passes_ < stop &&
               !stop_after.compare_exchange_weak(stop, passes_)) {
        }
        return;
      }
    }
  }

  const Candidate& best() const { return best_; }
  int64_t passes() const { return passes_; }

 private:
  void Change(std::vector<double>& keys, Order& order) {
    const double spread = 0.7 * random_.Real();
    const int64_t line =
        problem_.bound +
        static_cast<int64_t>(spread *
                             static_cast<double>(now_.height - problem_.bound));
    for (size_t rank = 0; rank < now_.order.size(); ++rank) {
      const int32_t i = now_.order[rank];
      keys[i] = static_cast<double>(rank);
      if (now_.offsets[i] + problem_.buffers[i].size <= line) continue;
      if (random_.Real() < 0.3) continue;
      keys[i] *= 0.2 + 0.8 * random_.Real();
    }
    order = now_.order;
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
    });
  }

  const SectionProblem& problem_;
  FirstFit fit_;
  OffsetRandom random_;
  Candidate now_;
  Candidate best_;
  int64_t passes_ = 0;
};

}  // namespace

void Improve(PartState& part, const ImproveLimits& limits,
             const std::function<void()>& improved) {
  const SectionProblem& problem = part.problem;
  const auto count = static_cast<int64_t>(problem.buffers.size());
  auto take = [&](const Candidate& candidate) {
    if (candidate.height >= part.height) return;
    part.height = candidate.height;
    part.offsets = candidate.offsets;
    improved();
  };
  FirstFit fit(problem);
  std::vector<Candidate> starts;
  for (Order& order : Starts(problem)) {
    Candidate candidate{.order = std::move(order)};
    candidate.height =
        fit.Place(candidate.order, limits.deadline, candidate.offsets);
    if (candidate.height == FirstFit::kNone) return;
    take(candidate);
    if (part.height <= limits.enough) return;
    starts.push_back(std::move(candidate));
  }
  std::stable_sort(starts.begin(), starts.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.height < b.height;
                   });
  starts.resize(2);

  const int64_t passes = limits.max_placements / count;
  std::atomic<int64_t> stop_after = passes;
  std::vector<Walk> walks;
  walks.reserve(limits.threads);
  for (int k = 0; k < limits.threads; ++k) {
    walks.emplace_back(problem, starts[k % starts.size()],
                       limits.seed * 7919 + static_cast<uint64_t>(k));
  }
  // Rounds, so that others hear of what was found; a round's length does not
  // depend on the threads' speed.
  const int64_t round = std::max<int64_t>(1, 1'000'000 / count);
  for (int64_t until = round; part.height > limits.enough; until += round) {
    auto run = [&](size_t k) {
      walks[k].Run(std::min(until, passes), limits, limits.enough, stop_after);
    };
    std::vector<std::thread> others;
    for (size_t k = 1; k < walks.size(); ++k) others.emplace_back(run, k);
    run(0);
    for (std::thread& thread : others) thread.join();
    for (const Walk& walk : walks) {
      // What was found after the walk should have stopped is luck.
      if (walk.passes() <= stop_after.load()) take(walk.best());
    }
    if (until >= passes || Clock::now() >= limits.deadline) return;
  }
}

}  // namespace onnx_memopt::plan
