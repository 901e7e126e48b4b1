// Best fit in order of time: what an allocator does, with sight of nothing but
// the present. The quick way, and a fair one for stack-like lifetimes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "plan/offsets_internal.h"

namespace onnx_memopt::plan {
namespace {

// The free blocks of an arena that can grow, adjacent ones merged.
class FreeList {
 public:
  int64_t Take(int64_t size) {
    auto fit = by_size_.lower_bound({size, 0});
    if (fit == by_size_.end()) return Grow(size);
    const auto [block_size, offset] = *fit;
    Remove(offset, block_size);
    if (block_size > size) Add(offset + size, block_size - size);
    return offset;
  }

  void Give(int64_t offset, int64_t size) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.begin()) {
      auto [previous_offset, previous_size] = *std::prev(next);
      if (previous_offset + previous_size == offset) {
        Remove(previous_offset, previous_size);
        offset = previous_offset;
        size += previous_size;
      }
    }
    next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && next->first == offset + size) {
      const int64_t next_size = next->second;
      Remove(next->first, next_size);
      size += next_size;
    }
    Add(offset, size);
  }

 private:
  // No block is large enough: extends the last one, if it is at the top.
  int64_t Grow(int64_t size) {
    int64_t offset = top_;
    if (!by_offset_.empty()) {
      auto [last_offset, last_size] = *by_offset_.rbegin();
      if (last_offset + last_size == top_) {
        offset = last_offset;
        Remove(last_offset, last_size);
      }
    }
    top_ = offset + size;
    return offset;
  }
  void Add(int64_t offset, int64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void Remove(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }

  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t top_ = 0;
};

}  // namespace

std::vector<int64_t> PackOnline(absl::Span<const Buffer> buffers) {
  std::vector<int32_t> by_begin(buffers.size());
  std::iota(by_begin.begin(), by_begin.end(), 0);
  std::vector<int32_t> by_end = by_begin;
  std::sort(by_begin.begin(), by_begin.end(), [&](int32_t a, int32_t b) {
    // Of those that begin together, the longest and largest go lowest.
    return std::make_tuple(buffers[a].begin, -int64_t{buffers[a].end},
                           -buffers[a].size_bytes, a) <
           std::make_tuple(buffers[b].begin, -int64_t{buffers[b].end},
                           -buffers[b].size_bytes, b);
  });
  std::sort(by_end.begin(), by_end.end(), [&](int32_t a, int32_t b) {
    return std::make_pair(buffers[a].end, a) <
           std::make_pair(buffers[b].end, b);
  });
  std::vector<int64_t> offsets(buffers.size());
  FreeList free_list;
  size_t ended = 0;
  for (int32_t i : by_begin) {
    while (buffers[by_end[ended]].end <= buffers[i].begin) {
      const int32_t done = by_end[ended++];
      free_list.Give(offsets[done], buffers[done].size_bytes);
    }
    offsets[i] = free_list.Take(buffers[i].size_bytes);
  }
  return offsets;
}

}  // namespace onnx_memopt::plan
