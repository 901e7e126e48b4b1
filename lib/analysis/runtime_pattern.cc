// The memory pattern: from the second run of a block with the same shapes on,
// its tensors (but for its outputs) are parts of one allocation. Their places
// come from a replay of the first run, in order of time, each in the smallest
// gap that fits, else behind the last one:
//
//   offset   | a |        | a |      |   |      | ccccc |   c does not fit in
//            +---+   b    +---+      +---+  c   +-------+   front of b, so it
//            |   |  -->   | b |  a   | b | -->  | b     |   goes behind it,
//            |   |        |   |  dies|   |      |   |ccc|   though b may be
//                                                           small
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
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

class PatternPlanner {
 public:
  int64_t Place(int64_t size_bytes) {
    int64_t end = 0;
    int64_t best = -1;
    int64_t waste = std::numeric_limits<int64_t>::max();
    for (const auto& [offset, size] : live_) {
      const int64_t gap = offset - end;
      if (gap >= size_bytes && gap - size_bytes < waste) {
        best = end;
        waste = gap - size_bytes;
      }
      end = SaturatingAdd(offset, size);
    }
    if (best < 0) best = end;
    live_.emplace(best, size_bytes);
    peak_ = std::max(peak_, SaturatingAdd(best, size_bytes));
    return best;
  }
  void Free(int64_t offset) { live_.erase(offset); }
  int64_t peak_bytes() const { return peak_; }

 private:
  std::map<int64_t, int64_t> live_;  // offset to size
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
