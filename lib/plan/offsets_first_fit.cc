// First fit: buffers one after the other, each at the lowest offset that is
// free during its whole life. The order decides how good the plan is, so
// several are tried: large first, large area (size x lifetime) first, long
// lives first, and order of time (offsets_online.cc).
//
// Buffers that live from the first
// step to the last live together with everything, so they lie at the bottom of
// the arena and never enter a pair.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"
#include "plan/offsets_internal.h"

namespace onnx_memopt::plan {
namespace {

// Above this many pairs only the method by time runs: it needs no pairs. The
// lists take 8 bytes a pair.
constexpr int64_t kMaxPairs = 4'000'000;

std::vector<int64_t> PlaceInOrder(absl::Span<const Buffer> buffers,
                                  const Neighbours& neighbours,
                                  absl::Span<const int32_t> order) {
  std::vector<int64_t> offsets(buffers.size(), -1);
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (int32_t i : order) {
    taken.clear();
    for (int64_t k = neighbours.first[i]; k < neighbours.first[i + 1]; ++k) {
      const int32_t other = neighbours.list[k];
      if (offsets[other] < 0) continue;
      taken.emplace_back(offsets[other],
                         offsets[other] + buffers[other].size_bytes);
    }
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (begin - offset >= buffers[i].size_bytes) break;
      offset = std::max(offset, end);
    }
    offsets[i] = offset;
  }
  return offsets;
}

int64_t Top(absl::Span<const Buffer> buffers,
            absl::Span<const int64_t> offsets) {
  int64_t top = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    top = std::max(top, offsets[i] + buffers[i].size_bytes);
  }
  return top;
}

// The best of all orders. Sizes are above 0 and their sum fits.
absl::StatusOr<std::vector<int64_t>> PackBest(
    absl::Span<const Buffer> buffers) {
  std::vector<int64_t> best = PackOnline(buffers);
  int64_t best_top = Top(buffers, best);
  ASSIGN_OR_RETURN(const int64_t bound, LowerBound(buffers));
  if (best_top == bound) return best;
  std::optional<Neighbours> neighbours = FindNeighbours(buffers, kMaxPairs);
  if (!neighbours) return best;

  using Key = std::tuple<absl::int128, int64_t, int64_t>;
  auto life = [&](int32_t i) {
    return int64_t{buffers[i].end} - int64_t{buffers[i].begin};
  };
  auto by_size = [&](int32_t i) {
    return Key(buffers[i].size_bytes, life(i), -int64_t{buffers[i].begin});
  };
  auto by_area = [&](int32_t i) {
    return Key(absl::int128(buffers[i].size_bytes) * life(i),
               buffers[i].size_bytes, -int64_t{buffers[i].begin});
  };
  auto by_life = [&](int32_t i) {
    return Key(life(i), buffers[i].size_bytes, -int64_t{buffers[i].begin});
  };
  std::vector<Key> keys(buffers.size());
  std::vector<int32_t> order(buffers.size());
  auto attempt = [&](auto key) {
    if (best_top == bound) return;
    for (size_t i = 0; i < buffers.size(); ++i) {
      keys[i] = key(static_cast<int32_t>(i));
    }
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return keys[a] != keys[b] ? keys[a] > keys[b] : a < b;
    });
    std::vector<int64_t> offsets = PlaceInOrder(buffers, *neighbours, order);
    const int64_t top = Top(buffers, offsets);
    if (top >= best_top) return;
    best_top = top;
    best = std::move(offsets);
  };
  attempt(by_size);
  attempt(by_area);
  attempt(by_life);
  return best;
}

}  // namespace

absl::StatusOr<OffsetPlan> PackFirstFit(absl::Span<const Buffer> buffers,
                                        int64_t alignment_bytes) {
  RETURN_IF_ERROR(CheckBuffers(buffers));
  if (alignment_bytes <= 0 || (alignment_bytes & (alignment_bytes - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the alignment must be a power of two, not ", alignment_bytes));
  }
  // Sizes rounded up keep every offset aligned; the total bounds them all.
  std::vector<Buffer> padded(buffers.begin(), buffers.end());
  int64_t total = 0;
  int32_t first_step = 0;
  int32_t last_step = 0;
  bool any = false;
  for (Buffer& buffer : padded) {
    if (buffer.size_bytes == 0) continue;
    first_step = any ? std::min(first_step, buffer.begin) : buffer.begin;
    last_step = any ? std::max(last_step, buffer.end) : buffer.end;
    any = true;
    std::optional<int64_t> rounded =
        CheckedAdd(buffer.size_bytes, alignment_bytes - 1);
    if (rounded) {
      buffer.size_bytes = *rounded & ~(alignment_bytes - 1);
      rounded = CheckedAdd(total, buffer.size_bytes);
    }
    if (!rounded) {
      return absl::OutOfRangeError(
          "the buffers have 2^63 bytes or more in total");
    }
    total = *rounded;
  }

  OffsetPlan plan;
  plan.offset_bytes.assign(buffers.size(), 0);
  int64_t bottom = 0;
  std::vector<Buffer> movable;
  std::vector<size_t> movable_index;
  for (size_t i = 0; i < padded.size(); ++i) {
    if (padded[i].size_bytes == 0) continue;
    if (padded[i].begin == first_step && padded[i].end == last_step) {
      plan.offset_bytes[i] = bottom;
      bottom += padded[i].size_bytes;
    } else {
      movable.push_back(padded[i]);
      movable_index.push_back(i);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, PackBest(movable));
  for (size_t k = 0; k < movable.size(); ++k) {
    plan.offset_bytes[movable_index[k]] = bottom + offsets[k];
  }
  plan.arena_bytes = Top(buffers, plan.offset_bytes);
  return plan;
}

}  // namespace onnx_memopt::plan
