#include "rewrite/region_cuts.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace onnx_memopt::rewrite {
namespace {

using ir::kNoValue;
using ir::ValueId;

// Ends of a region that are tried on each side of its seed.
constexpr size_t kMaxCuts = 6;
// Of the bytes that cross at a cut, to take one that is further away.
constexpr double kClearlyFewer = 0.8;

}  // namespace

RegionCuts::RegionCuts(const BlockFlow& flow,
                       std::function<int64_t(ValueId)> bytes)
    : flow_(flow), bytes_(std::move(bytes)) {
  const auto size = static_cast<size_t>(flow_.size());
  std::vector<int64_t> change(size + 1, 0);
  for (int p = 0; p < flow_.size(); ++p) {
    ForEachRead(p, [&](ValueId result, int last) {
      change[static_cast<size_t>(p) + 1] += bytes_(result);
      change[static_cast<size_t>(last) + 1] -= bytes_(result);
    });
  }
  crossing_.resize(size + 1, 0);
  std::partial_sum(change.begin(), change.end(), crossing_.begin());
}

std::vector<int> RegionCuts::Fewest(const std::vector<int>& region, int seed,
                                    bool left) const {
  std::vector<std::pair<int64_t, int>> cost;
  for (size_t i = 0; i + 1 < region.size(); ++i) {
    if (left ? region[i + 1] > seed : region[i] < seed) continue;
    const int cut = left ? region[i + 1] : region[i] + 1;
    cost.emplace_back(Crossing(region[i], region[i + 1]), cut);
  }
  std::sort(cost.begin(), cost.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return left ? a.second > b.second : a.second < b.second;
  });
  std::vector<int> cuts = {left ? region.front() : region.back() + 1};
  for (const auto& [bytes, cut] : cost) {
    if (cuts.size() >= kMaxCuts) break;
    cuts.push_back(cut);
  }
  return cuts;
}

std::vector<int> RegionCuts::Nearest(const std::vector<int>& region, int seed,
                                     bool left) const {
  std::vector<int> cuts;
  double least = std::numeric_limits<double>::infinity();
  const auto at = std::find(region.begin(), region.end(), seed);
  auto i = static_cast<size_t>(at - region.begin());
  while (cuts.size() < kMaxCuts && (left ? i > 0 : i + 1 < region.size())) {
    if (left) --i;
    const auto bytes = static_cast<double>(Crossing(region[i], region[i + 1]));
    if (bytes < kClearlyFewer * least) {
      least = bytes;
      cuts.push_back(left ? region[i + 1] : region[i] + 1);
    }
    if (!left) ++i;
  }
  if (left && cuts.size() < kMaxCuts) cuts.push_back(region.front());
  return cuts;
}

// Bytes made up to `before` and read from `after` on.
int64_t RegionCuts::Crossing(int before, int after) const {
  int64_t bytes = crossing_[static_cast<size_t>(after)];
  for (int p = before + 1; p < after; ++p) {
    ForEachRead(p, [&](ValueId result, int last) {
      if (last >= after) bytes -= bytes_(result);
    });
  }
  return bytes;
}

// Results of the node at `position` that this block reads, each with the
// position of its last reader.
template <typename Visit>
void RegionCuts::ForEachRead(int position, Visit visit) const {
  for (ValueId result : flow_.graph().node(flow_.node(position)).results) {
    if (result == kNoValue) continue;
    const auto& users = flow_.users(result);
    if (!users.empty()) visit(result, users.back());
  }
}

}  // namespace onnx_memopt::rewrite
