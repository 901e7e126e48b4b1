#include "plan/recompute_chain.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/plan/recompute.h"
#include "plan/recompute_blocks.h"
#include "plan/recompute_model.h"
#include "support/status_matchers.h"
#include "unit/plan/recompute_problems.h"

namespace onnx_memopt::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMuchWork = 100'000'000;

std::vector<RecomputeBlock> Blocks(const RecomputeProblem& problem,
                                   int32_t max_blocks = 1000) {
  const auto model = RecomputeModel::Create(problem);
  EXPECT_THAT(model, testing::IsOk());
  return FindBlocks(*model, model->order, max_blocks);
}

// A forward part of the given inputs, and its gradients: the gradient of a node
// reads those of its users, and what the node reads.
RecomputeProblem WithGradients(const std::vector<std::vector<int32_t>>& forward,
                               std::mt19937& random) {
  const auto draw = [&random](int64_t limit) {
    return std::uniform_int_distribution<int64_t>(1, limit)(random);
  };
  RecomputeProblem problem;
  const auto n = static_cast<int32_t>(forward.size());
  for (const std::vector<int32_t>& inputs : forward) {
    AddNode(problem, draw(9), draw(9), inputs);
  }
  for (int32_t v = n - 1; v >= 0; --v) {
    std::vector<int32_t> inputs = forward[v];
    for (int32_t w = v + 1; w < n; ++w) {
      if (std::count(forward[w].begin(), forward[w].end(), v) > 0) {
        inputs.push_back(2 * n - 1 - w);
      }
    }
    if (v == n - 1) inputs.push_back(v);
    AddNode(problem, draw(9), draw(9), inputs);
  }
  return problem;
}

// x -> a -> b -> x + b -> ...
std::vector<std::vector<int32_t>> Residual(int32_t blocks) {
  std::vector<std::vector<int32_t>> inputs = {{}};
  for (int32_t b = 0; b < blocks; ++b) {
    const auto x = static_cast<int32_t>(inputs.size()) - 1;
    inputs.push_back({x});
    inputs.push_back({x + 1});
    inputs.push_back({x, x + 2});
  }
  return inputs;
}

TEST(FindBlocksTest, AChainIsCutAfterEachLayer) {
  // f0 f1 f2 f3, loss 4, gradients 5 (reads 4, 2), 6 (5, 1), 7 (6, 0), 8 (7).
  // The loss takes the most memory first: f3 and the loss are forward, and
  // gradient 5 reads both sides of the cut between f2 and f3.
  const std::vector<RecomputeBlock> blocks = Blocks(TrainingChain(4, nullptr));
  ASSERT_EQ(blocks.size(), 4);
  EXPECT_THAT(blocks[0].forward, ElementsAre(0));
  EXPECT_THAT(blocks[0].backward, ElementsAre(8));
  EXPECT_THAT(blocks[1].forward, ElementsAre(1));
  EXPECT_THAT(blocks[1].backward, ElementsAre(7));
  EXPECT_THAT(blocks[2].backward, ElementsAre(6));
  EXPECT_THAT(blocks[3].forward, ElementsAre(3, 4));
  EXPECT_THAT(blocks[3].backward, ElementsAre(5));
  // A layer's gradient reads the value that leads in: none has to be made again
  // for it.
  EXPECT_THAT(blocks[1].tail, IsEmpty());
  EXPECT_EQ(blocks[1].sweep_peak, 1);
  EXPECT_EQ(blocks[1].sweep_in_peak, 2);
  EXPECT_EQ(blocks[1].gradients, 1);
  EXPECT_EQ(blocks[1].backward_peak, 2);  // gradients 6 and 7
}

TEST(FindBlocksTest, SkippedValuesAreInsideABlock) {
  std::mt19937 random(1);
  const std::vector<RecomputeBlock> blocks =
      Blocks(WithGradients(Residual(5), random));
  ASSERT_GE(blocks.size(), 5);
  for (size_t b = 1; b + 1 < blocks.size(); ++b) {
    EXPECT_EQ(blocks[b].forward.size(), 3) << b;
    EXPECT_EQ(blocks[b].forward.back() % 3, 0) << b;
  }
}

TEST(FindBlocksTest, ALongSkipLeavesOneBlock) {
  // As in a U-Net: the last node reads the first, and so do the gradients.
  std::mt19937 random(2);
  const std::vector<std::vector<int32_t>> forward = {{},  {0}, {1},
                                                     {2}, {3}, {0, 4}};
  EXPECT_LE(Blocks(WithGradients(forward, random)).size(), 2);
}

TEST(FindBlocksTest, NoMoreBlocksThanAskedForAndEachNodeOnce) {
  std::mt19937 random(3);
  const RecomputeProblem problem = TrainingChain(50, &random, 9, 9);
  for (const int32_t most : {1, 2, 7, 49, 1000}) {
    const std::vector<RecomputeBlock> blocks = Blocks(problem, most);
    EXPECT_LE(blocks.size(), static_cast<size_t>(most));
    std::vector<int32_t> nodes;
    for (const RecomputeBlock& b : blocks) {
      nodes.insert(nodes.end(), b.forward.begin(), b.forward.end());
      nodes.insert(nodes.end(), b.backward.begin(), b.backward.end());
    }
    std::sort(nodes.begin(), nodes.end());
    ASSERT_EQ(nodes.size(), problem.memory.size());
    for (size_t v = 0; v < nodes.size(); ++v) {
      EXPECT_EQ(nodes[v], static_cast<int32_t>(v));
    }
  }
}

TEST(PlanChainTest, RandomChainsAndResidualsStayWithinTheBudget) {
  std::mt19937 random(4);
  int plans = 0;
  for (int round = 0; round < 40; ++round) {
    const RecomputeProblem problem =
        round % 2 == 0 ? TrainingChain(5 + round, &random, 20, 20)
                       : WithGradients(Residual(2 + round / 4), random);
    int64_t total = 0;
    for (int64_t memory : problem.memory) total += memory;
    for (int share = 1; share <= 8; ++share) {
      SCOPED_TRACE(::testing::Message() << "round " << round << " " << share);
      const int64_t budget = total * share / 10;
      const auto found = PlanChain(Blocks(problem), budget, kMuchWork, {});
      if (found.empty()) continue;
      ++plans;
      EXPECT_EQ(found.size(), 1);
      const auto replay = ReplayRecompute(problem, found.front());
      ASSERT_THAT(replay, testing::IsOk());
      EXPECT_LE(replay->peak, budget);
    }
  }
  EXPECT_GT(plans, 200);
}

TEST(PlanChainTest, CoarseUnitsGiveValidPlansAndSomeThatFit) {
  std::mt19937 random(5);
  int fit = 0;
  for (int round = 0; round < 20; ++round) {
    const RecomputeProblem problem =
        TrainingChain(10 + round, &random, 1'000'000, 20);
    int64_t total = 0;
    for (int64_t memory : problem.memory) total += memory;
    const int64_t budget = total * 3 / 10;
    bool fits = false;
    for (const std::vector<int32_t>& plan :
         PlanChain(Blocks(problem), budget, kMuchWork, {})) {
      const auto replay = ReplayRecompute(problem, plan);
      ASSERT_THAT(replay, testing::IsOk());
      fits = fits || replay->peak <= budget;
    }
    fit += fits ? 1 : 0;
  }
  EXPECT_GE(fit, 15);
}

TEST(PlanChainTest, LittleWorkGivesNoPlanRatherThanABadOne) {
  EXPECT_THAT(PlanChain(Blocks(TrainingChain(300, nullptr)), 40, 100, {}),
              IsEmpty());
  EXPECT_THAT(PlanChain(Blocks(TrainingChain(300, nullptr)), 40, kMuchWork,
                        [] { return true; }),
              IsEmpty());
}

TEST(PlanChainTest, TooSmallABudgetGivesNoPlan) {
  EXPECT_THAT(PlanChain(Blocks(TrainingChain(30, nullptr)), 1, kMuchWork, {}),
              IsEmpty());
  EXPECT_THAT(PlanChain(Blocks(TrainingChain(30, nullptr)), -1, kMuchWork, {}),
              IsEmpty());
}

// The bound proves it: 1,000 equal layers in twice their square root.
TEST(PlanChainTest, AThousandLayersAreOptimal) {
  const RecomputeProblem problem = TrainingChain(1000, nullptr);
  const auto result = PlanRecompute(
      problem,
      {.budget = 64,
       .methods = {.eviction = false, .keep = false, .anneal = false}});
  ASSERT_THAT(result, testing::IsOk());
  ASSERT_EQ(result->outcome, RecomputeOutcome::kPlan);
  EXPECT_EQ(result->method, "chain");
  EXPECT_TRUE(result->optimal);
  EXPECT_LE(result->peak, 64);
}

// With s values held and each layer run at most r times more, a chain of
// (s + r)! / (s! r!) layers can be done: Griewank's binomial bound. In the
// memory of 12 some 9 layers can be held, besides what is being computed.
TEST(PlanChainTest, LittleMemoryCostsTheBinomialNumberOfRuns) {
  const RecomputeProblem problem = TrainingChain(200, nullptr);
  const auto result = PlanRecompute(
      problem,
      {.budget = 12,
       .methods = {.eviction = false, .keep = false, .anneal = false}});
  ASSERT_THAT(result, testing::IsOk());
  ASSERT_EQ(result->outcome, RecomputeOutcome::kPlan);
  // (9 + 3)! / (9! 3!) = 220 >= 200.
  EXPECT_LE(result->cost, 401 + 3 * 200);
}

}  // namespace
}  // namespace onnx_memopt::plan
