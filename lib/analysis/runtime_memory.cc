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
// Regions lie apart, later ones lower, as the system maps them.
constexpr int64_t kRegionGap = int64_t{1} << 20;
constexpr int64_t kHighestAddress = int64_t{1} << 61;

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

void Arena::Extend(int64_t size_bytes) {
  if (next_region_bytes_ == 0) next_region_bytes_ = ort::kInitialRegionBytes;
  bool grown = false;
  while (next_region_bytes_ < size_bytes) {
    next_region_bytes_ *= 2;
    grown = true;
  }
  const int64_t region = next_region_bytes_;
  if (!grown) next_region_bytes_ = std::min(2 * region, kMostBytes);
  region_bytes_ = SaturatingAdd(region_bytes_, region);
  const int64_t step = region + kRegionGap;
  if (lowest_address_ < step) lowest_address_ = kHighestAddress;
  lowest_address_ -= step;
  AddFree(lowest_address_, region);
}

void Arena::AddFree(int64_t address, int64_t size_bytes) {
  chunks_[address] = {.size_bytes = size_bytes, .free = true};
  free_.emplace(size_bytes, address);
}

int64_t Arena::Allocate(int64_t size_bytes) {
  const int64_t size =
      RoundUp(std::max<int64_t>(size_bytes, 1), ort::kArenaAlignmentBytes);
  auto fit = free_.lower_bound({size, 0});
  if (fit == free_.end()) {
    Extend(size);
    fit = free_.lower_bound({size, 0});
  }
  const auto [chunk_size, address] = *fit;
  free_.erase(fit);
  Chunk& chunk = chunks_[address];
  chunk.free = false;
  if (chunk_size >= 2 * size || chunk_size - size >= ort::kMaxDeadBytes) {
    chunk.size_bytes = size;
    AddFree(address + size, chunk_size - size);
  }
  return address;
}

void Arena::Free(int64_t address) {
  auto it = chunks_.find(address);
  if (it == chunks_.end()) return;
  int64_t size = it->second.size_bytes;
  // Neighbours in one region only: regions do not touch.
  const auto next = std::next(it);
  if (next != chunks_.end() && next->second.free &&
      next->first == address + size) {
    size += next->second.size_bytes;
    free_.erase({next->second.size_bytes, next->first});
    chunks_.erase(next);
  }
  if (it != chunks_.begin()) {
    const auto previous = std::prev(it);
    if (previous->second.free &&
        previous->first + previous->second.size_bytes == address) {
      size += previous->second.size_bytes;
      free_.erase({previous->second.size_bytes, previous->first});
      address = previous->first;
      chunks_.erase(it);
    }
  }
  AddFree(address, size);
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
