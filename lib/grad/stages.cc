#include "grad/stages.h"

#include <algorithm>

#include "llvm/ADT/DenseSet.h"

namespace onnx_memopt::grad {
namespace {

// Fusions happen within a stage, and a stage has a cost of its own: not too
// short. A long one leaves the runtime's walk too much freedom.
constexpr int kMaxRuns = 60;

size_t At(int32_t index) { return static_cast<size_t>(index); }

// What lives while each run lasts.
std::vector<int64_t> LiveBytes(const StepUnits& units,
                               absl::Span<const int32_t> runs,
                               const std::vector<int32_t>& last_read) {
  std::vector<int64_t> change(runs.size() + 1);
  std::vector<int64_t> live(runs.size());
  for (size_t r = 0; r < runs.size(); ++r) {
    change[r] += units.unit(runs[r]).bytes;
    change[At(last_read[r]) + 1] -= units.unit(runs[r]).bytes;
  }
  int64_t now = 0;
  for (size_t r = 0; r < runs.size(); ++r) {
    now += change[r];
    live[r] = now + units.unit(runs[r]).workspace_bytes;
  }
  return live;
}

// The most that lives in a stage of runs [begin, end). What it hands on is
// there from its beginning, what it reads of others to its end.
int64_t PeakOfStage(const StepUnits& units, absl::Span<const int32_t> runs,
                    const Stages& stages, int32_t begin, int32_t end) {
  const std::vector<int32_t>& last_read = stages.last_read;
  // What other stages made and this one reads last, by where that is.
  std::vector<int64_t> dead(At(end - begin) + 1);
  llvm::DenseSet<int32_t> seen;
  for (int32_t r = begin; r < end; ++r) {
    for (int32_t read : stages.reads[At(r)]) {
      if (read >= begin || last_read[At(read)] >= end ||
          !seen.insert(read).second) {
        continue;
      }
      dead[At(last_read[At(read)] - begin) + 1] +=
          units.unit(runs[At(read)]).bytes;
    }
  }
  int64_t handed = 0;  // that is not made yet
  for (int32_t r = begin; r < end; ++r) {
    if (last_read[At(r)] >= end) handed += units.unit(runs[At(r)]).bytes;
  }
  int64_t held = 0;
  int64_t peak = 0;
  for (int32_t r = begin; r < end; ++r) {
    held += dead[At(r - begin)];
    const StepUnit& unit = units.unit(runs[At(r)]);
    const bool is_handed = last_read[At(r)] >= end;
    if (is_handed) handed -= unit.bytes;
    peak = std::max(peak, stages.live_bytes[At(r)] + held + handed +
                              (is_handed ? unit.overwritten_bytes : 0));
  }
  return peak;
}

// The furthest end of a stage: no unit twice in it, since the runtime would
// merge them.
int32_t MostEnd(absl::Span<const int32_t> runs, int32_t begin, int32_t n) {
  llvm::DenseSet<int32_t> units;
  int32_t end = begin;
  while (end < n && end - begin < kMaxRuns &&
         units.insert(runs[At(end)]).second) {
    ++end;
  }
  return end;
}

}  // namespace

Stages CutIntoStages(const StepUnits& units, absl::Span<const int32_t> runs) {
  Stages out;
  const auto n = static_cast<int32_t>(runs.size());
  out.reads.resize(runs.size());
  out.last_read.resize(runs.size());
  out.stage.resize(runs.size());
  std::vector<int32_t> latest(units.size(), -1);
  for (int32_t r = 0; r < n; ++r) {
    out.last_read[At(r)] = r;
    for (int32_t input : units.unit(runs[At(r)]).inputs) {
      const int32_t read = latest[At(input)];
      out.reads[At(r)].push_back(read);
      out.last_read[At(read)] = std::max(out.last_read[At(read)], r);
    }
    // The first one makes the results of the step.
    if (units.unit(runs[At(r)]).returns && latest[At(runs[At(r)])] < 0) {
      out.last_read[At(r)] = n - 1;
    }
    latest[At(runs[At(r)])] = r;
  }
  out.live_bytes = LiveBytes(units, runs, out.last_read);
  const int64_t limit = runs.empty() ? 0
                                     : *std::max_element(out.live_bytes.begin(),
                                                         out.live_bytes.end());

  int32_t begin = 0;
  while (begin < n) {
    int32_t end = begin + 1;
    int64_t peak = PeakOfStage(units, runs, out, begin, end);
    const int32_t most = MostEnd(runs, begin, n);
    for (int32_t e = most; e > begin + 1; --e) {
      const int64_t bytes = PeakOfStage(units, runs, out, begin, e);
      if (bytes > limit) continue;
      end = e;
      peak = bytes;
      break;
    }
    for (int32_t r = begin; r < end; ++r) out.stage[At(r)] = out.count;
    out.peak_bytes = std::max(out.peak_bytes, peak);
    ++out.count;
    begin = end;
  }
  return out;
}

}  // namespace onnx_memopt::grad
