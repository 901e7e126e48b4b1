// MinimizePeak on large inputs. Times are printed and recorded, and bounded
// loosely: what is tested is that nothing is quadratic.
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/plan/schedule.h"
#include "support/status_matchers.h"
#include "unit/plan/schedule_problems.h"

namespace onnx_memopt::plan {
namespace {

using ::onnx_memopt::testing::IsOk;

// Room for sanitizers on a busy machine; a quadratic step would take hours.
constexpr double kMostSeconds = 60;

// Runs the search, checks the result by replay, and gives the seconds.
double Minimize(const ScheduleProblem& problem) {
  std::vector<int32_t> input(problem.nodes.size());
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<int32_t>(i);
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<ScheduleResult> result = MinimizePeak(problem, {});
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  EXPECT_THAT(result, IsOk());
  if (!result.ok()) return 1e9;
  const ScheduleProfile before = *EvaluateSchedule(problem, input);
  absl::StatusOr<ScheduleProfile> after =
      EvaluateSchedule(problem, result->order);
  EXPECT_THAT(after, IsOk());
  if (!after.ok()) return 1e9;
  EXPECT_EQ(after->peak_bytes, result->peak_bytes);
  EXPECT_LE(after->peak_bytes, before.peak_bytes);
  std::cout << problem.nodes.size() << " nodes: peak " << before.peak_bytes
            << " -> " << after->peak_bytes << " by " << result->found_by
            << (result->optimal ? ", optimal" : "") << ", " << seconds.count()
            << " s\n";
  ::testing::Test::RecordProperty("seconds", std::to_string(seconds.count()));
  return seconds.count();
}

// Blocks of attention: q, k and v, `heads` heads of four nodes stored one kind
// after the other, a join, a residual, and an MLP.
ScheduleProblem Transformer(int nodes, int heads, bool vary) {
  ProblemBuilder p;
  int32_t x = p.Input(4096);
  int64_t layer = 0;
  while (static_cast<int>(p.problem().nodes.size()) < nodes) {
    const int64_t scale = vary ? 1 + (layer * 7919) % 13 : 1;
    ++layer;
    const int32_t norm = p.Node(4096, {x});
    std::vector<int32_t> head;
    for (int h = 0; h < heads; ++h) head.push_back(p.Node(340 * scale, {norm}));
    for (int32_t& h : head) h = p.Node(2000 * scale, {h});
    for (int32_t& h : head) h = p.NodeInPlace({h});
    for (int32_t& h : head) h = p.Node(341 * scale, {h});
    const int32_t join = p.Node(4096, head);
    const int32_t sum = p.NodeInPlace({join, x});
    const int32_t up = p.Node(4 * 4096, {sum});
    const int32_t gelu = p.NodeInPlace({up});
    const int32_t down = p.Node(4096, {gelu});
    x = p.NodeInPlace({down, sum});
  }
  p.Keep(x);
  return p.problem();
}

TEST(ScheduleScaleTest, TransformerOf100000Nodes) {
  EXPECT_LT(Minimize(Transformer(100'000, 12, /*vary=*/false)), kMostSeconds);
}

TEST(ScheduleScaleTest, TransformerWithNoTwoBlocksAlike) {
  EXPECT_LT(Minimize(Transformer(100'000, 12, /*vary=*/true)), kMostSeconds);
}

TEST(ScheduleScaleTest, ThreeHeadsFitTheExactSearch) {
  EXPECT_LT(Minimize(Transformer(100'000, 3, /*vary=*/true)), kMostSeconds);
}

TEST(ScheduleScaleTest, NoCutPoints) {
  // 100,000 nodes over local operands, and an input that the last one reads.
  RandomProblems random(1);
  EXPECT_LT(Minimize(random.Make({.nodes = 100'000, .reach = 40})),
            kMostSeconds);
}

TEST(ScheduleScaleTest, NoCutPointsFarOperands) {
  RandomProblems random(2);
  EXPECT_LT(Minimize(random.Make({.nodes = 100'000, .reach = 50'000})),
            kMostSeconds);
}

TEST(ScheduleScaleTest, OneLongChain) {
  ProblemBuilder p;
  int32_t x = p.Input(8);
  for (int i = 0; i < 100'000; ++i) x = p.Node(8 + i % 5, {x});
  EXPECT_LT(Minimize(p.problem()), kMostSeconds);
}

TEST(ScheduleScaleTest, ManyReadersAndManyOperands) {
  // x -> 50,000 nodes -> one sum; and a chain in which every node reads x.
  ProblemBuilder p;
  const int32_t x = p.Input(64);
  std::vector<int32_t> parts;
  for (int i = 0; i < 50'000; ++i) parts.push_back(p.Node(1 + i % 9, {x}));
  int32_t sum = p.Node(64, parts);
  for (int i = 0; i < 49'999; ++i) sum = p.Node(64, {sum, x});
  EXPECT_LT(Minimize(p.problem()), kMostSeconds);
}

TEST(ScheduleScaleTest, ManySinks) {
  // A chain with a small kept result for every tensor, all at the end.
  ProblemBuilder p;
  int32_t x = p.Input(64);
  std::vector<int32_t> tensors;
  for (int i = 0; i < 50'000; ++i) tensors.push_back(x = p.Node(64, {x}));
  for (int32_t tensor : tensors) p.Keep(p.Node(1, {tensor}));
  EXPECT_LT(Minimize(p.problem()), kMostSeconds);
}

}  // namespace
}  // namespace onnx_memopt::plan
