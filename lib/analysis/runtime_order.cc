// In which order the runtime executes the nodes of a block.
//
// DEFAULT is a depth-first walk from the leaves towards the inputs. Leaves are
// pushed by ascending index and so are the producers of a node, and a stack
// pops the last one first:
//
//      a(0)  b(1)         leaves: join(2)
//         \  /            pushes a, b; pops b first
//        join(2)          order: b, a, join
//
// PRIORITY_BASED is Kahn's algorithm with a queue of what is ready: Shape and
// Size first, then the lowest index.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/analysis/runtime_model.h"

namespace onnx_memopt::analysis {
namespace {

class Orderer {
 public:
  Orderer(const RuntimeBlock& block, absl::Span<const int32_t> rank)
      : steps_(block.steps), rank_(rank) {}

  DepthFirstWalk DepthFirst() {
    std::vector<bool> has_consumer(steps_.size());
    for (const RuntimeStep& step : steps_) {
      for (int32_t producer : step.after) has_consumer[Size(producer)] = true;
    }
    struct Entry {
      int32_t step;
      int32_t from;
      bool leave;
    };
    std::vector<Entry> stack;
    for (int32_t step : ByRank()) {
      if (!has_consumer[Size(step)]) stack.push_back({step, -1, false});
    }
    std::vector<bool> visited(steps_.size());
    DepthFirstWalk walk;
    walk.order.reserve(steps_.size());
    walk.came_from.resize(steps_.size());
    while (!stack.empty()) {
      const Entry entry = stack.back();
      stack.pop_back();
      if (entry.leave) {
        walk.order.push_back(entry.step);
        continue;
      }
      if (visited[Size(entry.step)]) continue;
      visited[Size(entry.step)] = true;
      walk.came_from[Size(entry.step)] = entry.from;
      stack.push_back({entry.step, entry.from, true});
      const size_t first = stack.size();
      for (int32_t producer : steps_[Size(entry.step)].after) {
        if (visited[Size(producer)]) continue;
        stack.push_back({producer, entry.step, false});
      }
      if (rank_.empty()) continue;  // `after` is sorted already
      std::sort(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end(),
                [&](const Entry& a, const Entry& b) {
                  return Rank(a.step) < Rank(b.step);
                });
    }
    return walk;
  }

  std::vector<int32_t> ByRank() const {
    std::vector<int32_t> steps(steps_.size());
    std::iota(steps.begin(), steps.end(), 0);
    if (rank_.empty()) return steps;
    std::sort(steps.begin(), steps.end(),
              [&](int32_t a, int32_t b) { return Rank(a) < Rank(b); });
    return steps;
  }

  std::vector<int32_t> ByPriority() {
    std::vector<std::vector<int32_t>> consumers(steps_.size());
    std::vector<size_t> waiting(steps_.size());
    for (size_t i = 0; i < steps_.size(); ++i) {
      waiting[i] = steps_[i].after.size();
      for (int32_t producer : steps_[i].after) {
        consumers[Size(producer)].push_back(static_cast<int32_t>(i));
      }
    }
    // Not eager, rank, step: the smallest runs first.
    using Key = std::tuple<bool, int32_t, int32_t>;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
    const auto push = [&](int32_t step) {
      ready.emplace(!steps_[Size(step)].eager, Rank(step), step);
    };
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (waiting[i] == 0) push(static_cast<int32_t>(i));
    }
    std::vector<int32_t> order;
    order.reserve(steps_.size());
    while (!ready.empty()) {
      const int32_t step = std::get<2>(ready.top());
      ready.pop();
      order.push_back(step);
      for (int32_t consumer : consumers[Size(step)]) {
        if (--waiting[Size(consumer)] == 0) push(consumer);
      }
    }
    return order;
  }

 private:
  static size_t Size(int32_t step) { return static_cast<size_t>(step); }
  int32_t Rank(int32_t step) const {
    return rank_.empty() ? step : rank_[Size(step)];
  }
  const std::vector<RuntimeStep>& steps_;
  absl::Span<const int32_t> rank_;
};

}  // namespace

DepthFirstWalk WalkDepthFirst(const RuntimeBlock& block,
                              absl::Span<const int32_t> rank) {
  return Orderer(block, rank).DepthFirst();
}

std::vector<int32_t> RunOrder(const RuntimeBlock& block, ExecutionOrder order,
                              absl::Span<const int32_t> rank) {
  Orderer orderer(block, rank);
  switch (order) {
    case ExecutionOrder::kDefault:
      return orderer.DepthFirst().order;
    case ExecutionOrder::kPriorityBased:
      return orderer.ByPriority();
    case ExecutionOrder::kFile:
      break;
  }
  return orderer.ByRank();
}

}  // namespace onnx_memopt::analysis
