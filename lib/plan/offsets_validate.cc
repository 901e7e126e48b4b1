// The judge of every plan, so it shares no code with the packers. It replays
// time: the live buffers are kept sorted by offset, and a buffer that begins
// must fit between its two neighbours.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"

namespace onnx_memopt::plan {
namespace {

struct Event {
  int32_t step;
  int32_t is_begin;  // 0: the end of a lifetime, which comes first
  size_t buffer;
  bool operator<(const Event& other) const {
    return std::tie(step, is_begin, buffer) <
           std::tie(other.step, other.is_begin, other.buffer);
  }
};

absl::Status Overlap(absl::Span<const Buffer> buffers, const OffsetPlan& plan,
                     size_t a, size_t b) {
  return absl::InternalError(absl::StrCat(
      "buffers ", a, " (", buffers[a].size_bytes, " bytes at ",
      plan.offset_bytes[a], ") and ", b, " (", buffers[b].size_bytes,
      " bytes at ", plan.offset_bytes[b], ") overlap and live together at ",
      "step ", std::max(buffers[a].begin, buffers[b].begin)));
}

}  // namespace

absl::Status ValidateOffsets(absl::Span<const Buffer> buffers,
                             const OffsetPlan& plan) {
  if (plan.offset_bytes.size() != buffers.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a plan with ", plan.offset_bytes.size(), " offsets for ",
                     buffers.size(), " buffers"));
  }
  if (plan.arena_bytes < 0) {
    return absl::InvalidArgumentError("an arena of negative size");
  }
  std::vector<Event> events;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    if (buffer.end <= buffer.begin || buffer.size_bytes < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "buffer ", i, " has an empty lifetime or a negative size"));
    }
    const int64_t offset = plan.offset_bytes[i];
    if (offset < 0) {
      return absl::InternalError(
          absl::StrCat("buffer ", i, " has a negative offset: ", offset));
    }
    // Written so that nothing can overflow.
    if (offset > plan.arena_bytes ||
        buffer.size_bytes > plan.arena_bytes - offset) {
      return absl::InternalError(absl::StrCat(
          "buffer ", i, " (", buffer.size_bytes, " bytes at ", offset,
          ") reaches beyond the arena of ", plan.arena_bytes, " bytes"));
    }
    if (buffer.size_bytes == 0) continue;
    events.push_back({buffer.begin, 1, i});
    events.push_back({buffer.end, 0, i});
  }
  std::sort(events.begin(), events.end());
  std::map<int64_t, size_t> live;  // offset -> buffer; disjoint
  for (const Event& event : events) {
    const size_t i = event.buffer;
    const int64_t offset = plan.offset_bytes[i];
    if (event.is_begin == 0) {
      live.erase(offset);
      continue;
    }
    auto next = live.lower_bound(offset);
    if (next != live.end() && next->first - offset < buffers[i].size_bytes) {
      return Overlap(buffers, plan, next->second, i);
    }
    if (next != live.begin()) {
      auto previous = std::prev(next);
      if (offset - previous->first < buffers[previous->second].size_bytes) {
        return Overlap(buffers, plan, previous->second, i);
      }
    }
    live.emplace_hint(next, offset, i);
  }
  return absl::OkStatus();
}

}  // namespace onnx_memopt::plan
