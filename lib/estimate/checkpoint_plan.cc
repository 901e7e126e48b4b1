#include "estimate/checkpoint_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::estimate {
namespace {

constexpr int64_t kSteps = 512;
constexpr size_t kMostCandidates = 2048;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// The best way to a place that keeps so many bytes.
struct State {
  int64_t cost = kNever;
  int64_t bytes = 0;
  int32_t candidate = -1;  // that ended here; -1: what lies between was kept
  int32_t from = -1;       // the step at the place where that began
};

}  // namespace

CheckpointChooser::CheckpointChooser(const ModelFacts& facts,
                                     const ModelBlocks& blocks,
                                     const TraceOptions& options)
    : facts_(facts),
      batch_(options.batch),
      first_(facts.buffers.size(), -1),
      buffer_bytes_(facts.buffers.size()) {
  const std::vector<int64_t> saved = SavedByUnit(facts, options);
  saved_before_.resize(saved.size() + 1);
  for (size_t u = 0; u < saved.size(); ++u) {
    saved_before_[u + 1] = SaturatingAdd(saved_before_[u], saved[u]);
    for (BufferIndex b : facts.units[u].writes) {
      first_[b] = static_cast<UnitIndex>(u);
    }
  }
  all_bytes_ = saved_before_.back();
  for (size_t b = 0; b < buffer_bytes_.size(); ++b) {
    buffer_bytes_[b] = BufferBytes(facts.buffers[b], options);
  }
  for (BufferIndex b : facts.outputs) {
    loss_bytes_ = SaturatingAdd(loss_bytes_, buffer_bytes_[b]);
  }
  for (const Checkpoint& core : AttentionCores(facts)) AddCandidate(core);
  const size_t count = blocks.blocks.size();
  const size_t longest =
      count == 0 ? 0 : std::clamp<size_t>(kMostCandidates / count, 1, count);
  for (size_t i = 0; i < count; ++i) {
    Checkpoint group = blocks.blocks[i];
    AddCandidate(group);
    for (size_t j = i + 1; j < std::min(count, i + longest); ++j) {
      if (blocks.blocks[j].begin != group.end) break;
      group.end = blocks.blocks[j].end;
      AddCandidate(group);
    }
  }
  AddPlaces();
}

void CheckpointChooser::AddCandidate(const Checkpoint& range) {
  Candidate candidate{.range = range};
  std::vector<BufferIndex> inputs;
  for (UnitIndex u = range.begin; u < range.end; ++u) {
    for (BufferIndex b : facts_.units[u].reads) {
      if (first_[b] >= 0 && first_[b] < range.begin &&
          !facts_.buffers[b].is_output) {
        inputs.push_back(b);
      }
    }
  }
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  for (BufferIndex b : inputs) {
    candidate.kept_bytes =
        SaturatingAdd(candidate.kept_bytes, buffer_bytes_[b]);
  }
  candidate.all_bytes = saved_before_[range.end] - saved_before_[range.begin];
  if (candidate.kept_bytes >= candidate.all_bytes) return;
  // One more: of two that cost nothing, fewer are better.
  candidate.cost =
      SaturatingAdd(FlopsOf(facts_, range.begin, range.end, batch_), 1);
  candidates_.push_back(candidate);
}

void CheckpointChooser::AddPlaces() {
  places_ = {0, static_cast<UnitIndex>(facts_.units.size())};
  for (const Candidate& candidate : candidates_) {
    places_.push_back(candidate.range.begin);
    places_.push_back(candidate.range.end);
  }
  std::sort(places_.begin(), places_.end());
  places_.erase(std::unique(places_.begin(), places_.end()), places_.end());
  from_place_.resize(places_.size());
  const auto place_of = [&](UnitIndex unit) {
    return static_cast<size_t>(
        std::lower_bound(places_.begin(), places_.end(), unit) -
        places_.begin());
  };
  for (size_t i = 0; i < candidates_.size(); ++i) {
    candidates_[i].end_place = place_of(candidates_[i].range.end);
    from_place_[place_of(candidates_[i].range.begin)].push_back(i);
  }
}

std::optional<std::vector<Checkpoint>> CheckpointChooser::Choose(
    int64_t limit_bytes) const {
  if (limit_bytes <= 0) return std::nullopt;
  const int64_t step = CeilDiv(limit_bytes, kSteps);
  std::vector<std::vector<State>> states(places_.size(),
                                         std::vector<State>(kSteps + 1));
  const auto reach = [&](size_t place, const State& state) {
    State& there = states[place][CeilDiv(state.bytes, step)];
    if (state.cost < there.cost ||
        (state.cost == there.cost && state.bytes < there.bytes)) {
      there = state;
    }
  };
  states[0][0] = {.cost = 0};
  for (size_t p = 0; p + 1 < places_.size(); ++p) {
    for (int64_t s = 0; s <= kSteps; ++s) {
      const State& state = states[p][s];
      if (state.cost == kNever) continue;
      const int64_t kept =
          SaturatingAdd(state.bytes, saved_before_[places_[p + 1]] -
                                         saved_before_[places_[p]]);
      if (kept <= limit_bytes) {
        reach(p + 1, {.cost = state.cost,
                      .bytes = kept,
                      .from = static_cast<int32_t>(s)});
      }
      for (size_t i : from_place_[p]) {
        const Candidate& c = candidates_[i];
        const int64_t bytes = SaturatingAdd(state.bytes, c.kept_bytes);
        // Room for all of it while backward is there.
        if (bytes > limit_bytes ||
            SaturatingAdd(bytes, c.all_bytes) >
                SaturatingAdd(limit_bytes, loss_bytes_)) {
          continue;
        }
        reach(c.end_place, {.cost = SaturatingAdd(state.cost, c.cost),
                            .bytes = bytes,
                            .candidate = static_cast<int32_t>(i),
                            .from = static_cast<int32_t>(s)});
      }
    }
  }
  const std::vector<State>& last = states.back();
  const auto best = std::min_element(
      last.begin(), last.end(),
      [](const State& a, const State& b) { return a.cost < b.cost; });
  if (best->cost == kNever) return std::nullopt;
  std::vector<Checkpoint> plan;
  State state = *best;
  size_t place = places_.size() - 1;
  while (place > 0) {
    if (state.candidate < 0) {
      --place;
    } else {
      const Checkpoint& range = candidates_[state.candidate].range;
      plan.push_back(range);
      place = static_cast<size_t>(
          std::lower_bound(places_.begin(), places_.end(), range.begin) -
          places_.begin());
    }
    state = states[place][state.from];
  }
  std::reverse(plan.begin(), plan.end());
  return plan;
}

}  // namespace onnx_memopt::estimate
