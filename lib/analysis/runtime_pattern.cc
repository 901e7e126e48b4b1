// The memory pattern: from the second run of a block with the same shapes on,
// its tensors (but for its outputs) are parts of one allocation. Their places
// come from a replay of the first run, in order of time, each in the smallest
// gap that fits, else behind the last one. The rest of the block behind the
// last live tensor is a gap, too:
//
//   | a a | b | c |     a and c die     | . . | b | . |     d | . . | b | d |
//                                                           e | e e | b | d |
//
// There is no look ahead: what lives long may lie in the middle of the block
// and keep a large tensor from fitting in front of it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analysis/ort_facts.h"
#include "analysis/runtime_trace.h"
#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::analysis {
namespace {

int64_t Rounded(int64_t bytes) {
  const int64_t unit = ort::kPatternAlignmentBytes;
  if (bytes > std::numeric_limits<int64_t>::max() - unit) return bytes;
  return (bytes + unit - 1) / unit * unit;
}

// Live tensors by offset, and the gaps between them by size.
class PatternPlanner {
 public:
  int64_t Place(int64_t size_bytes) {
    int64_t offset = 0;
    if (!live_.empty()) {
      const auto& [last, last_bytes] = *live_.rbegin();
      offset = SaturatingAdd(last, last_bytes);
    }
    // Behind the last tensor there may be a rest of what was needed before.
    const int64_t rest = peak_ - offset;
    const auto gap = gaps_.lower_bound({size_bytes, 0});
    if (gap != gaps_.end() && (rest < size_bytes || gap->first <= rest)) {
      const auto [gap_bytes, gap_offset] = *gap;
      offset = gap_offset;
      gaps_.erase(gap);
      AddGap(SaturatingAdd(offset, size_bytes), gap_bytes - size_bytes);
    }
    live_.emplace(offset, size_bytes);
    peak_ = std::max(peak_, SaturatingAdd(offset, size_bytes));
    return offset;
  }

  void Free(int64_t offset) {
    const auto it = live_.find(offset);
    if (it == live_.end()) return;
    const int64_t end = SaturatingAdd(offset, it->second);
    int64_t begin = 0;  // where the gap begins that this leaves
    if (it != live_.begin()) {
      const auto previous = std::prev(it);
      begin = SaturatingAdd(previous->first, previous->second);
    }
    gaps_.erase({offset - begin, begin});
    const auto next = live_.erase(it);
    // Behind the last tensor is no gap.
    if (next == live_.end()) return;
    gaps_.erase({next->first - end, end});
    AddGap(begin, next->first - begin);
  }

  int64_t peak_bytes() const { return peak_; }

 private:
  void AddGap(int64_t offset, int64_t size_bytes) {
    if (size_bytes > 0) gaps_.emplace(size_bytes, offset);
  }

  std::map<int64_t, int64_t> live_;             // offset to size
  std::set<std::pair<int64_t, int64_t>> gaps_;  // size, offset
  int64_t peak_ = 0;
};

}  // namespace

PatternPlan PlanPattern(const RuntimeBlock& block,
                        absl::Span<const int32_t> order,
                        const BufferPlan& buffers) {
  PatternPlan plan;
  plan.offsets.assign(block.values.size(), -1);
  PatternPlanner planner;
  for (int32_t index : order) {
    const RuntimeStep& step = block.steps[static_cast<size_t>(index)];
    for (int32_t value : step.outputs) {
      const RuntimeValue& v = block.values[static_cast<size_t>(value)];
      if (v.is_output || v.size_bytes == 0 ||
          !OwnsBuffer(block, buffers, value)) {
        continue;
      }
      plan.offsets[static_cast<size_t>(value)] =
          planner.Place(Rounded(v.size_bytes));
    }
    for (int32_t value : buffers.frees[static_cast<size_t>(index)]) {
      const int64_t offset = plan.offsets[static_cast<size_t>(value)];
      if (offset >= 0) planner.Free(offset);
    }
  }
  plan.block_bytes = planner.peak_bytes();
  return plan;
}

}  // namespace onnx_memopt::analysis
