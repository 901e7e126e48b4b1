// What a run's allocations do to the process: a model of the system's
// allocator and of the runtime's arena, in resident bytes. Private to
// lib/analysis.
#ifndef ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_MEMORY_H_
#define ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_MEMORY_H_

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "analysis/runtime_trace.h"

namespace onnx_memopt::analysis {

// Pages that have been written, by address.
class TouchedPages {
 public:
  // Returns the bytes that became resident.
  int64_t Touch(int64_t begin, int64_t size_bytes);

 private:
  std::map<int64_t, int64_t> ranges_;  // begin to end, of pages
};

// Best fit with coalescing over regions whose sizes are powers of two, each
// twice the last; regions are never given back.
//
//   region 4 MiB | used | free     | used |   free |
//                         ^ a request takes the smallest that fits, and leaves
//                           the rest free if it is worth it
class Arena {
 public:
  int64_t Allocate(int64_t size_bytes);  // the address
  void Free(int64_t address);
  int64_t region_bytes() const { return region_bytes_; }

 private:
  struct Chunk {
    int64_t size_bytes = 0;
    bool free = false;
  };

  void Extend(int64_t size_bytes);
  void AddFree(int64_t address, int64_t size_bytes);

  int64_t next_region_bytes_ = 0;
  int64_t region_bytes_ = 0;
  int64_t lowest_address_ = 0;                  // of a region
  std::map<int64_t, Chunk> chunks_;             // by address
  std::set<std::pair<int64_t, int64_t>> free_;  // size, address
};

class MemorySimulator {
 public:
  explicit MemorySimulator(bool arena) : use_arena_(arena) {}

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
  Arena arena_;
  TouchedPages pages_;
  std::vector<Allocation> allocations_;
  int64_t resident_bytes_ = 0;
  bool mapped_ = false;  // weights have been read once
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_LIB_ANALYSIS_RUNTIME_MEMORY_H_
