#include "onnx_memopt/support/best_fit_arena.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt {
namespace {

// Nothing is larger; sums of such sizes stay far from overflow.
constexpr int64_t kMostBytes = int64_t{1} << 44;
constexpr int64_t kRegionGap = int64_t{1} << 20;
constexpr int64_t kHighestAddress = int64_t{1} << 61;

int64_t RoundUp(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void BestFitPool::AddFree(int64_t address, int64_t size) {
  blocks_[address] = {.size = size, .free = true};
  free_.emplace(size, address);
}

void BestFitPool::GrowRegion(int64_t address, int64_t size) {
  blocks_[address] = {.size = size, .free = false};
  Give(address);
}

int64_t BestFitPool::FreeBefore(int64_t address) const {
  const auto next = blocks_.lower_bound(address);
  if (next == blocks_.begin()) return 0;
  const auto& [begin, block] = *std::prev(next);
  return block.free && begin + block.size == address ? block.size : 0;
}

int64_t BestFitPool::Take(int64_t size, int64_t least_remainder) {
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

int64_t BestFitPool::Give(int64_t address) {
  auto it = blocks_.find(address);
  if (it == blocks_.end()) return 0;
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

void BestFitArena::Extend(int64_t size) {
  if (!rules_.doubles) next_region_ = size;
  bool grown = false;
  while (next_region_ < size) {
    next_region_ *= 2;
    grown = true;
  }
  const int64_t region = next_region_;
  if (!grown) next_region_ = std::min(2 * region, kMostBytes);
  region_bytes_ = SaturatingAdd(region_bytes_, region);
  ++regions_;
  const int64_t step = region + kRegionGap;
  if (lowest_address_ < step) lowest_address_ = kHighestAddress;
  lowest_address_ -= step;
  pool_.AddRegion(lowest_address_, region);
}

int64_t BestFitArena::Allocate(int64_t size) {
  size = RoundUp(std::clamp<int64_t>(size, 1, kMostBytes), rules_.alignment);
  const int64_t remainder = std::min(size, rules_.most_dead);
  int64_t address = pool_.Take(size, remainder);
  if (address < 0) {
    Extend(size);
    address = pool_.Take(size, remainder);
  }
  allocated_ = SaturatingAdd(allocated_, pool_.size_of(address));
  return address;
}

}  // namespace onnx_memopt
