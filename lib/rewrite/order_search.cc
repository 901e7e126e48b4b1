// The search for the order of a file: all orders where they are few, else from
// each candidate by two kinds of changes.
//
//   sort    at each join the branch first that has the highest peak above what
//           it leaves behind (Liu's rule, which is the best for trees)
//   move    where the peak is, a branch that was run before and whose results
//           wait: run it later than the one with the peak; where that is no
//           help, any branch of any join before the others
#include "onnx_memopt/rewrite/order_search.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace onnx_memopt::rewrite {
namespace {

using analysis::BareProfile;
using analysis::DepthFirstWalk;
using analysis::RuntimeBlock;
using analysis::RuntimePeaks;
using Order = std::vector<int32_t>;
using Pair = FileOrders::Pair;

size_t At(int32_t index) { return static_cast<size_t>(index); }

// An order with what the runtime makes of it.
struct State {
  Order order;
  DepthFirstWalk walk;
  analysis::BufferPlan buffers;
  BareProfile profile;
  int64_t peak = 0;
  int64_t steps_at_peak = 0;

  // Networks repeat blocks: that one of several equal peaks is gone is a gain.
  bool IsBetterThan(const State& other) const {
    return std::tie(peak, steps_at_peak) <
           std::tie(other.peak, other.steps_at_peak);
  }
};

class Search {
 public:
  Search(const FileOrders& orders, const analysis::RuntimeOptions& runtime,
         const FileOrderOptions& options)
      : orders_(orders),
        block_(orders.block()),
        runtime_(runtime),
        options_(options) {}

  FileOrderFound Run(absl::Span<const Order> candidates) {
    State present = Evaluate(candidates.front());
    limit_ = PredictPeaks(block_, runtime_, orders_.Ranks(present.order));
    best_ = {.order = present.order, .bare_bytes = present.peak};
    std::vector<State> starts;
    starts.push_back(std::move(present));
    for (const Order& candidate : candidates.subspan(1)) {
      starts.push_back(Evaluate(candidate));
      Offer(starts.back());
    }
    if (TryAll()) {
      best_.optimal = true;
      return std::move(best_);
    }
    State* best = &starts.front();
    for (State& start : starts) {
      Improve(&start);
      if (start.IsBetterThan(*best)) best = &start;
    }
    while (HasWork() && (MoveAway(best) || MoveForward(best))) {
    }
    return std::move(best_);
  }

 private:
  static constexpr size_t kMaxExhaustiveSteps = 64;
  static constexpr int kSortRounds = 4;
  // Single moves that are tried before the search gives up.
  static constexpr size_t kMovesTried = 24;

  bool HasWork() const { return work_ < options_.max_steps; }

  State Evaluate(Order order) {
    State state{.order = std::move(order)};
    work_ += static_cast<int64_t>(block_.steps.size());
    state.walk = WalkDepthFirst(block_, orders_.Ranks(state.order));
    state.buffers = PlanBuffers(block_, state.walk.order, runtime_);
    state.profile = ProfileBare(block_, state.walk.order, state.buffers);
    const std::vector<int64_t>& bytes = state.profile.during_bytes;
    for (int64_t b : bytes) state.peak = std::max(state.peak, b);
    state.steps_at_peak = std::count(bytes.begin(), bytes.end(), state.peak);
    return state;
  }

  // Takes the order if it is the best so far and its default peaks do not grow.
  void Offer(const State& state) {
    if (state.peak >= best_.bare_bytes) return;
    const RuntimePeaks peaks =
        PredictPeaks(block_, runtime_, orders_.Ranks(state.order));
    work_ += static_cast<int64_t>(4 * block_.steps.size());
    if (peaks.first_bytes > limit_.first_bytes ||
        peaks.steady_bytes > limit_.steady_bytes) {
      return;
    }
    best_.order = state.order;
    best_.bare_bytes = state.peak;
  }

  // --- All of them ---

  // By step, as bits: all that it depends on.
  std::vector<uint64_t> Ancestors() const {
    std::vector<uint64_t> ancestors(block_.steps.size());
    // In order of execution, what a step depends on comes first.
    for (int32_t step : WalkDepthFirst(block_).order) {
      for (int32_t producer : block_.steps[At(step)].after) {
        ancestors[At(step)] |= ancestors[At(producer)] | uint64_t{1}
                                                             << producer;
      }
    }
    return ancestors;
  }

  struct Choice {
    int taken = 0;
    int count = 0;
  };

  // The walk for these choices; those that it meets beyond them are added as
  // the first of what can be chosen.
  DepthFirstWalk WalkBy(const std::vector<uint64_t>& ancestors,
                        std::vector<Choice>* choices) const {
    struct Frame {
      int32_t step;
      uint64_t producers;
    };
    const size_t count = block_.steps.size();
    uint64_t leaves = count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    for (uint64_t set : ancestors) leaves &= ~set;
    DepthFirstWalk walk;
    walk.came_from.resize(count);
    std::vector<Frame> stack = {{-1, leaves}};
    uint64_t visited = 0;
    size_t met = 0;
    while (!stack.empty()) {
      const int32_t step = stack.back().step;
      const uint64_t left = stack.back().producers & ~visited;
      if (left == 0) {
        if (step >= 0) walk.order.push_back(step);
        stack.pop_back();
        continue;
      }
      // One that another one depends on stands before it in any file, and so
      // cannot come first.
      uint64_t first = left;
      for (uint64_t rest = left; rest != 0; rest &= rest - 1) {
        first &= ~ancestors[static_cast<size_t>(std::countr_zero(rest))];
      }
      int skip = 0;
      if (std::popcount(first) > 1) {
        if (met == choices->size()) {
          choices->push_back({.taken = 0, .count = std::popcount(first)});
        }
        skip = (*choices)[met++].taken;
      }
      for (; skip > 0; --skip) first &= first - 1;
      const int32_t next = std::countr_zero(first);
      visited |= uint64_t{1} << next;
      walk.came_from[At(next)] = step;
      uint64_t producers = 0;
      for (int32_t producer : block_.steps[At(next)].after) {
        producers |= uint64_t{1} << producer;
      }
      stack.push_back({next, producers});
    }
    return walk;
  }

  // False if there are too many.
  bool TryAll() {
    if (orders_.has_calls() || block_.steps.size() > kMaxExhaustiveSteps) {
      return false;
    }
    const std::vector<uint64_t> ancestors = Ancestors();
    const Order present = best_.order;
    std::vector<Choice> choices;
    for (int64_t n = 0; n < options_.max_orders && HasWork(); ++n) {
      const DepthFirstWalk walk = WalkBy(ancestors, &choices);
      bool can_be_written = false;
      Order order =
          orders_.WithPairs(orders_.PairsOf(walk), present, &can_be_written);
      if (can_be_written) Offer(Evaluate(std::move(order)));
      // The next combination: the last choice that has one left.
      while (!choices.empty() &&
             choices.back().taken + 1 == choices.back().count) {
        choices.pop_back();
      }
      if (choices.empty()) return true;
      ++choices.back().taken;
    }
    return false;
  }

  // --- Step by step ---

  void Improve(State* state) {
    Offer(*state);
    for (int round = 0; round < kSortRounds && HasWork(); ++round) {
      if (!Accept(Sorted(*state), state)) break;
    }
    while (HasWork() && MoveAway(state)) {
    }
  }

  bool Accept(const std::vector<Pair>& pairs, State* state) {
    State next = Evaluate(orders_.WithPairs(pairs, state->order, nullptr));
    if (!next.IsBetterThan(*state)) return false;
    Offer(next);
    *state = std::move(next);
    return true;
  }

  // The part of the walk that ended with a step: it began so many before.
  static std::vector<int32_t> SubtreeSizes(const DepthFirstWalk& walk) {
    std::vector<int32_t> sizes(walk.order.size(), 1);
    for (int32_t step : walk.order) {
      const int32_t from = walk.came_from[At(step)];
      if (from >= 0) sizes[At(from)] += sizes[At(step)];
    }
    return sizes;
  }

  // By step, and for leaves as the last: where the walk went from there, in
  // order.
  static std::vector<Order> Branches(const DepthFirstWalk& walk) {
    std::vector<Order> branches(walk.order.size() + 1);
    for (int32_t step : walk.order) {
      const int32_t from = walk.came_from[At(step)];
      branches[from < 0 ? walk.order.size() : At(from)].push_back(step);
    }
    return branches;
  }

  std::vector<Pair> PairsOf(const std::vector<Order>& branches) const {
    std::vector<Pair> pairs;
    for (const Order& steps : branches) {
      int32_t last = -1;
      for (int32_t step : steps) {
        const int32_t node = orders_.NodeOf(step);
        if (node < 0) continue;
        if (last >= 0) pairs.emplace_back(node, last);
        last = node;
      }
    }
    return pairs;
  }

  std::vector<Pair> Sorted(const State& state) const {
    const std::vector<int32_t> sizes = SubtreeSizes(state.walk);
    const BareProfile& profile = state.profile;
    std::vector<int64_t> gain(state.walk.order.size());
    std::vector<Order> branches = Branches(state.walk);
    for (size_t end = 0; end < state.walk.order.size(); ++end) {
      const int32_t step = state.walk.order[end];
      const size_t begin = end + 1 - At(sizes[At(step)]);
      const int32_t from = state.walk.came_from[At(step)];
      if (branches[from < 0 ? gain.size() : At(from)].size() < 2) continue;
      // The peak above what is left behind; what was there before cancels.
      gain[At(step)] =
          *std::max_element(profile.during_bytes.begin() + begin,
                            profile.during_bytes.begin() + end + 1) -
          profile.after_bytes[end];
    }
    for (Order& steps : branches) {
      std::stable_sort(steps.begin(), steps.end(), [&](int32_t a, int32_t b) {
        return gain[At(a)] > gain[At(b)];
      });
    }
    return PairsOf(branches);
  }

  struct Move {
    int64_t waiting_bytes = 0;  // of what the other branch has left behind
    size_t join = 0;            // in Branches
    int32_t later = -1;         // to be run after
    int32_t sooner = -1;        // this one
  };

  // Branches whose results wait while the step at `position` runs, those with
  // the most bytes first.
  std::vector<Move> MovesAt(const State& state, size_t position,
                            const std::vector<Order>& branches,
                            const std::vector<int32_t>& sizes,
                            const std::vector<int32_t>& place) const {
    // Bytes that are live then, summed up by the places of their producers.
    std::vector<int64_t> live(position + 1);
    for (size_t i = 0; i < position; ++i) {
      for (int32_t v : block_.steps[At(state.walk.order[i])].outputs) {
        if (!OwnsBuffer(block_, state.buffers, v)) continue;
        live[i + 1] += block_.values[At(v)].size_bytes;
      }
    }
    for (size_t i = 0; i < position; ++i) {
      for (int32_t v : state.buffers.frees[At(state.walk.order[i])]) {
        const int32_t producer = block_.values[At(v)].producer;
        live[At(place[At(producer)]) + 1] -= block_.values[At(v)].size_bytes;
      }
    }
    std::partial_sum(live.begin(), live.end(), live.begin());
    std::vector<Move> moves;
    int32_t sooner = state.walk.order[position];
    while (sooner >= 0) {
      const int32_t from = state.walk.came_from[At(sooner)];
      const size_t join = from < 0 ? state.walk.order.size() : At(from);
      for (int32_t later : branches[join]) {
        if (later == sooner) break;
        const size_t end = At(place[At(later)]) + 1;
        const int64_t bytes = live[end] - live[end - At(sizes[At(later)])];
        if (bytes <= 0) continue;
        moves.push_back({.waiting_bytes = bytes,
                         .join = join,
                         .later = later,
                         .sooner = sooner});
      }
      sooner = from;
    }
    std::stable_sort(moves.begin(), moves.end(),
                     [](const Move& a, const Move& b) {
                       return a.waiting_bytes > b.waiting_bytes;
                     });
    return moves;
  }

  static void Apply(const Move& move, std::vector<Order>* branches) {
    Order& steps = (*branches)[move.join];
    const auto later = std::find(steps.begin(), steps.end(), move.later);
    const auto sooner = std::find(later, steps.end(), move.sooner);
    if (sooner != steps.end()) std::rotate(later, later + 1, sooner + 1);
  }

  // One change that makes the state better; false if none was found.
  bool MoveAway(State* state) {
    const std::vector<Order> branches = Branches(state->walk);
    const std::vector<int32_t> sizes = SubtreeSizes(state->walk);
    std::vector<int32_t> place(state->walk.order.size());
    for (size_t i = 0; i < place.size(); ++i) {
      place[At(state->walk.order[i])] = static_cast<int32_t>(i);
    }
    std::vector<size_t> peaks;
    for (size_t i = 0; i < place.size(); ++i) {
      if (state->profile.during_bytes[i] == state->peak) peaks.push_back(i);
    }
    if (peaks.empty()) return false;
    const std::vector<Move> moves =
        MovesAt(*state, peaks.front(), branches, sizes, place);
    if (moves.empty()) return false;
    // The same at each of several equal peaks.
    if (peaks.size() > 1) {
      std::vector<Order> changed = branches;
      for (size_t peak : peaks) {
        if (!HasWork()) break;
        work_ += static_cast<int64_t>(place.size());
        const std::vector<Move> there =
            MovesAt(*state, peak, branches, sizes, place);
        if (!there.empty()) Apply(there.front(), &changed);
      }
      if (Accept(PairsOf(changed), state)) return true;
    }
    for (size_t i = 0; i < std::min(moves.size(), kMovesTried); ++i) {
      if (!HasWork()) return false;
      std::vector<Order> changed = branches;
      Apply(moves[i], &changed);
      if (Accept(PairsOf(changed), state)) return true;
    }
    return false;
  }

  // Any branch before all others of its join.
  bool MoveForward(State* state) {
    const std::vector<Order> branches = Branches(state->walk);
    for (size_t join = 0; join < branches.size(); ++join) {
      for (size_t i = 1; i < branches[join].size(); ++i) {
        if (!HasWork()) return false;
        std::vector<Order> changed = branches;
        Order& steps = changed[join];
        std::rotate(steps.begin(), steps.begin() + static_cast<int64_t>(i),
                    steps.begin() + static_cast<int64_t>(i) + 1);
        if (Accept(PairsOf(changed), state)) return true;
      }
    }
    return false;
  }

  const FileOrders& orders_;
  const RuntimeBlock& block_;
  const analysis::RuntimeOptions runtime_;
  const FileOrderOptions options_;
  RuntimePeaks limit_;
  FileOrderFound best_;
  int64_t work_ = 0;
};

}  // namespace

FileOrderFound FindFileOrder(const FileOrders& orders,
                             absl::Span<const Order> candidates,
                             const analysis::RuntimeOptions& runtime,
                             const FileOrderOptions& options) {
  return Search(orders, runtime, options).Run(candidates);
}

}  // namespace onnx_memopt::rewrite
