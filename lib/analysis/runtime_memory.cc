#include "analysis/runtime_memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include "analysis/ort_facts.h"
#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::analysis {
namespace {

using Kind = MemoryEvent::Kind;

constexpr int64_t kPageBytes = 4096;
// Nothing is larger; sums of such sizes stay far from overflow.
constexpr int64_t kMostBytes = int64_t{1} << 44;

int64_t RoundUp(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

int64_t TouchedPages::Touch(int64_t begin, int64_t size_bytes) {
  int64_t end = RoundUp(begin + size_bytes, kPageBytes);
  begin = begin / kPageBytes * kPageBytes;
  int64_t added = end - begin;
  auto it = ranges_.upper_bound(begin);
  if (it != ranges_.begin() && std::prev(it)->second >= begin) --it;
  while (it != ranges_.end() && it->first <= end) {
    // The part that was resident before.
    added -= std::max<int64_t>(
        0, std::min(end, it->second) - std::max(begin, it->first));
    begin = std::min(begin, it->first);
    end = std::max(end, it->second);
    it = ranges_.erase(it);
  }
  ranges_.emplace(begin, end);
  return added;
}

void MemorySimulator::Allocate(const MemoryEvent& event) {
  const auto id = static_cast<size_t>(event.id);
  if (allocations_.size() <= id) allocations_.resize(id + 1);
  Allocation& allocation = allocations_[id];
  allocation = {};
  const int64_t size = std::min(event.size_bytes, kMostBytes);
  if (use_arena_ && event.kind != Kind::kAllocateMalloc) {
    const int64_t before = arena_.region_bytes();
    allocation.address = arena_.Allocate(size);
    resident_bytes_ =
        SaturatingAdd(resident_bytes_, (arena_.region_bytes() - before) /
                                           ort::kRegionTableDivisor);
    if (event.kind == Kind::kAllocate) {
      resident_bytes_ = SaturatingAdd(resident_bytes_,
                                      pages_.Touch(allocation.address, size));
    }
  } else if (event.kind != Kind::kAllocateBlock) {
    allocation.resident_bytes = size;
    resident_bytes_ = SaturatingAdd(resident_bytes_, size);
  }
}

int64_t MemorySimulator::Run(absl::Span<const MemoryEvent> events,
                             int32_t* at) {
  int64_t peak = resident_bytes_;
  allocations_.clear();
  // Without the arena, pages of each block that have been written.
  std::map<int32_t, TouchedPages> block_pages;
  for (const MemoryEvent& event : events) {
    const auto id = static_cast<size_t>(event.id);
    switch (event.kind) {
      case Kind::kAllocate:
      case Kind::kAllocateBlock:
      case Kind::kAllocateMalloc:
        Allocate(event);
        break;
      case Kind::kMap:
        // The file stays mapped: only the first run adds pages.
        if (!mapped_) {
          resident_bytes_ = SaturatingAdd(resident_bytes_, event.size_bytes);
        }
        break;
      case Kind::kTouch: {
        Allocation& block = allocations_[id];
        const int64_t size = std::min(event.size_bytes, kMostBytes);
        const int64_t added =
            block.address >= 0
                ? pages_.Touch(block.address + event.offset_bytes, size)
                : block_pages[event.id].Touch(event.offset_bytes, size);
        resident_bytes_ = SaturatingAdd(resident_bytes_, added);
        if (block.address < 0) block.resident_bytes += added;
        break;
      }
      case Kind::kFree: {
        const Allocation& freed = allocations_[id];
        if (freed.address >= 0) {
          arena_.Free(freed.address);
        } else {
          resident_bytes_ -= freed.resident_bytes;
        }
        break;
      }
    }
    if (resident_bytes_ > peak) {
      peak = resident_bytes_;
      if (at != nullptr) *at = event.position;
    }
  }
  mapped_ = true;
  return peak;
}

}  // namespace onnx_memopt::analysis
