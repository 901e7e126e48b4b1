#include "plan/offsets_portfolio.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace onnx_memopt::plan {
namespace {

using Clock = std::chrono::steady_clock;

// The styles in the order in which they are raced. The choice of the section
// matters less than which buffer comes first.
struct Pair {
  DfsSection section;
  DfsOrder order;
};
constexpr std::array<Pair, 10> kStyles = {{
    {DfsSection::kFewest, DfsOrder::kSize},
    {DfsSection::kFewest, DfsOrder::kWidthFirst},
    {DfsSection::kTightest, DfsOrder::kLifeArea},
    {DfsSection::kFewest, DfsOrder::kContention},
    {DfsSection::kFewest, DfsOrder::kWidth},
    {DfsSection::kTightest, DfsOrder::kLife},
    {DfsSection::kLowest, DfsOrder::kSize},
    {DfsSection::kFewest, DfsOrder::kArea},
    {DfsSection::kLowest, DfsOrder::kWidth},
    {DfsSection::kLowest, DfsOrder::kWidthFirst},
}};
constexpr std::array<double, 3> kNoise = {0.5, 0.25, 0.8};

// The first round's limit of states, and how much more each round gets.
constexpr double kFirstLimit = 3000;
constexpr double kGrowth = 1.06;

// Where between the bound and the best height the tasks aim, in turn. A low
// aim is often easier than a high one: less room, fewer choices.
constexpr std::array<double, 8> kAims = {0, 1, 0.5, 0, 0.75, 0.25, 1, 0.1};

struct Task {
  int64_t capacity = 0;
  DfsStyle style;
  int64_t limit = 0;
  Verdict verdict = Verdict::kLimit;
};

Task MakeTask(int64_t number, double limit, int64_t lowest, int64_t highest,
              const PortfolioLimits& limits) {
  Task task;
  const Pair& pair = kStyles[number % kStyles.size()];
  const int64_t turn = number / static_cast<int64_t>(kStyles.size());
  task.style.section = pair.section;
  task.style.order = pair.order;
  if (turn > 0) {  // the first turn is without randomness
    task.style.seed = limits.seed * 1'000'003 + static_cast<uint64_t>(number);
    task.style.noise = kNoise[turn % kNoise.size()];
  }
  // Prime to the number of styles, so that each meets each aim.
  const double aim =
      limits.rules.low_aims ? kAims[(number + turn) % kAims.size()] : 1;
  task.capacity = lowest + static_cast<int64_t>(
                               aim * static_cast<double>(highest - lowest));
  task.limit =
      limits.rules.restarts ? static_cast<int64_t>(limit) : limits.max_states;
  return task;
}

}  // namespace

int64_t RunPortfolio(PartState& part, const PortfolioLimits& limits,
                     const std::function<void()>& improved) {
  const auto threads = static_cast<size_t>(limits.threads);
  std::vector<std::unique_ptr<OffsetDfs>> searches(threads);
  std::vector<Task> tasks(threads);
  int64_t spent = 0;  // per thread, the largest
  int64_t states = 0;
  int64_t number = 0;
  double limit = kFirstLimit;
  auto settled = [&] {
    return part.height <= std::max(part.bound, limits.enough) ||
           (limits.decide && part.bound > limits.enough);
  };
  while (!settled() && spent < limits.max_states &&
         Clock::now() < limits.deadline) {
    const int64_t lowest =
        limits.decide ? part.bound : std::max(part.bound, limits.enough);
    const int64_t highest = limits.decide ? limits.enough : part.height - 1;
    for (Task& task : tasks) {
      task = MakeTask(number++, limit, lowest, highest, limits);
    }
    // Once a task has ended the whole search, the others stop as soon as they
    // have done as much work: the first by work wins, whatever the threads'
    // speed.
    std::atomic<int64_t> stop_after = std::numeric_limits<int64_t>::max();
    auto run = [&](size_t k) {
      Task& task = tasks[k];
      if (searches[k] == nullptr) {
        searches[k] = std::make_unique<OffsetDfs>(part.problem, limits.rules);
      }
      task.verdict = searches[k]->Run(task.capacity, task.style,
                                      {.states = task.limit,
                                       .deadline = limits.deadline,
                                       .stop_after = &stop_after});
      const bool done =
          (task.verdict == Verdict::kPlaced &&
           (limits.decide || task.capacity == lowest)) ||
          (task.verdict == Verdict::kImpossible && task.capacity == highest);
      if (!done) return;
      int64_t now = stop_after.load();
      while (searches[k]->states() < now &&
             !stop_after.compare_exchange_weak(now, searches[k]->states())) {
      }
    };
    std::vector<std::thread> others;
    for (size_t k = 1; k < threads; ++k) others.emplace_back(run, k);
    run(0);
    for (std::thread& thread : others) thread.join();

    int64_t most = 0;
    bool better = false;
    for (size_t k = 0; k < threads; ++k) {
      most = std::max(most, searches[k]->states());
      states += searches[k]->states();
      // What a thread found after it should have stopped is luck.
      if (searches[k]->states() > stop_after.load()) continue;
      if (tasks[k].verdict == Verdict::kPlaced) {
        const int64_t height = searches[k]->Height();
        if (height < part.height) {
          part.height = height;
          part.offsets = searches[k]->offsets();
          better = true;
        }
      } else if (tasks[k].verdict == Verdict::kImpossible &&
                 tasks[k].capacity >= part.bound) {
        part.bound = tasks[k].capacity + 1;
        better = true;
      }
    }
    spent += most;
    if (better) improved();
    limit *= kGrowth;
  }
  return states;
}

}  // namespace onnx_memopt::plan
