#include "plan/recompute_chain.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "onnx_memopt/support/checked_math.h"
#include "plan/recompute_blocks.h"

namespace onnx_memopt::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Units that a budget is counted in: as many as the work allows.
constexpr int64_t kFewestUnits = 64;
constexpr int64_t kMostUnits = 2'000;
// How much further than the budget the tables go where units are coarse, and
// how many sequences are taken from there.
constexpr double kBeyond = 1.3;
constexpr int kGuesses = 12;

class ChainPlanner {
 public:
  ChainPlanner(absl::Span<const RecomputeBlock> blocks, int64_t budget)
      : blocks_(blocks), n_(static_cast<int32_t>(blocks.size())) {
    for (const RecomputeBlock& b : blocks) {
      for (int64_t memory :
           {b.out_memory, b.saved_memory, b.sweep_peak, b.sweep_in_peak,
            b.save_peak, b.tail_peak, b.backward_peak, b.gradients}) {
        divisor_ = std::gcd(divisor_, memory);
      }
    }
    divisor_ = std::max<int64_t>(1, divisor_);
    budget_ = budget / divisor_;
  }

  std::vector<std::vector<int32_t>> Run(int64_t max_work,
                                        const std::function<bool()>& stop) {
    FindClasses();
    int64_t lengths = 0;
    for (const auto& [i, j] : examples_) lengths += j - i;
    int64_t units =
        std::min(kMostUnits, max_work / std::max<int64_t>(1, lengths));
    if (units < std::min(kFewestUnits, budget_)) return {};
    if (budget_ > units) {
      // Coarse units: the exact number is of no importance.
      units = static_cast<int64_t>(static_cast<double>(units) / kBeyond);
      unit_ = CeilDiv(budget_, units) * divisor_;
      budget_ = FloorDiv(budget_ * divisor_, unit_);
    } else {
      unit_ = divisor_;
    }
    const bool coarse = unit_ > divisor_;
    const auto most = static_cast<int64_t>(static_cast<double>(budget_) *
                                           (coarse ? kBeyond : 1));
    width_ = static_cast<size_t>(most) + 1;
    table_.assign(examples_.size() * width_, kNever);
    for (size_t c = 0; c < examples_.size(); ++c) {
      if (stop && stop()) return {};
      Solve(static_cast<int32_t>(c));
    }
    std::vector<std::vector<int32_t>> sequences;
    double last = kNever;
    for (int guess = 0; guess <= (coarse ? kGuesses : 0); ++guess) {
      const int64_t m = budget_ + (most - budget_) * guess / kGuesses;
      const double cost = Row(0, n_)[m];
      if (!(cost < last)) continue;
      last = cost;
      sequences.push_back(Write(m));
    }
    return sequences;
  }

 private:
  // Which of two or three ways a stretch is run.
  struct Choice {
    enum { kTail, kSave, kCheckpoint } kind = kTail;
    int32_t at = 0;  // kCheckpoint: the block whose result is held
  };

  // Stretches of equal blocks are of one class: a class is its first block and
  // the class of the rest.
  void FindClasses() {
    using Key = decltype(std::declval<RecomputeBlock>().Key());
    std::map<Key, int32_t> keys;
    std::vector<int32_t> same(n_);
    for (int32_t b = 0; b < n_; ++b) {
      const auto [it, fresh] =
          keys.try_emplace(blocks_[b].Key(), static_cast<int32_t>(keys.size()));
      same[b] = it->second;
    }
    // Every node of the last block runs in its tail: unlike others.
    same[n_ - 1] = static_cast<int32_t>(keys.size());
    class_of_.assign(static_cast<size_t>(n_ + 1) * (n_ + 1), -1);
    absl::flat_hash_map<int64_t, int32_t> classes;
    for (int32_t length = 1; length <= n_; ++length) {
      for (int32_t i = 0; i + length <= n_; ++i) {
        const int32_t j = i + length;
        const int64_t rest = length == 1 ? -1 : ClassOf(i + 1, j);
        const auto [it, fresh] =
            classes.try_emplace(int64_t{same[i]} << 32 | (rest + 1),
                                static_cast<int32_t>(examples_.size()));
        if (fresh) examples_.emplace_back(i, j);
        class_of_[Index(i, j)] = it->second;
      }
    }
  }

  size_t Index(int32_t i, int32_t j) const {
    return static_cast<size_t>(i) * (n_ + 1) + j;
  }
  int32_t ClassOf(int32_t i, int32_t j) const { return class_of_[Index(i, j)]; }
  const double* Row(int32_t i, int32_t j) const {
    return table_.data() + ClassOf(i, j) * width_;
  }
  int64_t Units(int64_t memory) const { return CeilDiv(memory, unit_); }

  // The least memory for a way to run blocks i + 1 to j: what is live while it
  // goes forward, and while the backward part of block i + 1 runs.
  int64_t TailNeeds(int32_t j) const {
    const RecomputeBlock& b = blocks_[j - 1];
    return Units(std::max(b.tail_peak + b.gradients, b.backward_peak));
  }
  int64_t SaveNeeds(int32_t i, int32_t j) const {
    const RecomputeBlock& b = blocks_[i];
    return Units(
        std::max(b.save_peak + blocks_[j - 1].gradients, b.backward_peak));
  }

  void Solve(int32_t c) {
    const auto [i, j] = examples_[c];
    double* out = table_.data() + c * width_;
    const auto width = static_cast<int64_t>(width_);
    if (j == i + 1) {
      for (int64_t m = TailNeeds(j); m < width; ++m) {
        out[m] = static_cast<double>(blocks_[i].tail_cost);
      }
      return;
    }
    double forward = static_cast<double>(blocks_[i].cost);
    const int64_t saved =
        Units(blocks_[i].saved_memory + blocks_[i].out_memory);
    const double* rest = Row(i + 1, j);
    for (int64_t m = std::max(SaveNeeds(i, j), saved); m < width; ++m) {
      out[m] = forward + rest[m - saved];
    }
    int64_t peak = blocks_[i].sweep_peak;
    for (int32_t k = i + 1; k < j; ++k) {
      if (k > i + 1) {
        peak = std::max(peak, blocks_[k - 1].sweep_in_peak);
        forward += static_cast<double>(blocks_[k - 1].cost);
      }
      const int64_t held = Units(blocks_[k - 1].out_memory);
      const double* after = Row(k, j);
      const double* before = Row(i, k);
      const int64_t begin =
          std::max(held, Units(peak + blocks_[j - 1].gradients));
      for (int64_t m = begin; m < width; ++m) {
        out[m] = std::min(out[m], forward + after[m - held] + before[m]);
      }
    }
  }

  // The choice behind the table's entry.
  Choice Choose(int32_t i, int32_t j, int64_t m) const {
    if (j == i + 1) return {};
    const double cost = Row(i, j)[m];
    double forward = static_cast<double>(blocks_[i].cost);
    const int64_t saved =
        Units(blocks_[i].saved_memory + blocks_[i].out_memory);
    if (m >= std::max(SaveNeeds(i, j), saved) &&
        forward + Row(i + 1, j)[m - saved] == cost) {
      return {.kind = Choice::kSave};
    }
    int64_t peak = blocks_[i].sweep_peak;
    for (int32_t k = i + 1; k < j; ++k) {
      if (k > i + 1) {
        peak = std::max(peak, blocks_[k - 1].sweep_in_peak);
        forward += static_cast<double>(blocks_[k - 1].cost);
      }
      const int64_t held = Units(blocks_[k - 1].out_memory);
      if (m < std::max(held, Units(peak + blocks_[j - 1].gradients))) continue;
      if (forward + Row(k, j)[m - held] + Row(i, k)[m] == cost) {
        return {.kind = Choice::kCheckpoint, .at = k};
      }
    }
    return {};
  }

  // The sequence for all blocks in `m` units. Jobs are on a stack: a long chain
  // would be too deep for recursion.
  std::vector<int32_t> Write(int64_t m) const {
    struct Job {
      int32_t i;
      int32_t j;  // i == j: only the backward part of block i + 1
      int64_t m;
    };
    std::vector<int32_t> sequence;
    const auto append = [&sequence](const std::vector<int32_t>& nodes) {
      sequence.insert(sequence.end(), nodes.begin(), nodes.end());
    };
    std::vector<Job> jobs = {{0, n_, m}};
    while (!jobs.empty()) {
      const Job job = jobs.back();
      jobs.pop_back();
      if (job.i == job.j) {
        append(blocks_[job.i].backward);
        continue;
      }
      const Choice choice = Choose(job.i, job.j, job.m);
      switch (choice.kind) {
        case Choice::kTail:
          append(blocks_[job.i].tail);
          append(blocks_[job.i].backward);
          break;
        case Choice::kSave:
          append(blocks_[job.i].forward);
          jobs.push_back({job.i, job.i, 0});
          jobs.push_back({job.i + 1, job.j,
                          job.m - Units(blocks_[job.i].saved_memory +
                                        blocks_[job.i].out_memory)});
          break;
        case Choice::kCheckpoint:
          for (int32_t b = job.i; b < choice.at; ++b) {
            append(blocks_[b].forward);
          }
          jobs.push_back({job.i, choice.at, job.m});
          jobs.push_back({choice.at, job.j,
                          job.m - Units(blocks_[choice.at - 1].out_memory)});
          break;
      }
    }
    return sequence;
  }

  absl::Span<const RecomputeBlock> blocks_;
  int32_t n_;
  int64_t divisor_ = 0;  // all memory is a multiple of it
  int64_t budget_ = 0;   // in units
  int64_t unit_ = 1;
  size_t width_ = 0;
  std::vector<std::pair<int32_t, int32_t>> examples_;  // by class
  std::vector<int32_t> class_of_;                      // by stretch
  std::vector<double> table_;  // by class and memory: the least cost
};

}  // namespace

std::vector<std::vector<int32_t>> PlanChain(
    absl::Span<const RecomputeBlock> blocks, int64_t budget, int64_t max_work,
    const std::function<bool()>& stop) {
  if (blocks.size() < 2 || budget < 0) return {};
  return ChainPlanner(blocks, budget).Run(max_work, stop);
}

}  // namespace onnx_memopt::plan
