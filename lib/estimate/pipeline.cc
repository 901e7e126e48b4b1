#include "estimate/pipeline.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace onnx_memopt::estimate {
namespace {

// A chain of thousands of units can be cut anywhere; that many places are
// enough to balance it.
constexpr size_t kMostCuts = 256;

std::vector<UnitIndex> Edges(absl::Span<const UnitIndex> cuts, UnitIndex units,
                             int64_t stages) {
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
  return edges;
}

// The number of each stage's first edge, and of the last edge.
std::vector<size_t> Optimal(const std::vector<UnitIndex>& edges, int64_t stages,
                            const StageCost& cost) {
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
  std::vector<size_t> begins(stages + 1);
  begins[stages] = n - 1;
  for (int64_t stage = stages - 1; stage > 0; --stage) {
    begins[stage] = from[stage][begins[stage + 1]];
  }
  return begins;
}

// Moves the boundaries of the fullest stage.
class Improver {
 public:
  Improver(const std::vector<UnitIndex>& edges, const StageCost& cost,
           std::vector<size_t>* begins)
      : edges_(edges), cost_(cost), begins_(*begins) {}

  void Run() {
    const size_t stages = begins_.size() - 1;
    // Each move lowers the cost of the fullest stage; this is to be sure.
    for (size_t moves = 0; moves < 8 * stages + edges_.size(); ++moves) {
      size_t fullest = 0;
      for (size_t s = 1; s < stages; ++s) {
        if (Cost(s) > Cost(fullest)) fullest = s;
      }
      const int64_t now = Cost(fullest);
      const bool moved =
          (fullest > 0 && Move(fullest, /*forward=*/true, now)) ||
          (fullest + 1 < stages && Move(fullest + 1, /*forward=*/false, now));
      if (!moved) return;
    }
  }

 private:
  int64_t Cost(size_t stage) {
    const auto key =
        std::pair(stage, std::pair(begins_[stage], begins_[stage + 1]));
    const auto it = known_.find(key);
    if (it != known_.end()) return it->second;
    const int64_t cost =
        cost_(static_cast<int64_t>(stage), edges_[begins_[stage]],
              edges_[begins_[stage + 1]]);
    known_.emplace(key, cost);
    return cost;
  }

  // Whether both neighbours of the boundary take less than `now` afterwards;
  // else nothing changes.
  bool Move(size_t boundary, bool forward, int64_t now) {
    const size_t before = begins_[boundary];
    if (forward && before + 1 >= begins_[boundary + 1]) return false;
    if (!forward && before - 1 <= begins_[boundary - 1]) return false;
    begins_[boundary] = forward ? before + 1 : before - 1;
    if (std::max(Cost(boundary - 1), Cost(boundary)) < now) return true;
    begins_[boundary] = before;
    return false;
  }

  const std::vector<UnitIndex>& edges_;
  const StageCost& cost_;
  std::vector<size_t>& begins_;
  std::map<std::pair<size_t, std::pair<size_t, size_t>>, int64_t> known_;
};

}  // namespace

absl::StatusOr<std::vector<UnitIndex>> BalanceStages(
    absl::Span<const UnitIndex> cuts, UnitIndex units, int64_t stages,
    const StageCost& estimate, const StageCost& exact) {
  if (stages > static_cast<int64_t>(cuts.size()) + 1) {
    return absl::OutOfRangeError(absl::StrCat(
        "--pp ", stages, ": the model has at most ", cuts.size() + 1,
        " layers that a pipeline can be cut into"));
  }
  const std::vector<UnitIndex> edges = Edges(cuts, units, stages);
  std::vector<size_t> begins = Optimal(edges, stages, estimate);
  Improver(edges, exact, &begins).Run();
  std::vector<UnitIndex> result;
  result.reserve(begins.size());
  for (size_t edge : begins) result.push_back(edges[edge]);
  return result;
}

}  // namespace onnx_memopt::estimate
