// What a run's allocations do to the process: a model of the system's
// allocator and of the runtime's arena, in resident bytes. Private to
// lib/analysis.
#ifndef ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_MEMORY_H_
#define ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_MEMORY_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "analysis/ort_facts.h"
#include "analysis/runtime_trace.h"
#include "onnx_memopt/support/best_fit_arena.h"

namespace onnx_memopt::analysis {

// Pages that have been written, by address.
class TouchedPages {
 public:
  // Returns the bytes that became resident.
  int64_t Touch(int64_t begin, int64_t size_bytes);

 private:
  std::map<int64_t, int64_t> ranges_;  // begin to end, of pages
};

class MemorySimulator {
 public:
  explicit MemorySimulator(bool arena)
      : use_arena_(arena),
        arena_({.alignment = ort::kArenaAlignmentBytes,
                .first_region = ort::kInitialRegionBytes,
                .most_dead = ort::kMaxDeadBytes}) {}

  // Resident bytes at the highest during the run; `at`: the position there.
  int64_t Run(absl::Span<const MemoryEvent> events, int32_t* at = nullptr);
  int64_t region_bytes() const { return arena_.region_bytes(); }

 private:
  struct Allocation {
    int64_t address = -1;  // in the arena; -1: the system's
    int64_t resident_bytes = 0;
  };

  void Allocate(const MemoryEvent& event);

  bool use_arena_;
  BestFitArena arena_;
  TouchedPages pages_;
  std::vector<Allocation> allocations_;
  int64_t resident_bytes_ = 0;
  bool mapped_ = false;  // weights have been read once
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_MEMORY_H_
