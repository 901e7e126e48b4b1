// Replays by hand: each number is argued beside it.
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/plan/schedule.h"
#include "support/status_matchers.h"
#include "unit/plan/schedule_problems.h"

namespace onnx_memopt::plan {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kBad = absl::StatusCode::kInvalidArgument;

std::vector<int64_t> Steps(const ScheduleProblem& problem,
                           const std::vector<int32_t>& order) {
  absl::StatusOr<ScheduleProfile> profile = EvaluateSchedule(problem, order);
  EXPECT_THAT(profile, IsOk());
  return profile.ok() ? profile->step_bytes : std::vector<int64_t>();
}

TEST(EvaluateScheduleTest, OperandsAndResultsAreLiveTogether) {
  ProblemBuilder p;
  const int32_t x = p.Input(4);
  const int32_t a = p.Node(8, {x});
  p.Node(2, {a});
  // x 4 + a 8; a 8 + b 2.
  EXPECT_THAT(Steps(p.problem(), {0, 1}), ElementsAre(12, 10));
}

TEST(EvaluateScheduleTest, ExtraBytesCountWhileTheNodeRuns) {
  ProblemBuilder p;
  const int32_t a = p.Node(8, {});
  p.problem().nodes[0].extra_bytes = 5;
  p.Node(2, {a});
  EXPECT_THAT(Steps(p.problem(), {0, 1}), ElementsAre(13, 10));
}

TEST(EvaluateScheduleTest, UnreadBuffers) {
  ProblemBuilder p;
  p.Input(100);  // nobody reads it: never there
  const int32_t kept = p.Input(10);
  p.Keep(kept);   // there throughout
  p.Node(7, {});  // freed right after
  const int32_t out = p.Node(1, {});
  p.Keep(out);
  p.Node(2, {});
  EXPECT_THAT(Steps(p.problem(), {0, 1, 2}), ElementsAre(17, 11, 13));
}

TEST(EvaluateScheduleTest, InPlaceNeedsTheLastReader) {
  ProblemBuilder p;
  const int32_t x = p.Input(4);
  p.NodeInPlace({x});
  p.Node(1, {x});
  p.Keep(1);
  // Node 0 first: x 4 + result 4, then x 4 + result 4 + 1.
  EXPECT_THAT(Steps(p.problem(), {0, 1}), ElementsAre(8, 9));
  // Node 1 first: x 4 + 1, then the result over x: 4.
  EXPECT_THAT(Steps(p.problem(), {1, 0}), ElementsAre(5, 4));
}

TEST(EvaluateScheduleTest, InPlaceNeverOverwritesWhatIsKept) {
  ProblemBuilder p;
  const int32_t x = p.Input(4);
  p.Keep(x);
  p.NodeInPlace({x});
  EXPECT_THAT(Steps(p.problem(), {0}), ElementsAre(8));
}

TEST(EvaluateScheduleTest, EachBufferIsInOnePairAtMost) {
  ProblemBuilder p;
  const int32_t x = p.Input(4);
  const int32_t y = p.Input(4);
  const int32_t r = p.Node(4, {x, y});
  p.problem().nodes[0].in_place = {{x, r}, {y, r}};
  p.Node(1, {r});
  // x and y, one of them becomes r; then r 4 + 1.
  EXPECT_THAT(Steps(p.problem(), {0, 1}), ElementsAre(8, 5));
}

TEST(EvaluateScheduleTest, TheSecondPairAppliesIfTheFirstOperandIsBusy) {
  ProblemBuilder p;
  const int32_t x = p.Input(4);
  const int32_t y = p.Input(4);
  const int32_t r = p.Node(4, {x, y});
  p.problem().nodes[0].in_place = {{x, r}, {y, r}};
  p.Node(1, {x, r});
  // x + y, y becomes r; then x 4 + r 4 + 1.
  EXPECT_THAT(Steps(p.problem(), {0, 1}), ElementsAre(8, 9));
}

TEST(EvaluateScheduleTest, ChainInPlaceThatNobodyReads) {
  ProblemBuilder p;
  int32_t x = p.Node(4, {});
  x = p.NodeInPlace({x});
  p.NodeInPlace({x});
  p.Node(3, {});
  p.problem().nodes[3].after = {2};
  EXPECT_THAT(Steps(p.problem(), {0, 1, 2, 3}), ElementsAre(4, 4, 4, 3));
}

TEST(EvaluateScheduleTest, EmptyProblem) {
  absl::StatusOr<ScheduleProfile> profile = EvaluateSchedule({}, {});
  ASSERT_THAT(profile, IsOk());
  EXPECT_EQ(profile->peak_bytes, 0);
  absl::StatusOr<ScheduleResult> result = MinimizePeak({}, {});
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->optimal);
}

TEST(EvaluateScheduleTest, RefusesBadOrders) {
  ProblemBuilder p;
  const int32_t a = p.Node(8, {});
  p.Node(2, {a});
  auto evaluate = [&](const std::vector<int32_t>& order) {
    return EvaluateSchedule(p.problem(), order);
  };
  EXPECT_THAT(evaluate({0}), StatusIs(kBad, HasSubstr("1 nodes")));
  EXPECT_THAT(evaluate({0, 0}), StatusIs(kBad, HasSubstr("twice")));
  EXPECT_THAT(evaluate({0, 2}), StatusIs(kBad, HasSubstr("node 2")));
  EXPECT_THAT(evaluate({-1, 0}), StatusIs(kBad, HasSubstr("node -1")));
  EXPECT_THAT(evaluate({1, 0}), StatusIs(kBad, HasSubstr("depends")));
}

// Each edit breaks a good problem in one way; both entry points must say so.
struct Break {
  const char* message;
  absl::StatusCode code;
  void (*edit)(ScheduleProblem&);
};

class MalformedProblemTest : public ::testing::TestWithParam<Break> {};

TEST_P(MalformedProblemTest, IsRefused) {
  ProblemBuilder p;
  const int32_t x = p.Input(4);
  const int32_t a = p.NodeInPlace({x});
  p.Node(2, {a, x});
  ScheduleProblem problem = p.problem();
  ASSERT_THAT(EvaluateSchedule(problem, {0, 1}), IsOk());
  GetParam().edit(problem);
  EXPECT_THAT(EvaluateSchedule(problem, {0, 1}),
              StatusIs(GetParam().code, HasSubstr(GetParam().message)));
  EXPECT_THAT(MinimizePeak(problem, {}),
              StatusIs(GetParam().code, HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Breaks, MalformedProblemTest,
    ::testing::Values(
        Break{"negative size", kBad,
              [](ScheduleProblem& p) { p.buffers[0].size_bytes = -1; }},
        Break{"negative extra", kBad,
              [](ScheduleProblem& p) { p.nodes[0].extra_bytes = -1; }},
        Break{"has producer 2", kBad,
              [](ScheduleProblem& p) { p.buffers[1].producer = 2; }},
        Break{"has producer -2", kBad,
              [](ScheduleProblem& p) { p.buffers[1].producer = -2; }},
        Break{"has reader 2", kBad,
              [](ScheduleProblem& p) { p.buffers[0].readers = {0, 1, 2}; }},
        Break{"has reader -1", kBad,
              [](ScheduleProblem& p) { p.buffers[0].readers = {-1, 0}; }},
        Break{"not ascending", kBad,
              [](ScheduleProblem& p) { p.buffers[0].readers = {0, 0, 1}; }},
        Break{"not ascending", kBad,
              [](ScheduleProblem& p) { p.buffers[0].readers = {1, 0}; }},
        Break{"which it produces", kBad,
              [](ScheduleProblem& p) { p.buffers[1].readers = {0, 1}; }},
        Break{"after node 7", kBad,
              [](ScheduleProblem& p) { p.nodes[0].after = {7}; }},
        Break{"after node 0", kBad,
              [](ScheduleProblem& p) { p.nodes[0].after = {0}; }},
        Break{"but there are 3 buffers", kBad,
              [](ScheduleProblem& p) { p.nodes[0].in_place = {{0, 9}}; }},
        Break{"does not read", kBad,
              [](ScheduleProblem& p) { p.nodes[1].in_place = {{0, 1}}; }},
        Break{"must be equal", kBad,
              [](ScheduleProblem& p) { p.buffers[1].size_bytes = 5; }},
        Break{"depends", kBad,
              [](ScheduleProblem& p) { p.nodes[0].after = {1}; }},
        Break{"2^63", absl::StatusCode::kOutOfRange,
              [](ScheduleProblem& p) {
                p.buffers[2].size_bytes = std::numeric_limits<int64_t>::max();
              }},
        Break{"2^63", absl::StatusCode::kOutOfRange, [](ScheduleProblem& p) {
                p.nodes[1].extra_bytes = std::numeric_limits<int64_t>::max();
              }}));

}  // namespace
}  // namespace onnx_memopt::plan
