// Which buffers live together, from an array sorted by begin: those after i
// that begin before i ends.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"
#include "plan/offsets_internal.h"

namespace onnx_memopt::plan {

std::optional<Neighbours> FindNeighbours(absl::Span<const Buffer> buffers,
                                         int64_t max_pairs) {
  const size_t n = buffers.size();
  std::vector<int32_t> by_begin(n);
  std::iota(by_begin.begin(), by_begin.end(), 0);
  std::sort(by_begin.begin(), by_begin.end(), [&](int32_t a, int32_t b) {
    return std::make_pair(buffers[a].begin, a) <
           std::make_pair(buffers[b].begin, b);
  });
  // Those at positions (k, past[k]) live together with the one at k.
  std::vector<int64_t> past(n);
  int64_t pairs = 0;
  for (size_t k = 0; k < n; ++k) {
    auto it = std::partition_point(
        by_begin.begin(), by_begin.end(), [&](int32_t other) {
          return buffers[other].begin < buffers[by_begin[k]].end;
        });
    past[k] = it - by_begin.begin();
    pairs += past[k] - static_cast<int64_t>(k) - 1;
  }
  if (pairs > max_pairs) return std::nullopt;

  Neighbours result;
  result.first.assign(n + 1, 0);
  for (size_t k = 0; k < n; ++k) {
    result.first[by_begin[k] + 1] += past[k] - static_cast<int64_t>(k) - 1;
    for (int64_t j = static_cast<int64_t>(k) + 1; j < past[k]; ++j) {
      ++result.first[by_begin[j] + 1];
    }
  }
  std::partial_sum(result.first.begin(), result.first.end(),
                   result.first.begin());
  result.list.resize(2 * pairs);
  std::vector<int64_t> next(result.first.begin(), result.first.end() - 1);
  for (size_t k = 0; k < n; ++k) {
    for (int64_t j = static_cast<int64_t>(k) + 1; j < past[k]; ++j) {
      result.list[next[by_begin[k]]++] = by_begin[j];
      result.list[next[by_begin[j]]++] = by_begin[k];
    }
  }
  return result;
}

}  // namespace onnx_memopt::plan
