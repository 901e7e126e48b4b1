// What to keep at one moment, in whole values: the problem behind the cost
// bound (see recompute_bound.cc), without the relaxation.
//
// The set that is kept decides all: what a later node reads and is not kept is
// made again, and so is what that takes. Annealing over the kept set, with a
// price on what does not fit; a try costs one pass over the ancestors. The best
// few sets become seeds for whole plans.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "plan/recompute_model.h"
#include "plan/recompute_random.h"
#include "plan/recompute_search.h"

namespace onnx_memopt::plan {
namespace {

constexpr int64_t kMaxWork = 200'000'000;  // ancestors x tries
constexpr int64_t kMaxTries = 1'000'000;
constexpr int64_t kTriesPerStep = 256;

class MomentSearch {
 public:
  MomentSearch(const RecomputeModel& model, const RecomputeMoment& moment,
               uint64_t seed)
      : model_(model), moment_(moment), random_(seed), index_(model.n, -1) {
    for (int32_t v : moment.ancestors) {
      index_[v] = static_cast<int32_t>(nodes_.size());
      nodes_.push_back(v);
      memory_.push_back(moment.held[v] ? 0
                                       : static_cast<double>(model.memory[v]));
      cost_.push_back(static_cast<double>(model.cost[v]));
      std::vector<int32_t> inputs;
      for (int32_t u : model.inputs[v]) inputs.push_back(index_[u]);
      inputs_.push_back(std::move(inputs));
      required_.push_back(moment.required[v] ? 1 : 0);
    }
    needed_.resize(nodes_.size());
  }

  std::vector<KeptChoice> Run(const std::vector<bool>& again, size_t max_sets,
                              int64_t max_tries,
                              const std::function<bool()>& stop) {
    const auto n = static_cast<int32_t>(nodes_.size());
    if (n == 0) return {};
    kept_.assign(n, 0);
    for (int32_t i = 0; i < n; ++i) {
      kept_[i] = required_[i] != 0 && !again[nodes_[i]] ? 1 : 0;
    }
    double mean_cost = 0;
    double mean_memory = 0;
    for (int32_t i = 0; i < n; ++i) {
      mean_cost += cost_[i] / n;
      mean_memory += memory_[i] / n;
    }
    mean_cost = std::max(mean_cost, 1e-9);
    const double least_price = 1e-6 * mean_cost / std::max(mean_memory, 1e-9);
    double price = mean_cost / std::max(mean_memory, 1e-9);
    double excess = 0;
    double cost = Evaluate(excess);
    int64_t tries = std::min(kMaxTries, kMaxWork / n);
    if (max_tries > 0) tries = std::min(tries, max_tries);
    double temperature = 0;
    int64_t over = 0;
    for (int64_t i = 0; i < tries; ++i) {
      if (i % kTriesPerStep == 0) {
        if (stop && stop()) break;
        temperature =
            mean_cost * std::pow(0.0005, static_cast<double>(i) /
                                             static_cast<double>(tries));
        price = over > kTriesPerStep / 2 ? price * 1.05
                                         : std::max(price / 1.05, least_price);
        over = 0;
      }
      over += excess > 0 ? 1 : 0;
      const int32_t flips = 1 + random_.Below(3);
      int32_t flipped[3];
      for (int32_t k = 0; k < flips; ++k) {
        flipped[k] = random_.Below(n);
        // Nothing hangs on a value that nobody needs now.
        for (int t = 0; t < 4 && needed_[flipped[k]] == 0; ++t) {
          flipped[k] = random_.Below(n);
        }
        kept_[flipped[k]] ^= 1;
      }
      double new_excess = 0;
      const double new_cost = Evaluate(new_excess);
      const double change = new_cost - cost + price * (new_excess - excess);
      if (change > 0 && random_.Unit() >= std::exp(-change / temperature)) {
        for (int32_t k = 0; k < flips; ++k) kept_[flipped[k]] ^= 1;
        continue;
      }
      cost = new_cost;
      excess = new_excess;
      if (excess <= 0) Note(cost, max_sets);
    }
    std::vector<KeptChoice> sets;
    sets.reserve(best_.size());
    for (const auto& [set_cost, kept] : best_) {
      sets.push_back({set_cost, AgainSet(kept)});
    }
    return sets;
  }

 private:
  // The cost of what is made again if `kept_` is kept. Values that are kept for
  // nothing take no memory.
  double Evaluate(double& excess) {
    std::copy(required_.begin(), required_.end(), needed_.begin());
    double cost = 0;
    double memory = -moment_.room;
    for (auto i = static_cast<int32_t>(nodes_.size()) - 1; i >= 0; --i) {
      if (needed_[i] == 0) continue;
      if (kept_[i] != 0) {
        memory += memory_[i];
        continue;
      }
      cost += cost_[i];
      for (int32_t u : inputs_[i]) needed_[u] = 1;
    }
    excess = std::max(0.0, memory);
    return cost;
  }

  void Note(double cost, size_t max_sets) {
    if (best_.size() == max_sets && cost >= best_.back().first) return;
    for (const auto& [other, unused] : best_) {
      if (other == cost) return;  // most likely the same but for a detail
    }
    best_.emplace_back(cost, kept_);
    std::stable_sort(
        best_.begin(), best_.end(),
        [](const auto& a, const auto& b) { return a.first < b.first; });
    if (best_.size() > max_sets) best_.pop_back();
  }

  std::vector<bool> AgainSet(const std::vector<uint8_t>& kept) {
    kept_ = kept;
    double excess = 0;
    Evaluate(excess);
    std::vector<bool> again(model_.n, false);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      again[nodes_[i]] = kept_[i] == 0 || needed_[i] == 0;
    }
    return again;
  }

  const RecomputeModel& model_;
  const RecomputeMoment& moment_;
  Random random_;
  std::vector<int32_t> index_;  // by node: among the ancestors
  std::vector<int32_t> nodes_;  // the ancestors, in a valid order
  std::vector<double> memory_;
  std::vector<double> cost_;
  std::vector<std::vector<int32_t>> inputs_;
  std::vector<uint8_t> required_;
  std::vector<uint8_t> kept_;
  std::vector<uint8_t> needed_;
  std::vector<std::pair<double, std::vector<uint8_t>>> best_;
};

}  // namespace

std::vector<KeptChoice> ChooseKept(const RecomputeModel& model,
                                   const RecomputeMoment& moment,
                                   const std::vector<bool>& again,
                                   size_t max_sets, int64_t max_tries,
                                   uint64_t seed,
                                   const std::function<bool()>& stop) {
  return MomentSearch(model, moment, seed)
      .Run(again, max_sets, max_tries, stop);
}

}  // namespace onnx_memopt::plan
