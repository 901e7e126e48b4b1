#include "estimate/pipeline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace onnx_memopt::estimate {
namespace {

// A chain of thousands of units can be cut anywhere; that many places are
// enough to balance it.
constexpr size_t kMostCuts = 256;

}  // namespace

absl::StatusOr<std::vector<UnitIndex>> BalanceStages(
    absl::Span<const UnitIndex> cuts, UnitIndex units, int64_t stages,
    const StageCost& cost) {
  if (stages > static_cast<int64_t>(cuts.size()) + 1) {
    return absl::OutOfRangeError(absl::StrCat(
        "--pp ", stages, ": the model has at most ", cuts.size() + 1,
        " layers that a pipeline can be cut into"));
  }
  std::vector<UnitIndex> edges = {0};
  const size_t limit = std::max(kMostCuts, static_cast<size_t>(stages));
  const size_t stride = (cuts.size() + limit - 1) / std::max<size_t>(limit, 1);
  for (size_t i = 0; i < cuts.size(); i += std::max<size_t>(stride, 1)) {
    edges.push_back(cuts[i]);
  }
  if (static_cast<int64_t>(edges.size()) < stages) {
    edges.assign(1, 0);
    edges.insert(edges.end(), cuts.begin(), cuts.end());
  }
  edges.push_back(units);
  const size_t n = edges.size();
  // best[e]: the least maximum of the stages so far, when they end at edge e.
  std::vector<int64_t> best(n, INT64_MAX);
  std::vector<std::vector<size_t>> from(stages, std::vector<size_t>(n, 0));
  for (size_t e = 1; e < n; ++e) best[e] = cost(0, 0, edges[e]);
  for (int64_t stage = 1; stage < stages; ++stage) {
    std::vector<int64_t> next(n, INT64_MAX);
    for (size_t e = static_cast<size_t>(stage) + 1; e < n; ++e) {
      for (size_t f = static_cast<size_t>(stage); f < e; ++f) {
        if (best[f] >= next[e]) continue;
        const int64_t candidate =
            std::max(best[f], cost(stage, edges[f], edges[e]));
        if (candidate < next[e]) {
          next[e] = candidate;
          from[stage][e] = f;
        }
      }
    }
    best = std::move(next);
  }
  std::vector<UnitIndex> begins(stages + 1);
  size_t edge = n - 1;
  begins[stages] = units;
  for (int64_t stage = stages - 1; stage > 0; --stage) {
    edge = from[stage][edge];
    begins[stage] = edges[edge];
  }
  return begins;
}

}  // namespace onnx_memopt::estimate
