// What a file can ask of the runtime's walk, and how: places of nodes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/rewrite/order_search.h"

namespace onnx_memopt::rewrite {
namespace {

size_t At(int32_t index) { return static_cast<size_t>(index); }

}  // namespace

FileOrders::FileOrders(const ir::Graph& graph,
                       const analysis::RuntimeBlock& block,
                       absl::Span<const ir::NodeId> nodes,
                       std::vector<std::vector<int32_t>> after)
    : block_(block), after_(std::move(after)), num_readers_(after_.size()) {
  llvm::DenseMap<ir::NodeId, int32_t> index;
  for (size_t i = 0; i < nodes.size(); ++i) {
    index[nodes[i]] = static_cast<int32_t>(i);
  }
  for (const std::vector<int32_t>& before : after_) {
    for (int32_t node : before) ++num_readers_[At(node)];
  }
  for (const analysis::RuntimeStep& step : block.steps) {
    ir::NodeId node = step.node;
    int32_t depth = 0;
    while (graph.node(node).block != block.block) {
      node = graph.block(graph.node(node).block).owner;
      ++depth;
    }
    const int32_t at = index.lookup(node);
    outer_node_.push_back(at);
    node_of_.push_back(depth == 0 ? at : -1);
    depth_.push_back(depth);
    has_calls_ |= depth > 0;
  }
}

std::vector<int32_t> FileOrders::Ranks(absl::Span<const int32_t> order) const {
  std::vector<int32_t> place(size());
  for (size_t i = 0; i < order.size(); ++i) {
    place[At(order[i])] = static_cast<int32_t>(i);
  }
  std::vector<int32_t> ranks(outer_node_.size());
  if (!has_calls_) {
    for (size_t s = 0; s < ranks.size(); ++s) {
      ranks[s] = place[At(outer_node_[s])];
    }
    return ranks;
  }
  // Bodies of calls come behind all others, a level of calls at a time.
  std::vector<int32_t> steps(outer_node_.size());
  std::iota(steps.begin(), steps.end(), 0);
  const auto key = [&](int32_t step) {
    return std::tuple(depth_[At(step)], place[At(outer_node_[At(step)])], step);
  };
  std::sort(steps.begin(), steps.end(),
            [&](int32_t a, int32_t b) { return key(a) < key(b); });
  for (size_t i = 0; i < steps.size(); ++i) {
    ranks[At(steps[i])] = static_cast<int32_t>(i);
  }
  return ranks;
}

std::vector<FileOrders::Pair> FileOrders::PairsOf(
    const analysis::DepthFirstWalk& walk) const {
  std::vector<Pair> pairs;
  // Where the walk has come to before from the same step; the last entry is for
  // leaves.
  std::vector<int32_t> before(walk.order.size() + 1, -1);
  for (int32_t step : walk.order) {
    const int32_t node = NodeOf(step);
    if (node < 0) continue;
    const int32_t from = walk.came_from[At(step)];
    int32_t& last = before[from < 0 ? walk.order.size() : At(from)];
    if (last >= 0) pairs.emplace_back(node, last);
    last = node;
  }
  return pairs;
}

std::vector<int32_t> FileOrders::WithPairs(absl::Span<const Pair> pairs,
                                           absl::Span<const int32_t> like,
                                           bool* all) const {
  const size_t count = size();
  std::vector<int32_t> place(count);
  for (size_t i = 0; i < like.size(); ++i) {
    place[At(like[i])] = static_cast<int32_t>(i);
  }
  // From the last place to the first. A node is ready when what must stand
  // behind it does; one whose pair is not placed waits while others are ready.
  std::vector<int32_t> follower(count, -1);  // must be placed before this one
  std::vector<int32_t> waits(count, -1);     // the inverse
  for (const auto& [first, second] : pairs) {
    follower[At(first)] = second;
    waits[At(second)] = first;
  }
  std::vector<int32_t> readers_left = num_readers_;
  std::vector<bool> placed(count);
  using Entry = std::pair<int32_t, int32_t>;  // place, node
  std::vector<Entry> ready;
  std::vector<Entry> waiting;
  const auto push = [](std::vector<Entry>* heap, Entry entry) {
    heap->push_back(entry);
    std::push_heap(heap->begin(), heap->end());
  };
  const auto pop = [](std::vector<Entry>* heap) {
    std::pop_heap(heap->begin(), heap->end());
    const int32_t node = heap->back().second;
    heap->pop_back();
    return node;
  };
  const auto enqueue = [&](int32_t node) {
    const int32_t behind = follower[At(node)];
    push(behind >= 0 && !placed[At(behind)] ? &waiting : &ready,
         {place[At(node)], node});
  };
  for (size_t i = 0; i < count; ++i) {
    if (readers_left[i] == 0) enqueue(static_cast<int32_t>(i));
  }
  std::vector<int32_t> order(count);
  bool kept_all = true;
  for (size_t left = count; left > 0;) {
    // Entries in `waiting` may have been released since.
    const bool forced = ready.empty();
    const int32_t node = pop(forced ? &waiting : &ready);
    if (placed[At(node)]) continue;
    kept_all = kept_all && !forced;
    placed[At(node)] = true;
    order[--left] = node;
    for (int32_t before : after_[At(node)]) {
      if (--readers_left[At(before)] == 0) enqueue(before);
    }
    const int32_t released = waits[At(node)];
    if (released >= 0 && !placed[At(released)] &&
        readers_left[At(released)] == 0) {
      push(&ready, {place[At(released)], released});
    }
  }
  if (all != nullptr) *all = kept_all;
  return order;
}

}  // namespace onnx_memopt::rewrite
