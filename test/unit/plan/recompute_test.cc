#include "onnx_memopt/plan/recompute.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/status_matchers.h"
#include "unit/plan/recompute_problems.h"

namespace onnx_memopt::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// a -> b -> c -> d, and d reads a too.
RecomputeProblem Skip() {
  return {.memory = {4, 1, 5, 1},
          .cost = {10, 20, 30, 40},
          .inputs = {{}, {0}, {1}, {0, 2}}};
}

TEST(ReplayRecomputeTest, CountsLiveValuesAndInputs) {
  // 4; 4 + 1; 4 + 1 + 5; 4 + 5 + 1.
  auto replay = ReplayRecompute(Skip(), {0, 1, 2, 3});
  ASSERT_THAT(replay, IsOk());
  EXPECT_EQ(replay->peak, 10);
  EXPECT_EQ(replay->cost, 100);
  // Made again, node 0 is not live while node 2 runs: 4; 5; 6; 5 + 4; 10.
  replay = ReplayRecompute(Skip(), {0, 1, 2, 0, 3});
  ASSERT_THAT(replay, IsOk());
  EXPECT_EQ(replay->peak, 10);
  EXPECT_EQ(replay->cost, 110);
}

TEST(ReplayRecomputeTest, AValueThatNobodyReadsLivesForItsRun) {
  const RecomputeProblem p = {
      .memory = {3, 5, 2}, .cost = {1, 1, 1}, .inputs = {{}, {}, {0}}};
  EXPECT_EQ(ReplayRecompute(p, {0, 1, 2})->peak, 8);
  EXPECT_EQ(ReplayRecompute(p, {1, 0, 2})->peak, 5);
}

TEST(ReplayRecomputeTest, RejectsBrokenPlans) {
  const RecomputeProblem p = Skip();
  EXPECT_THAT(ReplayRecompute(p, {0, 2, 1, 3}),
              StatusIs(kInvalid, HasSubstr("before its input, node 1")));
  EXPECT_THAT(ReplayRecompute(p, {0, 1, 2}),
              StatusIs(kInvalid, HasSubstr("node 3 never runs")));
  EXPECT_THAT(ReplayRecompute(p, {0, 1, 2, 4}),
              StatusIs(kInvalid, HasSubstr("runs node 4")));
  EXPECT_THAT(ReplayRecompute(p, {-1}), StatusIs(kInvalid, HasSubstr("-1")));
  EXPECT_THAT(ReplayRecompute(p, {}), StatusIs(kInvalid, HasSubstr("never")));
}

TEST(ReplayRecomputeTest, SaysWhenSumsOverflow) {
  const RecomputeProblem p = {
      .memory = {1, 1}, .cost = {kMax - 1, 1}, .inputs = {{}, {0}}};
  EXPECT_THAT(ReplayRecompute(p, {0, 1}), IsOk());
  EXPECT_THAT(ReplayRecompute(p, {0, 0, 1}),
              StatusIs(kInvalid, HasSubstr("beyond 2^63")));
}

TEST(LargestWorkingSetTest, NamesNodeAndInputs) {
  const auto set = LargestWorkingSet(Skip());
  ASSERT_THAT(set, IsOk());
  EXPECT_EQ(set->memory, 10);
  EXPECT_EQ(set->node, 3);
  EXPECT_THAT(set->values, ElementsAre(0, 2, 3));
}

TEST(LargestWorkingSetTest, CountsTheInputThatIsMadeLast) {
  // c reads a and b, each made from a large x and y of its own: whichever is
  // made last, the other and its x or y are live.
  const RecomputeProblem p = {.memory = {9, 9, 2, 2, 1},
                              .cost = {1, 1, 1, 1, 1},
                              .inputs = {{}, {}, {0}, {1}, {2, 3}}};
  const auto set = LargestWorkingSet(p);
  ASSERT_THAT(set, IsOk());
  EXPECT_EQ(set->memory, 13);
  EXPECT_EQ(set->before, 4);
  const auto result = PlanRecompute(p, {.budget = 12});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->outcome, RecomputeOutcome::kInfeasible);
  EXPECT_EQ(PlanRecompute(p, {.budget = 13})->outcome, RecomputeOutcome::kPlan);
}

TEST(PlanRecomputeTest, DegenerateProblems) {
  auto result = PlanRecompute({}, {.budget = 0});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->outcome, RecomputeOutcome::kPlan);
  EXPECT_TRUE(result->optimal);

  const RecomputeProblem one = {.memory = {5}, .cost = {7}, .inputs = {{}}};
  EXPECT_EQ(PlanRecompute(one, {.budget = 4})->outcome,
            RecomputeOutcome::kInfeasible);
  result = PlanRecompute(one, {.budget = 5});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->sequence, ElementsAre(0));
  EXPECT_EQ(result->cost, 7);

  const RecomputeProblem zeros = {
      .memory = {0, 0, 0}, .cost = {0, 0, 0}, .inputs = {{}, {0}, {0, 1}}};
  result = PlanRecompute(zeros, {.budget = 0});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->outcome, RecomputeOutcome::kPlan);
  EXPECT_TRUE(result->optimal);
  EXPECT_EQ(PlanRecompute(zeros, {.budget = -1})->outcome,
            RecomputeOutcome::kInfeasible);
}

TEST(PlanRecomputeTest, RejectsMalformedProblems) {
  RecomputeProblem p = Skip();
  p.inputs[1] = {2};
  EXPECT_THAT(PlanRecompute(p, {.budget = 99}),
              StatusIs(kInvalid, HasSubstr("cycle")));
  p = Skip();
  p.inputs[1] = {1};
  EXPECT_THAT(PlanRecompute(p, {.budget = 99}),
              StatusIs(kInvalid, HasSubstr("cycle")));
  p.inputs[1] = {7};
  EXPECT_THAT(PlanRecompute(p, {.budget = 99}),
              StatusIs(kInvalid, HasSubstr("node 1 reads node 7")));
  p.inputs[1] = {0, 0};
  EXPECT_THAT(PlanRecompute(p, {.budget = 99}),
              StatusIs(kInvalid, HasSubstr("twice")));
  p = Skip();
  p.memory[2] = -1;
  EXPECT_THAT(PlanRecompute(p, {.budget = 99}),
              StatusIs(kInvalid, HasSubstr("negative memory")));
  p = Skip();
  p.cost.pop_back();
  EXPECT_THAT(PlanRecompute(p, {.budget = 99}),
              StatusIs(kInvalid, HasSubstr("3")));
  p = Skip();
  p.initial_order = {1, 0, 2, 3};
  EXPECT_THAT(PlanRecompute(p, {.budget = 99}),
              StatusIs(kInvalid, HasSubstr("before node 0")));
}

TEST(PlanRecomputeTest, SaysWhenSumsOverflow) {
  RecomputeProblem p = Skip();
  p.memory = {kMax, 1, 1, 1};
  EXPECT_THAT(PlanRecompute(p, {.budget = kMax}),
              StatusIs(kInvalid, HasSubstr("memory is beyond 2^63")));
  p = Skip();
  p.cost = {kMax / 2, kMax / 2, 2, 2};
  EXPECT_THAT(PlanRecompute(p, {.budget = 99}),
              StatusIs(kInvalid, HasSubstr("cost is beyond 2^63")));
}

// Plans whose cost would wrap are not taken: the chain must make nodes again,
// and there is no room for their cost.
TEST(PlanRecomputeTest, NoPlanCostsMoreThanFits) {
  RecomputeProblem p = TrainingChain(12, nullptr);
  for (int64_t& cost : p.cost) cost = kMax / 26;
  const auto result = PlanRecompute(p, {.budget = 5, .max_moves = 5'000});
  ASSERT_THAT(result, IsOk());
  EXPECT_NE(result->outcome, RecomputeOutcome::kPlan);
}

TEST(PlanRecomputeTest, LargeNumbersStayWithinTheBudget) {
  std::mt19937 random(3);
  RecomputeProblem p = TrainingChain(16, &random, kMax / 100, kMax / 1000);
  const auto set = LargestWorkingSet(p);
  ASSERT_THAT(set, IsOk());
  const int64_t budget = set->memory + set->memory / 2;
  const auto result = PlanRecompute(p, {.budget = budget, .max_moves = 50'000});
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->outcome, RecomputeOutcome::kPlan);
  const auto replay = ReplayRecompute(p, result->sequence);
  ASSERT_THAT(replay, IsOk());
  EXPECT_LE(replay->peak, budget);
  EXPECT_EQ(replay->cost, result->cost);
}

TEST(PlanRecomputeTest, AnOrderThatFitsIsOptimal) {
  // In the given order both large values are live together; they need not be.
  const RecomputeProblem p = {.memory = {9, 9, 1, 1, 1},
                              .cost = {1, 2, 3, 4, 5},
                              .inputs = {{}, {}, {0}, {1}, {2, 3}}};
  const auto result = PlanRecompute(p, {.budget = 11});
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->outcome, RecomputeOutcome::kPlan);
  EXPECT_TRUE(result->optimal);
  EXPECT_EQ(result->cost, 15);
  EXPECT_EQ(result->method, "order");
}

TEST(PlanRecomputeTest, SameSeedAndThreadsSamePlan) {
  std::mt19937 random(5);
  const RecomputeProblem p = TrainingChain(30, &random, 20, 20);
  const auto set = LargestWorkingSet(p);
  ASSERT_THAT(set, IsOk());
  const RecomputeOptions options = {
      .budget = set->memory * 2, .max_moves = 30'000, .threads = 2, .seed = 9};
  const auto first = PlanRecompute(p, options);
  const auto second = PlanRecompute(p, options);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  ASSERT_EQ(first->outcome, RecomputeOutcome::kPlan);
  EXPECT_EQ(first->sequence, second->sequence);
}

TEST(PlanRecomputeTest, StartsFromAGivenPlan) {
  std::mt19937 random(6);
  const RecomputeProblem p = TrainingChain(30, &random, 20, 20);
  const int64_t budget = LargestWorkingSet(p)->memory * 2;
  const auto good = PlanRecompute(p, {.budget = budget, .max_moves = 300'000});
  ASSERT_THAT(good, IsOk());
  const auto again = PlanRecompute(
      p,
      {.budget = budget, .max_moves = 1, .initial_sequence = good->sequence});
  ASSERT_THAT(again, IsOk());
  EXPECT_LE(again->cost, good->cost);
  EXPECT_THAT(PlanRecompute(p, {.budget = budget, .initial_sequence = {1}}),
              StatusIs(kInvalid, HasSubstr("before its input")));
}

TEST(PlanRecomputeTest, NeverExceedsTheBudget) {
  std::mt19937 random(10);
  for (int round = 0; round < 12; ++round) {
    const RecomputeProblem p = round % 2 == 0
                                   ? TrainingChain(20 + round, &random, 50, 9)
                                   : RandomDag(40 + round, 3, 50, 9, random);
    const int64_t floor = LargestWorkingSet(p)->memory;
    for (const int64_t budget : {floor, floor * 5 / 4, floor * 2}) {
      SCOPED_TRACE(::testing::Message()
                   << "round " << round << ", budget " << budget);
      const auto result = PlanRecompute(
          p, {.budget = budget, .max_moves = 2'000, .threads = 1 + round % 2});
      ASSERT_THAT(result, IsOk());
      if (result->outcome == RecomputeOutcome::kInfeasible) continue;
      const auto replay = ReplayRecompute(p, result->sequence);
      ASSERT_THAT(replay, IsOk());
      EXPECT_EQ(result->outcome == RecomputeOutcome::kPlan,
                replay->peak <= budget);
      EXPECT_EQ(replay->peak, result->peak);
      EXPECT_EQ(replay->cost, result->cost);
      EXPECT_LE(result->lower_bound, result->cost);
    }
  }
}

// Seconds of a busy machine pass at any moment: the limit holds all the same.
TEST(PlanRecomputeTest, EndsWhateverTheTimeLimit) {
  std::mt19937 random(12);
  const RecomputeProblem p = TrainingChain(60, &random, 50, 9);
  const int64_t budget = LargestWorkingSet(p)->memory * 2;
  for (const double seconds : {1e-9, 1e-4, 1e-3, 1e-2, 0.1}) {
    const auto result = PlanRecompute(
        p, {.budget = budget, .time_limit_seconds = seconds, .threads = 2});
    ASSERT_THAT(result, IsOk());
    EXPECT_LT(result->seconds, 60);
  }
}

TEST(SweepRecomputeTest, RandomGraphsAreMonotoneToo) {
  std::mt19937 random(13);
  for (int round = 0; round < 4; ++round) {
    const RecomputeProblem p = RandomDag(25, 3, 20, 20, random);
    const int64_t floor = LargestWorkingSet(p)->memory;
    std::vector<int64_t> budgets;
    for (int i = 0; i < 4; ++i) budgets.push_back(floor + i * floor / 5);
    const auto sweep = SweepRecompute(p, budgets, {.max_moves = 500});
    ASSERT_THAT(sweep, IsOk());
    for (size_t i = 0; i + 1 < budgets.size(); ++i) {
      if ((*sweep)[i].outcome != RecomputeOutcome::kPlan) continue;
      ASSERT_EQ((*sweep)[i + 1].outcome, RecomputeOutcome::kPlan);
      EXPECT_LE((*sweep)[i + 1].cost, (*sweep)[i].cost);
      EXPECT_LE((*sweep)[i + 1].peak, budgets[i + 1]);
    }
  }
}

TEST(SweepRecomputeTest, ALargerBudgetNeverCostsMore) {
  std::mt19937 random(8);
  const RecomputeProblem p = TrainingChain(20, &random, 20, 20);
  const int64_t floor = LargestWorkingSet(p)->memory;
  std::vector<int64_t> budgets;
  for (int i = 4; i >= -1; --i) budgets.push_back(floor + i * floor / 4);
  // Few moves: without the plans of smaller budgets this would go up and down.
  const auto sweep = SweepRecompute(p, budgets, {.max_moves = 3'000});
  ASSERT_THAT(sweep, IsOk());
  ASSERT_EQ(sweep->size(), budgets.size());
  EXPECT_EQ(sweep->back().outcome, RecomputeOutcome::kInfeasible);
  for (size_t i = 0; i + 1 < budgets.size(); ++i) {
    const RecomputeResult& larger = (*sweep)[i];
    if ((*sweep)[i + 1].outcome != RecomputeOutcome::kPlan) continue;
    ASSERT_EQ(larger.outcome, RecomputeOutcome::kPlan);
    EXPECT_LE(larger.cost, (*sweep)[i + 1].cost);
    EXPECT_LE(larger.peak, budgets[i]);
  }
  EXPECT_EQ(sweep->front().outcome, RecomputeOutcome::kPlan);
}

TEST(RecomputeCostBoundTest, IsTightOnAChainThatMustDropOne) {
  // One value has to go while the loss is made: the cheapest.
  const RecomputeProblem p = {
      .memory = {2, 2, 2, 0, 0, 0, 0},
      .cost = {5, 7, 9, 1, 1, 1, 1},
      .inputs = {{}, {0}, {1}, {2}, {2, 3}, {1, 4}, {0, 5}}};
  const auto bound = RecomputeCostBound(p, 5);
  ASSERT_THAT(bound, IsOk());
  EXPECT_GT(*bound, 25);
  const auto result = PlanRecompute(p, {.budget = 5});
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->outcome, RecomputeOutcome::kPlan);
  EXPECT_LE(*bound, result->cost);
}

// 1,000 layers in the memory of 64: the square root of the chain, twice.
TEST(PlanRecomputeTest, LongChainAtSquareRootBudget) {
  const RecomputeProblem p = TrainingChain(1000, nullptr);
  const auto result = PlanRecompute(p, {.budget = 64, .max_moves = 2'000});
  ASSERT_THAT(result, IsOk());
  ASSERT_EQ(result->outcome, RecomputeOutcome::kPlan);
  EXPECT_LE(result->peak, 64);
  // Each layer at most twice more than once.
  EXPECT_LE(result->cost, 2001 + 2000);
}

}  // namespace
}  // namespace onnx_memopt::plan
