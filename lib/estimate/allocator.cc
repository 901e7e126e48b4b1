#include "onnx_memopt/estimate/allocator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "onnx_memopt/support/best_fit_arena.h"

namespace onnx_memopt::estimate {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

int64_t RoundUp(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

constexpr int64_t kSmall = kMiB;  // the largest size of the small pool

int64_t RoundToCuda(int64_t bytes) {
  return RoundUp(std::max<int64_t>(bytes, 1), 512);
}
int64_t LeastRemainder(bool small) { return small ? 512 : kMiB + 1; }

class CachingAllocator {
 public:
  int64_t Allocate(int64_t bytes) {
    const int64_t size = RoundToCuda(bytes);
    const bool small = size <= kSmall;
    BestFitPool& pool = small ? small_ : large_;
    int64_t address = pool.Take(size, LeastRemainder(small));
    if (address < 0) {
      int64_t segment = 2 * kMiB;
      if (!small) {
        segment = size < 10 * kMiB ? 20 * kMiB : RoundUp(size, 2 * kMiB);
      }
      pool.AddRegion(next_address_, segment);
      segments_.push_back(
          {.address = next_address_, .size = segment, .small = small});
      next_address_ += segment + kMiB;  // never neighbours
      reserved_ += segment;
      address = pool.Take(size, LeastRemainder(small));
    }
    allocated_ += pool.size_of(address);
    return small ? address : -address - 1;
  }
  void Free(int64_t handle) {
    allocated_ -= handle >= 0 ? small_.Give(handle) : large_.Give(-handle - 1);
  }
  int64_t allocated() const { return allocated_; }
  int64_t reserved() const { return reserved_; }
  int64_t segments() const { return static_cast<int64_t>(segments_.size()); }
  int64_t idle() const {
    int64_t bytes = 0;
    for (const Segment& s : segments_) {
      const BestFitPool& pool = s.small ? small_ : large_;
      if (pool.IsFree(s.address, s.size)) bytes += s.size;
    }
    return bytes;
  }

 private:
  struct Segment {
    int64_t address = 0;
    int64_t size = 0;
    bool small = false;
  };

  BestFitPool small_;
  BestFitPool large_;
  std::vector<Segment> segments_;
  int64_t next_address_ = 0;
  int64_t allocated_ = 0;
  int64_t reserved_ = 0;
};

// PyTorch's with expandable_segments:True: each pool is one segment that grows
// by pages at its end.
class ExpandableAllocator {
 public:
  int64_t Allocate(int64_t bytes) {
    const int64_t size = RoundToCuda(bytes);
    Segment& segment = size <= kSmall ? small_ : large_;
    int64_t address = segment.pool.Take(size, 512);
    if (address < 0) {
      const int64_t more =
          RoundUp(size - segment.pool.FreeBefore(segment.end), segment.page);
      segment.pool.GrowRegion(segment.end, more);
      segment.end += more;
      address = segment.pool.Take(size, 512);
    }
    allocated_ += segment.pool.size_of(address);
    return size <= kSmall ? address : -address - 1;
  }
  void Free(int64_t handle) {
    allocated_ -=
        handle >= 0 ? small_.pool.Give(handle) : large_.pool.Give(-handle - 1);
  }
  int64_t allocated() const { return allocated_; }
  int64_t reserved() const { return small_.end + large_.end; }
  int64_t segments() const {
    return (small_.end > 0 ? 1 : 0) + (large_.end > 0 ? 1 : 0);
  }
  // Pages at the end are given back too, but that is of no use here.
  static int64_t idle() { return 0; }

 private:
  struct Segment {
    int64_t page = 0;
    int64_t end = 0;
    BestFitPool pool = {};
  };

  Segment small_{.page = 2 * kMiB};
  Segment large_{.page = 20 * kMiB};
  int64_t allocated_ = 0;
};

class BfcAllocator {
 public:
  explicit BfcAllocator(const BestFitRules& rules) : arena_(rules) {}

  int64_t Allocate(int64_t bytes) { return arena_.Allocate(bytes); }
  void Free(int64_t address) { arena_.Free(address); }
  int64_t allocated() const { return arena_.allocated_bytes(); }
  int64_t reserved() const { return arena_.region_bytes(); }
  int64_t segments() const { return arena_.regions(); }
  static int64_t idle() { return 0; }  // regions are never given back

 private:
  BestFitArena arena_;
};

template <typename Allocator>
AllocatorResult Simulate(Allocator allocator, const StepTrace& trace,
                         int steps) {
  AllocatorResult result;
  std::vector<int64_t> handles(trace.blocks.size());
  std::vector<bool> live(trace.blocks.size());
  std::vector<bool> freed(trace.blocks.size());
  for (const TraceEvent& event : trace.events) {
    if (!event.allocate) freed[event.block] = true;
  }
  int64_t requested = 0;
  const auto free_block = [&](size_t block) {
    allocator.Free(handles[block]);
    requested -= std::min(trace.blocks[block].bytes, kMostBlockBytes);
    live[block] = false;
  };
  for (int step = 0; step < steps; ++step) {
    for (const TraceEvent& event : trace.events) {
      const auto block = static_cast<size_t>(event.block);
      const int64_t bytes =
          std::min(trace.blocks[block].bytes, kMostBlockBytes);
      if (!event.allocate) {
        if (live[block]) free_block(block);
        continue;
      }
      if (live[block] || bytes == 0) continue;  // persistent, second step
      handles[block] = allocator.Allocate(bytes);
      live[block] = true;
      requested += bytes;
      result.peak_requested_bytes =
          std::max(result.peak_requested_bytes, requested);
      result.peak_allocated_bytes =
          std::max(result.peak_allocated_bytes, allocator.allocated());
    }
    // Gradients, inputs and outputs go when the next step begins.
    for (size_t block = 0; block < live.size(); ++block) {
      const Category category = trace.blocks[block].category;
      const bool per_step = category == Category::kGradients ||
                            category == Category::kInputs ||
                            category == Category::kLoss;
      if (live[block] && !freed[block] && per_step &&
          trace.blocks[block].name != "gradients") {
        free_block(block);
      }
    }
  }
  result.peak_reserved_bytes = allocator.reserved();
  result.segments = allocator.segments();
  result.idle_bytes = allocator.idle();
  return result;
}

}  // namespace

AllocatorResult SimulateCaching(const StepTrace& trace, int steps) {
  return Simulate(CachingAllocator(), trace, steps);
}

AllocatorResult SimulateExpandable(const StepTrace& trace, int steps) {
  return Simulate(ExpandableAllocator(), trace, steps);
}

AllocatorResult SimulateBfc(const StepTrace& trace, int steps,
                            const BestFitRules& rules) {
  return Simulate(BfcAllocator(rules), trace, steps);
}

}  // namespace onnx_memopt::estimate
