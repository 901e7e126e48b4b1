// The incremental sequence agrees with a replay from scratch after every change
// and every undoing.
#include "plan/recompute_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "onnx_memopt/plan/recompute.h"
#include "plan/recompute_model.h"
#include "plan/recompute_moves.h"
#include "plan/recompute_random.h"
#include "support/status_matchers.h"
#include "unit/plan/recompute_problems.h"

namespace onnx_memopt::plan {
namespace {

// Overflow of a sequence, by the definition.
double SlowOverflow(const RecomputeProblem& problem,
                    const std::vector<int32_t>& sequence, int64_t budget) {
  double overflow = 0;
  for (size_t step = 0; step < sequence.size(); ++step) {
    int64_t live = 0;
    for (size_t made = 0; made <= step; ++made) {
      bool needed = made == step;
      for (size_t later = made + 1; later < sequence.size(); ++later) {
        const auto& inputs = problem.inputs[sequence[later]];
        if (later >= step &&
            std::count(inputs.begin(), inputs.end(), sequence[made]) > 0) {
          needed = true;
        }
        if (sequence[later] == sequence[made]) break;
      }
      if (needed) live += problem.memory[sequence[made]];
    }
    overflow += static_cast<double>(std::max<int64_t>(0, live - budget));
  }
  return overflow;
}

void ExpectConsistent(const RecomputeProblem& problem,
                      const RecomputeState& state, int64_t budget) {
  const std::vector<int32_t> sequence = state.Sequence();
  const auto replay = ReplayRecompute(problem, sequence);
  ASSERT_THAT(replay, testing::IsOk());
  EXPECT_EQ(state.cost(), static_cast<double>(replay->cost));
  double peak = 0;
  for (int32_t p = 0; p < state.length(); ++p) {
    peak = std::max(peak, state.memory_at(p));
  }
  EXPECT_EQ(peak, static_cast<double>(replay->peak));
  EXPECT_EQ(state.overflow(), SlowOverflow(problem, sequence, budget));
}

TEST(RecomputeStateTest, AgreesWithReplayUnderRandomMoves) {
  std::mt19937 generator(7);
  int changed_moves = 0;
  for (int round = 0; round < 60; ++round) {
    const RecomputeProblem problem = round % 3 == 0
                                         ? TrainingChain(6, &generator, 9, 9)
                                         : RandomDag(14, 3, 9, 9, generator);
    const auto model = RecomputeModel::Create(problem);
    ASSERT_THAT(model, testing::IsOk());
    const int64_t budget = 5 + round % 20;
    const ScaledModel scaled = ScaledModel::Create(*model, budget);
    RecomputeState state(scaled, model->order);
    Random random(round);
    MoveMaker mover(*model, state, random);
    for (int i = 0; i < 120; ++i) {
      const std::vector<int32_t> before = state.Sequence();
      if (mover.Try()) {
        state.RemoveUseless(0);
        ++changed_moves;
      }
      ExpectConsistent(problem, state, budget);
      if (i % 2 == 0) {
        state.Undo(0);
        EXPECT_EQ(state.Sequence(), before);
        ExpectConsistent(problem, state, budget);
      }
      state.Commit();
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(changed_moves, 1000);
}

TEST(RecomputeStateTest, LargeNumbersAreRoundedToTheSafeSide) {
  const int64_t huge = std::numeric_limits<int64_t>::max() / 4;
  RecomputeProblem problem;
  AddNode(problem, huge, huge, {});
  AddNode(problem, huge + 1, 1, {0});
  const auto model = RecomputeModel::Create(problem);
  ASSERT_THAT(model, testing::IsOk());
  const ScaledModel tight = ScaledModel::Create(*model, 2 * huge);
  EXPECT_GT(RecomputeState(tight, model->order).overflow(), 0);
  const ScaledModel wide = ScaledModel::Create(*model, 3 * huge);
  EXPECT_EQ(RecomputeState(wide, model->order).overflow(), 0);
  EXPECT_FALSE(wide.exact_cost);
}

}  // namespace
}  // namespace onnx_memopt::plan
