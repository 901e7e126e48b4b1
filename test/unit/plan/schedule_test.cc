// MinimizePeak on graphs whose best order is known, and what it promises for
// all graphs: never worse than the input, the same result twice.
#include "onnx_memopt/plan/schedule.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/status_matchers.h"
#include "unit/plan/schedule_problems.h"

namespace onnx_memopt::plan {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int32_t> InputOrder(const ScheduleProblem& problem) {
  std::vector<int32_t> order(problem.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

int64_t InputPeak(const ScheduleProblem& problem) {
  return EvaluateSchedule(problem, InputOrder(problem))->peak_bytes;
}

// The result, checked by replay.
ScheduleResult Minimize(const ScheduleProblem& problem,
                        const ScheduleOptions& options = {}) {
  absl::StatusOr<ScheduleResult> result = MinimizePeak(problem, options);
  EXPECT_THAT(result, IsOk());
  if (!result.ok()) return {};
  absl::StatusOr<ScheduleProfile> replay =
      EvaluateSchedule(problem, result->order);
  EXPECT_THAT(replay, IsOk());
  if (replay.ok()) {
    EXPECT_EQ(replay->peak_bytes, result->peak_bytes);
  }
  return *result;
}

TEST(ScheduleTest, ShrinkingBranchRunsFirst) {
  // x 8 -> wide 32 -> end 2, x -> thin 1; both joined. Wide first: x 8 + wide
  // 32 = 40, then 34 (x 8 waits for thin: 42 while `end` is made), ...
  // Thin first: x 8 + 1, then x 8 + 1 + 32 = 41, then 1 + 32 + 2 = 35.
  ProblemBuilder p;
  const int32_t x = p.Node(8, {});
  const int32_t wide = p.Node(32, {x});
  const int32_t end = p.Node(2, {wide});
  const int32_t thin = p.Node(1, {x});
  p.Keep(p.Node(2, {end, thin}));
  EXPECT_EQ(InputPeak(p.problem()), 42);
  const ScheduleResult result = Minimize(p.problem());
  EXPECT_EQ(result.peak_bytes, 41);
  EXPECT_TRUE(result.optimal);
  EXPECT_THAT(result.order, ElementsAre(0, 3, 1, 2, 4));
}

TEST(ScheduleTest, ExpandingBranchRunsLast) {
  // x 4 -> big 64 (needed whole by the join); x -> mid 48 -> out 1.
  // Big first: 4 + 64 + 48 + 1 = 117 at worst. Mid first: 4 + 48 + 1 = 53, then
  // x 4 + 1 + 64 = 69, and the join 64 + 1 + 1.
  ProblemBuilder p;
  const int32_t x = p.Node(4, {});
  const int32_t big = p.Node(64, {x});
  const int32_t mid = p.Node(48, {x});
  const int32_t out = p.Node(1, {mid});
  p.Keep(p.Node(1, {big, out}));
  EXPECT_EQ(InputPeak(p.problem()), 116);
  const ScheduleResult result = Minimize(p.problem());
  EXPECT_EQ(result.peak_bytes, 69);
  EXPECT_TRUE(result.optimal);
}

TEST(ScheduleTest, KeepsTheInputOrderIfNothingIsBetter) {
  ProblemBuilder p;
  const int32_t x = p.Node(8, {});
  const int32_t a = p.Node(8, {x});
  const int32_t b = p.Node(8, {x});
  p.Keep(p.Node(8, {a, b}));
  const ScheduleResult result = Minimize(p.problem());
  EXPECT_THAT(result.order, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(result.found_by, "input");
  EXPECT_TRUE(result.optimal);
}

TEST(ScheduleTest, StartsFromTheGivenOrder) {
  ProblemBuilder p;
  const int32_t x = p.Node(8, {});
  const int32_t a = p.Node(8, {x});
  const int32_t b = p.Node(8, {x});
  p.Keep(p.Node(8, {a, b}));
  EXPECT_THAT(Minimize(p.problem(), {.initial_order = {0, 2, 1, 3}}).order,
              ElementsAre(0, 2, 1, 3));
  for (const std::vector<int32_t>& bad : std::vector<std::vector<int32_t>>{
           {0}, {0, 1, 1, 3}, {0, 1, 2, 4}, {0, 1, 3, 2}}) {
    EXPECT_THAT(MinimizePeak(p.problem(), {.initial_order = bad}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("initial order")));
  }
}

TEST(ScheduleTest, RefusesACycle) {
  ProblemBuilder p;
  const int32_t a = p.Node(1, {});
  p.Node(1, {a});
  p.problem().nodes[0].after = {1};
  EXPECT_THAT(
      MinimizePeak(p.problem(), {}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("depends on")));
}

TEST(ScheduleTest, ChainOfDiamonds) {
  // Each diamond: x 10 -> big 100 and (mid 60 -> small 1), joined to 10. In the
  // input order big waits: 10 + 100 + 60 = 170 (+ 1 on top of 160 later). Best:
  // 10 + 60, 71, then 10 + 1 + 100 = 111, then 100 + 1 + 10 = 111.
  ProblemBuilder p;
  int32_t x = p.Node(10, {});
  for (int i = 0; i < 200; ++i) {
    const int32_t big = p.Node(100, {x});
    const int32_t mid = p.Node(60, {x});
    const int32_t small = p.Node(1, {mid});
    x = p.Node(10, {big, small});
  }
  p.Keep(x);
  EXPECT_EQ(InputPeak(p.problem()), 170);
  const ScheduleResult result = Minimize(p.problem());
  EXPECT_EQ(result.peak_bytes, 111);
  EXPECT_TRUE(result.optimal);
}

TEST(ScheduleTest, OnlyTheCellThatIsWorseChanges) {
  // A diamond that is stored well, then one that is stored badly.
  ProblemBuilder p;
  const int32_t x = p.Node(10, {});
  const int32_t mid = p.Node(60, {x});
  const int32_t small = p.Node(1, {mid});
  const int32_t big = p.Node(100, {x});
  const int32_t y = p.Node(10, {big, small});
  const int32_t big2 = p.Node(100, {y});
  const int32_t mid2 = p.Node(60, {y});
  const int32_t small2 = p.Node(1, {mid2});
  p.Keep(p.Node(10, {big2, small2}));
  const ScheduleResult result = Minimize(p.problem());
  EXPECT_EQ(result.peak_bytes, 111);
  EXPECT_THAT(result.order, ElementsAre(0, 1, 2, 3, 4, 6, 7, 5, 8));
}

TEST(ScheduleTest, ResidualNetIsOptimalAsItIs) {
  ProblemBuilder p;
  int32_t x = p.Node(64, {});
  for (int i = 0; i < 50; ++i) {
    const int32_t a = p.Node(64, {x});
    const int32_t relu = p.NodeInPlace({a});
    const int32_t b = p.Node(64, {relu});
    x = p.NodeInPlace({b, x});
  }
  p.Keep(x);
  // x, relu and b are live together: 3 x 64.
  const ScheduleResult result = Minimize(p.problem());
  EXPECT_EQ(result.peak_bytes, 192);
  EXPECT_TRUE(result.optimal);
  EXPECT_EQ(result.found_by, "input");
}

class ParallelBranchesTest : public ::testing::TestWithParam<int> {};

TEST_P(ParallelBranchesTest, BreadthFirstBecomesDepthFirst) {
  // K branches x -> 100 -> 100 -> 1, stored level by level: K x 100 + 4 + 100.
  // One after the other: x 4, what is done (k x 1), and 200 inside a branch.
  const int branches = GetParam();
  ProblemBuilder p;
  const int32_t x = p.Node(4, {});
  std::vector<int32_t> level(branches, x);
  for (const int64_t size : {100, 100, 1}) {
    for (int32_t& branch : level) branch = p.Node(size, {branch});
  }
  p.Keep(p.Node(1, level));
  EXPECT_EQ(InputPeak(p.problem()),
            branches * 100 + (branches > 1 ? 100 : 104));
  const ScheduleResult result = Minimize(p.problem());
  // The last branch has K - 1 results before it, and x is gone by its second
  // node; the one before it has x and K - 2.
  EXPECT_EQ(result.peak_bytes, 200 + std::max(branches - 1, 4 + branches - 2));
}

INSTANTIATE_TEST_SUITE_P(Counts, ParallelBranchesTest,
                         ::testing::Values(2, 3, 8, 20, 100));

TEST(ScheduleTest, StatisticsAtTheEndMoveToTheirTensors) {
  // A chain of 30 tensors of 1000 and a kept maximum of each at the end: in the
  // input order all 30 tensors live until then.
  ProblemBuilder p;
  int32_t x = p.Node(1000, {});
  std::vector<int32_t> tensors = {x};
  for (int i = 1; i < 30; ++i) tensors.push_back(x = p.Node(1000, {x}));
  for (int32_t tensor : tensors) p.Keep(p.Node(4, {tensor}));
  EXPECT_EQ(InputPeak(p.problem()), 30'004);
  const ScheduleResult result = Minimize(p.problem());
  // While the maximum of the last tensor but one is made, or the last tensor,
  // if that comes after it: two tensors and 29 maxima.
  EXPECT_EQ(result.peak_bytes, 2000 + 29 * 4);
  EXPECT_TRUE(result.optimal);
}

TEST(ScheduleTest, StrayConstantsDoNotHideTheCells) {
  // Every diamond reads constants that stand at the top of the file; one is
  // read by all of them.
  ProblemBuilder p;
  const int kDiamonds = 100;
  const int32_t common = p.Node(2, {});
  std::vector<int32_t> constants;
  for (int i = 0; i < kDiamonds; ++i) constants.push_back(p.Node(1, {}));
  int32_t x = p.Node(10, {});
  for (int i = 0; i < kDiamonds; ++i) {
    const int32_t big = p.Node(100, {x, constants[i]});
    const int32_t mid = p.Node(60, {x, common});
    const int32_t small = p.Node(1, {mid});
    x = p.Node(10, {big, small});
  }
  p.Keep(x);
  const ScheduleResult result = Minimize(p.problem());
  // As without them (111), with `common` 2, and the constant 1 beside `big`.
  EXPECT_EQ(result.peak_bytes, 114);
  EXPECT_TRUE(result.optimal);
}

TEST(ScheduleTest, NeverWorseThanTheInputAndTheSameTwice) {
  for (const int nodes : {10, 30, 60, 100, 300, 700, 2000}) {
    for (uint32_t seed = 0; seed < 9; ++seed) {
      RandomProblems random(seed * 1000 + static_cast<uint32_t>(nodes));
      RandomShape shape = {.nodes = nodes, .reach = 4 + nodes / 10};
      if (seed % 3 == 1) shape.reach = 4;
      if (seed % 3 == 2) shape.max_operands = 2;
      const ScheduleProblem problem = random.Make(shape);
      const ScheduleResult result = Minimize(problem);
      EXPECT_LE(result.peak_bytes, InputPeak(problem));
      const ScheduleResult again = Minimize(problem);
      EXPECT_EQ(again.order, result.order);
      EXPECT_EQ(again.found_by, result.found_by);
      EXPECT_EQ(again.optimal, result.optimal);
      // A second round starts from the result and cannot be worse than it.
      const ScheduleResult next =
          Minimize(problem, {.initial_order = result.order});
      EXPECT_LE(next.peak_bytes, result.peak_bytes);
    }
  }
}

TEST(ScheduleTest, ProvedResultsAgreeWhateverTheOptions) {
  // 30 nodes are too many for brute force; two methods that both claim proof
  // must agree, and nothing is below a proved peak.
  int both_proved = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    RandomProblems random(seed + 77);
    const ScheduleProblem problem =
        random.Make({.nodes = 30, .reach = 8, .keep_share = 3});
    const ScheduleResult exact = Minimize(problem, {.exact_nodes = 62});
    const ScheduleResult beam =
        Minimize(problem, {.exact_nodes = 0, .beam_width = 4096});
    const ScheduleResult quick =
        Minimize(problem, {.exact_nodes = 0, .beam_width = 2});
    if (exact.optimal) {
      EXPECT_LE(exact.peak_bytes, beam.peak_bytes) << seed;
      EXPECT_LE(exact.peak_bytes, quick.peak_bytes) << seed;
    }
    if (beam.optimal) {
      EXPECT_LE(beam.peak_bytes, exact.peak_bytes) << seed;
    }
    if (quick.optimal) {
      EXPECT_LE(quick.peak_bytes, exact.peak_bytes) << seed;
    }
    if (exact.optimal && beam.optimal) ++both_proved;
  }
  EXPECT_GT(both_proved, 100);
}

TEST(ScheduleTest, OddOptionsDoNoHarm) {
  RandomProblems random(5);
  const ScheduleProblem problem = random.Make({.nodes = 200, .reach = 30});
  for (const int64_t states : {-1, 0, 1, 100, 10'000}) {
    for (const int width : {-5, 0, 1, 100'000}) {
      for (const int exact : {-1, 0, 1000}) {
        const ScheduleResult result = Minimize(
            problem,
            {.exact_nodes = exact, .beam_width = width, .max_states = states});
        EXPECT_LE(result.peak_bytes, InputPeak(problem));
      }
    }
  }
}

TEST(ScheduleTest, SizesNearTheLimit) {
  const int64_t quarter = int64_t{1} << 61;
  ProblemBuilder p;
  const int32_t x = p.Node(quarter, {});
  const int32_t a = p.Node(quarter, {x});
  const int32_t b = p.Node(quarter - 1, {x});
  p.Keep(p.Node(1, {a}));
  p.Keep(p.Node(2, {b}));
  const ScheduleResult result = Minimize(p.problem());
  EXPECT_LE(result.peak_bytes, InputPeak(p.problem()));
  EXPECT_TRUE(result.optimal);
}

}  // namespace
}  // namespace onnx_memopt::plan
