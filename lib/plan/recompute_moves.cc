#include "plan/recompute_moves.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/recompute_model.h"
#include "plan/recompute_random.h"
#include "plan/recompute_state.h"

namespace onnx_memopt::plan {
namespace {

// One remake with all that it takes: `begin` is where the first of its runs
// stands, so what is made from there on counts as live.
class Remaker {
 public:
  Remaker(RecomputeState& state, const ScaledModel& scaled, int32_t begin,
          Supply supply, int32_t max_runs, Random& random)
      : state_(state),
        scaled_(scaled),
        begin_(begin),
        supply_(supply),
        left_(max_runs),
        random_(random) {}

  // Inserts the node before `position`; -1 if that failed, else the position
  // after it.
  int32_t Make(int32_t node, int32_t position) {
    if (--left_ < 0) return -1;
    for (int32_t u : scaled_.model->inputs[node]) {
      const int32_t run = state_.LatestRun(u, position);
      if (run < 0) return -1;
      if (state_.run_position(u, run) >= begin_) continue;
      const int32_t end = state_.last_use(u, run);
      if (end >= position || KeepInput(u, end, position)) continue;
      position = Make(u, position);
      if (position < 0) return -1;
    }
    state_.Insert(node, position);
    return position + 1;
  }

 private:
  bool KeepInput(int32_t node, int32_t end, int32_t position) {
    switch (supply_) {
      case Supply::kRemake:
        return false;
      case Supply::kMix:
        return (random_.Next() & 1) != 0;
      case Supply::kKeep:
        break;
    }
    const double room = scaled_.budget - scaled_.memory[node];
    for (int32_t p = end + 1; p < position; ++p) {
      if (state_.memory_at(p) > room) return false;
    }
    return true;
  }

  RecomputeState& state_;
  const ScaledModel& scaled_;
  int32_t begin_;
  Supply supply_;
  int32_t left_;
  Random& random_;
};

}  // namespace

bool Remake(RecomputeState& state, int32_t node, int32_t position,
            Supply supply, int32_t max_runs, Random& random) {
  return Remaker(state, state.scaled(), position, supply, max_runs, random)
             .Make(node, position) >= 0;
}

bool MoveMaker::Try() {
  const int32_t kind = random_.Below(16);
  if (state_.overflow() > 0 && kind < 3) return RemakeAcrossOverflow();
  if (kind < 6) return RemakeForRandomUse();
  if (kind < 8) return RemoveRandomRun();
  if (kind < 12) return ShiftRandomRun();
  return SwapRuns();
}

bool MoveMaker::RemakeForRandomUse() {
  const int32_t at = random_.Below(state_.length());
  const int32_t user = state_.node_at(at);
  const std::vector<int32_t>& inputs = model_.inputs[user];
  if (inputs.empty()) return false;
  const int32_t u = inputs[random_.Below(static_cast<int32_t>(inputs.size()))];
  const int32_t run = state_.LatestRun(u, at);
  // A value that was read just before has nothing to gain.
  const int32_t before = state_.LastUseBefore(u, run, at);
  if (before + 2 >= at) return false;
  int32_t position = at;
  if (random_.Below(8) == 0) {
    position = before + 1 + random_.Below(at - before);
  }
  const auto supply = static_cast<Supply>(random_.Below(3));
  return Remake(state_, u, position, supply, 40, random_);
}

bool MoveMaker::RemakeAcrossOverflow() {
  // A step over the budget, and a value that lives across it without being
  // read there; made again before its next use.
  const int32_t start = random_.Below(state_.length());
  int32_t step = start;
  while (state_.memory_at(step) <= state_.scaled().budget) {
    step = step + 1 == state_.length() ? 0 : step + 1;
    if (step == start) return false;
  }
  for (int tries = 0; tries < 32; ++tries) {
    const int32_t at = random_.Below(step + 1);
    const int32_t u = state_.node_at(at);
    const int32_t run = state_.LatestRun(u, step);
    if (run < 0 || state_.last_use(u, run) <= step) continue;
    const int32_t next = state_.FirstUseFrom(u, run, step);
    if (next <= step) continue;
    const auto supply = static_cast<Supply>(random_.Below(3));
    return Remake(state_, u, next, supply, 40, random_);
  }
  return false;
}

int32_t MoveMaker::RandomRepeatPosition() {
  const auto repeated = state_.repeated();
  if (repeated.empty()) return -1;
  const int32_t v =
      repeated[random_.Below(static_cast<int32_t>(repeated.size()))];
  return state_.run_position(v, random_.Below(state_.num_runs(v)));
}

bool MoveMaker::RemoveRandomRun() {
  const int32_t at = RandomRepeatPosition();
  if (at < 0 || !state_.CanRemove(at)) return false;
  state_.Remove(at);
  return true;
}

bool MoveMaker::MoveRun(int32_t from, int32_t to) {
  const int32_t v = state_.node_at(from);
  if (to < 0 || to > state_.length() || to == from || to == from + 1) {
    return false;
  }
  if (!state_.CanInsert(v, to)) return false;
  state_.Insert(v, to);
  const int32_t old = to <= from ? from + 1 : from;
  if (!state_.CanRemove(old)) return false;
  state_.Remove(old);
  return true;
}

bool MoveMaker::ShiftRandomRun() {
  int32_t from = -1;
  if (random_.Below(2) == 0) from = RandomRepeatPosition();
  if (from < 0) from = random_.Below(state_.length());
  // Near places more often than far ones.
  const double reach =
      std::pow(static_cast<double>(state_.length()), random_.Unit());
  const auto distance = static_cast<int32_t>(reach);
  return MoveRun(from,
                 random_.Below(2) == 0 ? from - distance : from + 1 + distance);
}

bool MoveMaker::SwapRuns() {
  // One for one mostly; several fill the budget more closely.
  bool changed = false;
  for (int32_t i = FewAtRandom(); i > 0; --i) {
    const size_t mark = state_.Mark();
    if (!RemoveRandomRun()) continue;
    changed = true;
    state_.RemoveUseless(mark);
  }
  if (!changed) return false;
  for (int32_t i = FewAtRandom(); i > 0; --i) {
    const size_t mark = state_.Mark();
    if (!RemakeForRandomUse()) state_.Undo(mark);
  }
  return true;
}

// 1 mostly, 2 or 3 now and then.
int32_t MoveMaker::FewAtRandom() {
  const int32_t draw = random_.Below(16);
  return draw < 10 ? 1 : draw < 14 ? 2 : 3;
}

}  // namespace onnx_memopt::plan
