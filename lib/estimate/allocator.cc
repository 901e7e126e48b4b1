#include "onnx_memopt/estimate/allocator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace onnx_memopt::estimate {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;

int64_t RoundUp(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Free and used blocks in segments that do not touch.
class Pool {
 public:
  // The address of the smallest free block that fits; -1: none does.
  int64_t Take(int64_t size, int64_t least_remainder) {
    const auto fit = free_.lower_bound({size, 0});
    if (fit == free_.end()) return -1;
    const auto [block_size, address] = *fit;
    free_.erase(fit);
    Block& block = blocks_[address];
    block.free = false;
    if (block_size - size >= least_remainder) {
      block.size = size;
      AddFree(address + size, block_size - size);
    }
    return address;
  }

  void AddSegment(int64_t size) {
    AddFree(next_address_, size);
    next_address_ += size + kMiB;  // never neighbours
  }

  // Returns the bytes that the block had.
  int64_t Give(int64_t address) {
    auto it = blocks_.find(address);
    const int64_t given = it->second.size;
    int64_t size = given;
    const auto next = std::next(it);
    if (next != blocks_.end() && next->second.free &&
        next->first == address + size) {
      size += next->second.size;
      free_.erase({next->second.size, next->first});
      blocks_.erase(next);
    }
    if (it != blocks_.begin()) {
      const auto previous = std::prev(it);
      if (previous->second.free &&
          previous->first + previous->second.size == address) {
        size += previous->second.size;
        free_.erase({previous->second.size, previous->first});
        address = previous->first;
        blocks_.erase(it);
      }
    }
    AddFree(address, size);
    return given;
  }

  int64_t size_of(int64_t address) const { return blocks_.at(address).size; }

 private:
  struct Block {
    int64_t size = 0;
    bool free = false;
  };

  void AddFree(int64_t address, int64_t size) {
    blocks_[address] = {.size = size, .free = true};
    free_.emplace(size, address);
  }

  int64_t next_address_ = 0;
  std::map<int64_t, Block> blocks_;             // by address
  std::set<std::pair<int64_t, int64_t>> free_;  // size, address
};

class CachingAllocator {
 public:
  int64_t Allocate(int64_t bytes) {
    const int64_t size = RoundUp(std::max<int64_t>(bytes, 1), 512);
    const bool small = size <= kMiB;
    Pool& pool = small ? small_ : large_;
    const int64_t remainder = small ? 512 : kMiB + 1;
    int64_t address = pool.Take(size, remainder);
    if (address < 0) {
      int64_t segment = 2 * kMiB;
      if (!small) {
        segment = size < 10 * kMiB ? 20 * kMiB : RoundUp(size, 2 * kMiB);
      }
      pool.AddSegment(segment);
      reserved_ += segment;
      ++segments_;
      address = pool.Take(size, remainder);
    }
    allocated_ += pool.size_of(address);
    return small ? address : -address - 1;
  }
  void Free(int64_t handle) {
    allocated_ -= handle >= 0 ? small_.Give(handle) : large_.Give(-handle - 1);
  }
  int64_t allocated() const { return allocated_; }
  int64_t reserved() const { return reserved_; }
  int64_t segments() const { return segments_; }

 private:
  Pool small_;
  Pool large_;
  int64_t allocated_ = 0;
  int64_t reserved_ = 0;
  int64_t segments_ = 0;
};

class BfcAllocator {
 public:
  int64_t Allocate(int64_t bytes) {
    const int64_t size = RoundUp(std::max<int64_t>(bytes, 1), 256);
    // A remainder stays in the block unless it is as large as the request, or
    // larger than what may be wasted.
    const int64_t remainder = std::min(size, 128 * kMiB);
    int64_t address = pool_.Take(size, remainder);
    if (address < 0) {
      while (next_region_ < size) next_region_ *= 2;
      pool_.AddSegment(next_region_);
      reserved_ += next_region_;
      ++regions_;
      next_region_ *= 2;
      address = pool_.Take(size, remainder);
    }
    allocated_ += pool_.size_of(address);
    return address;
  }
  void Free(int64_t handle) { allocated_ -= pool_.Give(handle); }
  int64_t allocated() const { return allocated_; }
  int64_t reserved() const { return reserved_; }
  int64_t segments() const { return regions_; }

 private:
  Pool pool_;
  int64_t next_region_ = 2 * kMiB;
  int64_t allocated_ = 0;
  int64_t reserved_ = 0;
  int64_t regions_ = 0;
};

template <typename Allocator>
AllocatorResult Simulate(const StepTrace& trace, int steps) {
  Allocator allocator;
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
  return result;
}

}  // namespace

AllocatorResult SimulateCaching(const StepTrace& trace, int steps) {
  return Simulate<CachingAllocator>(trace, steps);
}

AllocatorResult SimulateBfc(const StepTrace& trace, int steps) {
  return Simulate<BfcAllocator>(trace, steps);
}

}  // namespace onnx_memopt::estimate
