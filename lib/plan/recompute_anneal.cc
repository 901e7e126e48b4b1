#include "plan/recompute_anneal.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "plan/recompute_model.h"
#include "plan/recompute_moves.h"
#include "plan/recompute_random.h"
#include "plan/recompute_state.h"

namespace onnx_memopt::plan {
namespace {

constexpr int64_t kMovesPerCheck = 256;

}  // namespace

AnnealResult Anneal(const ScaledModel& scaled, absl::Span<const int32_t> start,
                    const AnnealOptions& options) {
  const RecomputeModel& model = *scaled.model;
  AnnealResult best;
  RecomputeState state(scaled, start);
  best.sequence.assign(start.begin(), start.end());
  best.cost = state.cost();
  best.overflow = state.overflow();
  if (model.n == 0) return best;
  Random random(options.seed);
  MoveMaker mover(model, state, random);
  double sum = 0;
  double memory = 0;
  for (int32_t v = 0; v < model.n; ++v) {
    sum += scaled.cost[v];
    memory += scaled.memory[v];
  }
  const double mean = std::max(sum / model.n, 1e-9);
  const double mean_memory = std::max(memory / model.n, 1e-9);
  double price = mean / mean_memory;
  double temperature = options.hot * mean;
  int64_t over = 0;
  for (int64_t moves = 0; moves < options.max_moves; ++moves) {
    if (moves % kMovesPerCheck == 0) {
      double share =
          static_cast<double>(moves) / static_cast<double>(options.max_moves);
      if (options.time_share) share = std::max(share, options.time_share());
      if (share >= 1) break;
      temperature =
          mean * options.hot * std::pow(options.cold / options.hot, share);
      // Half of the time over the budget, half within.
      if (over > kMovesPerCheck / 2) {
        price *= 1.05;
      } else {
        price = std::max(price / 1.05, 1e-6 * mean / mean_memory);
      }
      over = 0;
    }
    over += state.overflow() > 0 ? 1 : 0;
    const double before = state.cost() + price * state.overflow();
    const bool changed = mover.Try();
    if (changed) state.RemoveUseless(0);
    const double after = state.cost() + price * state.overflow();
    const bool better =
        changed &&
        (state.overflow() < best.overflow ||
         (state.overflow() == best.overflow && state.cost() < best.cost));
    if (!changed ||
        (!better && after > before &&
         random.Unit() >= std::exp((before - after) / temperature))) {
      state.Undo(0);
      continue;
    }
    state.Commit();
    if (!better) continue;
    best.sequence = state.Sequence();
    best.cost = state.cost();
    best.overflow = state.overflow();
    if (options.on_better && best.overflow <= 0) {
      options.on_better(best.sequence);
    }
    if (best.overflow <= 0 && best.cost <= options.lower_bound) break;
  }
  return best;
}

}  // namespace onnx_memopt::plan
