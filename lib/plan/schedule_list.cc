// List scheduling: of the units that are ready, run the one that looks best.
// What a unit costs changes when it becomes the last reader of an operand; its
// place in the queue is renewed then, once per operand.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/plan/schedule.h"
#include "plan/schedule_model.h"
#include "plan/schedule_search.h"
#include "plan/schedule_units.h"

namespace onnx_memopt::plan {
namespace {

enum class Measure {
  kHill,        // the smallest hill, then the smallest net
  kNet,         // the smallest net, then the smallest hill
  kHillValley,  // see Rank()
  kLookAhead,   // likewise, of the unit and what it alone makes ready
  kLastReady,   // what became ready last, unless something frees bytes
};

constexpr int kMaxLookAhead = 12;
// Units that make more than this ready end a look ahead.
constexpr size_t kMaxFanOut = 16;

using Key = std::array<int64_t, 3>;  // smallest first

// The order in which to run independent pieces of work, each with a hill and a
// net: first those that give bytes back, the lowest hill first; then those that
// take bytes, the one that falls the furthest from its hill first.
Key Rank(Effect effect) {
  if (effect.net <= 0) return {0, effect.hill, effect.net};
  return {1, effect.net - effect.hill, effect.net};
}

class ListScheduler {
 public:
  ListScheduler(const Model& model, const UnitGraph& units, Measure measure)
      : model_(model),
        units_(units),
        measure_(measure),
        replay_(model),
        waits_(units.members.size()),
        done_(units.members.size(), false),
        version_(units.members.size(), 0),
        ready_at_(units.members.size(), 0) {}

  std::vector<int32_t> Run() {
    for (int32_t unit = 0; unit < units_.size(); ++unit) {
      waits_[unit] = static_cast<int32_t>(units_.preds[unit].size());
    }
    for (int32_t unit = 0; unit < units_.size(); ++unit) {
      if (waits_[unit] == 0) Push(unit);
    }
    std::vector<int32_t> order;
    order.reserve(units_.members.size());
    while (!queue_.empty()) {
      const Entry entry = queue_.top();
      queue_.pop();
      if (done_[entry.unit] || entry.version != version_[entry.unit]) continue;
      order.push_back(entry.unit);
      Finish(entry.unit, static_cast<int32_t>(order.size()));
    }
    return order;
  }

 private:
  struct Entry {
    Key key;
    int32_t unit;
    int32_t version;
    bool operator>(const Entry& other) const {
      return std::tie(key[0], key[1], key[2], unit) >
             std::tie(other.key[0], other.key[1], other.key[2], other.unit);
    }
  };

  void Push(int32_t unit) { queue_.push({KeyOf(unit), unit, version_[unit]}); }

  void Finish(int32_t unit, int32_t step) {
    done_[unit] = true;
    replay_.Run(units_.members[unit]);
    for (int32_t succ : units_.succs[unit]) {
      if (--waits_[succ] != 0) continue;
      ready_at_[succ] = step;
      Push(succ);
    }
    for (int32_t node : units_.members[unit]) {
      for (int32_t b : model_.reads[node]) {
        if (replay_.readers_left(b) == 1) Renew(b);
      }
    }
  }

  void Renew(int32_t buffer) {
    for (int32_t reader : model_.problem->buffers[buffer].readers) {
      const int32_t unit = units_.unit_of[reader];
      if (done_[unit]) continue;
      if (waits_[unit] == 0) {
        ++version_[unit];
        Push(unit);
      }
      return;
    }
  }

  Key KeyOf(int32_t unit) {
    if (measure_ == Measure::kLookAhead) return Rank(LookAhead(unit));
    const Effect effect = replay_.Peek(units_.members[unit]);
    switch (measure_) {
      case Measure::kHill:
        return {effect.hill, effect.net, 0};
      case Measure::kNet:
        return {effect.net, effect.hill, 0};
      case Measure::kLastReady:
        return {effect.net <= 0 ? 0 : 1, -int64_t{ready_at_[unit]}, effect.net};
      default:
        return Rank(effect);
    }
  }

  // The unit, then a unit that it makes ready, and so on, up to where the
  // fewest bytes are live.
  Effect LookAhead(int32_t unit) {
    std::vector<Effect> effects;
    std::vector<int32_t> path;
    Effect so_far;
    Effect best;
    for (int32_t next = unit; next >= 0;) {
      path.push_back(next);
      effects.push_back(replay_.Run(units_.members[next]));
      so_far.hill = std::max(so_far.hill, so_far.net + effects.back().hill);
      so_far.net += effects.back().net;
      if (path.size() == 1 || so_far.net < best.net) best = so_far;
      const auto succs = units_.succs[next];
      next = -1;
      if (path.size() == kMaxLookAhead || succs.size() > kMaxFanOut) break;
      for (int32_t succ : succs) {
        if (WaitsOnlyFor(succ, path)) {
          next = succ;
          break;
        }
      }
    }
    for (size_t i = path.size(); i-- > 0;) {
      replay_.Undo(units_.members[path[i]], effects[i]);
    }
    return best;
  }

  bool WaitsOnlyFor(int32_t unit, absl::Span<const int32_t> path) const {
    if (static_cast<size_t>(waits_[unit]) > path.size()) return false;
    const auto preds = units_.preds[unit];
    int32_t on_path = 0;
    for (int32_t step : path) {
      if (std::binary_search(preds.begin(), preds.end(), step)) ++on_path;
    }
    return on_path == waits_[unit];
  }

  const Model& model_;
  const UnitGraph& units_;
  Measure measure_;
  Replay replay_;
  std::vector<int32_t> waits_;  // predecessors that have not run
  std::vector<bool> done_;
  std::vector<int32_t> version_;  // older entries in the queue are void
  std::vector<int32_t> ready_at_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

std::vector<Candidate> ListOrders(const Model& model, const UnitGraph& units) {
  std::vector<Candidate> candidates;
  for (Measure measure : {Measure::kHill, Measure::kNet, Measure::kHillValley,
                          Measure::kLookAhead, Measure::kLastReady}) {
    candidates.push_back({"list", ListScheduler(model, units, measure).Run()});
  }
  return candidates;
}

}  // namespace onnx_memopt::plan
