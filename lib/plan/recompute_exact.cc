// Exact search for small problems. A state is which nodes have run and which
// values are live; what counts is the cost of runs beyond the first ones.
//
// Pruned: a value that no run can ever read again is never live (all its users
// have run, and those users' values are of no use either).
#include <bit>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "plan/recompute_model.h"
#include "plan/recompute_search.h"

namespace onnx_memopt::plan {
namespace {

constexpr int64_t kStatesPerCheck = 1024;

class ExactSearch {
 public:
  ExactSearch(const RecomputeModel& model, int64_t budget)
      : model_(model), budget_(budget) {
    for (int32_t v = 0; v < model.n; ++v) {
      uint32_t inputs = 0;
      uint32_t users = 0;
      for (int32_t u : model.inputs[v]) inputs |= Bit(u);
      for (int32_t w : model.users[v]) users |= Bit(w);
      inputs_.push_back(inputs);
      users_.push_back(users);
    }
    all_ = model.n == 0 ? 0 : (~uint32_t{0} >> (32 - model.n));
  }

  ExactRecompute Run(int64_t max_states, const std::function<bool()>& stop) {
    Reach({0, 0}, 0, {0, 0}, -1);
    int64_t states = 0;
    while (!queue_.empty()) {
      const auto [cost, missing, age, run, live] = queue_.top();
      queue_.pop();
      const State state = {run, live};
      if (seen_.at(Key(state)).cost < cost) continue;
      if (run == all_) return {.complete = true, .sequence = PathTo(state)};
      if (++states > max_states) return {};
      if (states % kStatesPerCheck == 0 && stop && stop()) return {};
      Expand(state, cost);
    }
    return {.complete = true};
  }

 private:
  struct State {
    uint32_t run;
    uint32_t live;
  };
  struct Seen {
    int64_t cost;
    State from;
    int32_t node;  // that ran last; -1: a value was let go
  };
  // Cost, nodes that have not run, age, state: the least comes first.
  using Entry = std::tuple<int64_t, int, int64_t, uint32_t, uint32_t>;

  static uint32_t Bit(int32_t v) { return uint32_t{1} << v; }
  static uint64_t Key(State s) { return uint64_t{s.run} << 32 | s.live; }

  // Values that may be of use once the nodes of `run` have run.
  uint32_t Useful(uint32_t run) const {
    uint32_t dead = 0;
    for (auto it = model_.order.rbegin(); it != model_.order.rend(); ++it) {
      const uint32_t bit = Bit(*it);
      if ((run & bit) != 0 && (users_[*it] & ~dead) == 0) dead |= bit;
    }
    return ~dead;
  }

  void Reach(State state, int64_t cost, State from, int32_t node) {
    const auto [it, fresh] =
        seen_.try_emplace(Key(state), Seen{cost, from, node});
    if (!fresh) {
      if (it->second.cost <= cost) return;
      it->second = {cost, from, node};
    }
    queue_.emplace(cost, std::popcount(all_ & ~state.run), --age_, state.run,
                   state.live);
  }

  void Expand(State state, int64_t cost) {
    int64_t memory = 0;
    for (int32_t v = 0; v < model_.n; ++v) {
      if ((state.live & Bit(v)) != 0) memory += model_.memory[v];
    }
    for (int32_t v = 0; v < model_.n; ++v) {
      const uint32_t bit = Bit(v);
      if ((state.live & bit) != 0) {
        Reach({state.run, state.live & ~bit}, cost, state, -1);
        continue;
      }
      if ((inputs_[v] & ~state.live) != 0) continue;
      if (memory > budget_ - model_.memory[v]) continue;
      const bool again = (state.run & bit) != 0;
      // Costs that add up beyond 2^63 are of no use to anyone.
      int64_t next = cost;
      if (again && __builtin_add_overflow(cost, model_.cost[v], &next)) {
        continue;
      }
      const uint32_t run = state.run | bit;
      Reach({run, (state.live | bit) & Useful(run)}, next, state, v);
    }
  }

  std::vector<int32_t> PathTo(State state) const {
    std::vector<int32_t> reversed;
    while (state.run != 0) {
      const Seen& seen = seen_.at(Key(state));
      if (seen.node >= 0) reversed.push_back(seen.node);
      state = seen.from;
    }
    return {reversed.rbegin(), reversed.rend()};
  }

  const RecomputeModel& model_;
  int64_t budget_;
  std::vector<uint32_t> inputs_;
  std::vector<uint32_t> users_;
  uint32_t all_ = 0;
  absl::flat_hash_map<uint64_t, Seen> seen_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  int64_t age_ = 0;  // falls: of equals the latest comes first
};

}  // namespace

ExactRecompute SolveExactly(const RecomputeModel& model, int64_t budget,
                            int64_t max_states,
                            const std::function<bool()>& stop) {
  return ExactSearch(model, budget).Run(max_states, stop);
}

}  // namespace onnx_memopt::plan
