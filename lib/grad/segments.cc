#include "grad/segments.h"

#include <algorithm>
#include <cstddef>

namespace onnx_memopt::grad {
namespace {

size_t At(int32_t index) { return static_cast<size_t>(index); }

std::vector<int32_t> Forward(const StepUnits& units) {
  std::vector<int32_t> forward;
  for (size_t u = 0; u < units.size(); ++u) {
    if (units.units()[u].is_forward) forward.push_back(static_cast<int32_t>(u));
  }
  return forward;
}

// By position in the forward pass: bytes that are made before it and read by
// the forward pass at or after it.
std::vector<int64_t> Crossing(const StepUnits& units,
                              const std::vector<int32_t>& forward) {
  std::vector<size_t> last(units.size());
  for (size_t i = 0; i < forward.size(); ++i) {
    last[At(forward[i])] = i;
    for (int32_t input : units.unit(forward[i]).inputs) last[At(input)] = i;
  }
  std::vector<int64_t> crossing(forward.size() + 1);
  for (size_t i = 0; i < forward.size(); ++i) {
    const int64_t bytes = units.unit(forward[i]).bytes;
    for (size_t at = i + 1; at <= last[At(forward[i])]; ++at) {
      crossing[at] += bytes;
    }
  }
  return crossing;
}

}  // namespace

std::vector<int32_t> CutIntoSegments(const StepUnits& units, int segments) {
  const std::vector<int32_t> forward = Forward(units);
  const std::vector<bool> is_saved = units.Saved();
  std::vector<int64_t> saved = {0};  // before each position
  for (int32_t unit : forward) {
    saved.push_back(saved.back() +
                    (is_saved[At(unit)] ? units.unit(unit).bytes : 0));
  }
  const std::vector<int64_t> crossing = Crossing(units, forward);
  std::vector<int32_t> segment_of(units.size(), -1);
  // How far a cut may be from its place: a third of a segment.
  const int64_t part = saved.back() / std::max(segments, 1);
  const auto bound = [&](int64_t bytes) {
    return static_cast<size_t>(
        std::lower_bound(saved.begin(), saved.end(), bytes) - saved.begin());
  };
  size_t begin = 0;
  int32_t segment = 0;
  for (int k = 1; k < segments; ++k) {
    const size_t from = std::max(bound(part * k - part / 3), begin + 1);
    const size_t to = std::min(bound(part * k + part / 3) + 1, forward.size());
    if (from >= to) continue;
    const auto first = crossing.begin();
    const auto best = static_cast<size_t>(
        std::min_element(first + static_cast<std::ptrdiff_t>(from),
                         first + static_cast<std::ptrdiff_t>(to)) -
        first);
    for (size_t i = begin; i < best; ++i) segment_of[At(forward[i])] = segment;
    begin = best;
    ++segment;
  }
  return segment_of;
}

std::vector<int32_t> RunsOfSegments(const StepUnits& units,
                                    absl::Span<const int32_t> segment_of) {
  // Made again: what only its own segment and the backward pass read.
  std::vector<bool> inside(units.size());
  for (size_t u = 0; u < units.size(); ++u) {
    const StepUnit& unit = units.units()[u];
    inside[u] = unit.is_forward && unit.can_repeat && segment_of[u] >= 0;
  }
  for (size_t u = 0; u < units.size(); ++u) {
    const StepUnit& unit = units.units()[u];
    if (!unit.is_forward) continue;
    for (int32_t input : unit.inputs) {
      if (segment_of[At(input)] != segment_of[u]) inside[At(input)] = false;
    }
  }
  std::vector<int32_t> runs;
  std::vector<bool> again(units.size());
  std::vector<int32_t> pending;
  std::vector<int32_t> wanted;
  for (size_t u = 0; u < units.size(); ++u) {
    const StepUnit& unit = units.units()[u];
    if (!unit.is_forward) {
      wanted.clear();
      pending = unit.inputs;
      while (!pending.empty()) {
        const int32_t next = pending.back();
        pending.pop_back();
        if (!inside[At(next)] || again[At(next)]) continue;
        again[At(next)] = true;
        wanted.push_back(next);
        const std::vector<int32_t>& inputs = units.unit(next).inputs;
        pending.insert(pending.end(), inputs.begin(), inputs.end());
      }
      std::sort(wanted.begin(), wanted.end());
      runs.insert(runs.end(), wanted.begin(), wanted.end());
    }
    runs.push_back(static_cast<int32_t>(u));
  }
  return runs;
}

}  // namespace onnx_memopt::grad
