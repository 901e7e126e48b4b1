#include "plan/recompute_keep.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "plan/recompute_evict.h"
#include "plan/recompute_model.h"
#include "plan/recompute_random.h"

namespace onnx_memopt::plan {
namespace {

constexpr int64_t kTriesPerCheck = 16;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The next rule to try: up to three values change sides, and now and then how
// worth is weighed changes as well.
EvictionRule Neighbour(const EvictionRule& rule,
                       const std::vector<int32_t>& choices, Random& random) {
  EvictionRule next = rule;
  for (int32_t i = 1 + random.Below(3); i > 0; --i) {
    const int32_t v =
        choices[random.Below(static_cast<int32_t>(choices.size()))];
    next.goes_first[v] = !next.goes_first[v];
  }
  switch (random.Below(150)) {
    case 0:
      next.distance_power = 2 * random.Unit();
      break;
    case 1:
      next.eager = !next.eager && next.moment >= 0;
      break;
    case 2:
      next.neighbours = 1 + random.Below(16);
      break;
    default:
      break;
  }
  return next;
}

}  // namespace

KeepResult SearchKept(const RecomputeModel& model,
                      absl::Span<const int32_t> order, int64_t budget,
                      const EvictionRule& start, const KeepOptions& options) {
  const int64_t max_runs = int64_t{model.n} * 8 + 1000;
  Evictor evictor(model, order, budget);
  EvictionRule rule = start;
  if (rule.goes_first.empty()) rule.goes_first.assign(model.n, false);
  KeepResult best = {.rule = rule, .sequence = {}};
  double cost = kInfinity;
  double best_cost = kInfinity;
  if (evictor.Run(rule, max_runs, kInfinity) && evictor.fits()) {
    best.sequence = evictor.sequence();
    best_cost = cost = evictor.cost();
  }
  Random random(options.seed);
  const double mean =
      static_cast<double>(model.base_cost) / std::max(1, model.n);
  double temperature = 0;
  for (int64_t tries = 0; tries < options.max_tries; ++tries) {
    if (tries % kTriesPerCheck == 0) {
      double share =
          static_cast<double>(tries) / static_cast<double>(options.max_tries);
      if (options.time_share) share = std::max(share, options.time_share());
      if (share >= 1) break;
      temperature =
          mean * options.hot * std::pow(options.cold / options.hot, share);
    }
    EvictionRule next = Neighbour(rule, options.choices, random);
    // What would be turned down anyway is cut short.
    const double limit =
        cost - temperature * std::log(std::max(random.Unit(), 1e-12));
    if (!evictor.Run(next, max_runs, limit) || !evictor.fits()) continue;
    rule = std::move(next);
    cost = evictor.cost();
    if (cost >= best_cost) continue;
    best_cost = cost;
    best.rule = rule;
    best.sequence = evictor.sequence();
    if (options.on_better) options.on_better(best.sequence);
  }
  return best;
}

}  // namespace onnx_memopt::plan
