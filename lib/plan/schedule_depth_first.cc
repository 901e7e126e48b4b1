// Depth-first orders: finish what one operand needs before starting on the
// next. Which operand first is the Sethi-Ullman question: the one whose subtree
// needs the most room above what it leaves behind. On a graph that is not a
// tree the need is an estimate.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "onnx_memopt/plan/schedule.h"
#include "onnx_memopt/support/checked_math.h"
#include "plan/schedule_model.h"
#include "plan/schedule_search.h"
#include "plan/schedule_units.h"

namespace onnx_memopt::plan {
namespace {

struct Needs {
  std::vector<int64_t> room;  // the peak of the unit's subtree, estimated
  std::vector<int64_t> left;  // bytes of the unit's results
};

// Subtrees with the most to give back first.
bool MoreToGive(const Needs& needs, int32_t a, int32_t b) {
  const int64_t give_a = needs.room[a] - needs.left[a];
  const int64_t give_b = needs.room[b] - needs.left[b];
  return give_a != give_b ? give_a > give_b : a < b;
}

Needs EstimateNeeds(const Model& model, const UnitGraph& units) {
  Needs needs;
  needs.room.assign(units.members.size(), 0);
  needs.left.assign(units.members.size(), 0);
  std::vector<int32_t> children;
  for (int32_t unit = 0; unit < units.size(); ++unit) {
    int64_t own = 0;
    for (int32_t node : units.members[unit]) {
      own =
          std::max(own, SaturatingAdd(model.alloc_bytes[node],
                                      model.problem->nodes[node].extra_bytes));
      for (int32_t b : model.results[node]) {
        const ScheduleBuffer& buffer = model.problem->buffers[b];
        const bool leaves = buffer.live_to_end ||
                            units.unit_of[buffer.readers.back()] != unit ||
                            units.unit_of[buffer.readers.front()] != unit;
        if (leaves) {
          needs.left[unit] = SaturatingAdd(needs.left[unit], buffer.size_bytes);
        }
      }
    }
    const auto preds = units.preds[unit];
    children.assign(preds.begin(), preds.end());
    std::sort(children.begin(), children.end(),
              [&](int32_t a, int32_t b) { return MoreToGive(needs, a, b); });
    int64_t before = 0;
    int64_t room = 0;
    for (int32_t child : children) {
      room = std::max(room, SaturatingAdd(before, needs.room[child]));
      before = SaturatingAdd(before, needs.left[child]);
    }
    needs.room[unit] = std::max(room, SaturatingAdd(before, own));
    needs.left[unit] = std::min(needs.left[unit], needs.room[unit]);
  }
  return needs;
}

using Before = std::function<bool(int32_t, int32_t)>;

std::vector<int32_t> PostOrder(const UnitGraph& units, const Before& child,
                               const Before& sink) {
  std::vector<int32_t> sinks;
  for (int32_t unit = 0; unit < units.size(); ++unit) {
    if (units.succs[unit].empty()) sinks.push_back(unit);
  }
  std::sort(sinks.begin(), sinks.end(), sink);

  std::vector<int32_t> order;
  order.reserve(units.members.size());
  std::vector<bool> seen(units.members.size(), false);
  struct Frame {
    int32_t unit;
    size_t begin;  // its children: pending[begin .. end of pending)
  };
  std::vector<Frame> stack;
  std::vector<int32_t> pending;
  auto open = [&](int32_t unit) {
    seen[unit] = true;
    stack.push_back({unit, pending.size()});
    const auto preds = units.preds[unit];
    pending.insert(pending.end(), preds.begin(), preds.end());
    // The next child to visit is the last.
    std::sort(pending.end() - static_cast<int64_t>(preds.size()), pending.end(),
              [&](int32_t a, int32_t b) { return child(b, a); });
  };
  for (int32_t root : sinks) {
    open(root);
    while (!stack.empty()) {
      if (pending.size() == stack.back().begin) {
        order.push_back(stack.back().unit);
        stack.pop_back();
        continue;
      }
      const int32_t next = pending.back();
      pending.pop_back();
      if (!seen[next]) open(next);
    }
  }
  return order;
}

}  // namespace

std::vector<Candidate> DepthFirstOrders(const Model& model,
                                        const UnitGraph& units) {
  const Needs needs = EstimateNeeds(model, units);
  const Before heavy = [&](int32_t a, int32_t b) {
    return MoreToGive(needs, a, b);
  };
  const Before light_room = [&](int32_t a, int32_t b) {
    return needs.room[a] != needs.room[b] ? needs.room[a] < needs.room[b]
                                          : a < b;
  };
  const Before input = std::less<>();
  const Before reversed = std::greater<>();
  std::vector<Candidate> candidates;
  auto add = [&](const Before& child, const Before& sink) {
    candidates.push_back({"dfs", PostOrder(units, child, sink)});
  };
  add(heavy, input);
  add(heavy, light_room);
  add(heavy, heavy);
  add(input, input);
  add(reversed, light_room);
  return candidates;
}

}  // namespace onnx_memopt::plan
