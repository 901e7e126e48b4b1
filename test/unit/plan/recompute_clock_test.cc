#include "plan/recompute_clock.h"

#include "gtest/gtest.h"

namespace onnx_memopt::plan {
namespace {

TEST(ClockTest, NoLimitIsNeverOver) {
  const Clock clock(0);
  EXPECT_FALSE(clock.limited());
  EXPECT_FALSE(clock.Over());
  EXPECT_FALSE(clock.Over(0.001));
}

TEST(ClockTest, AShareIsOverBeforeTheWhole) {
  const Clock clock(3600);
  EXPECT_FALSE(clock.Over());
  EXPECT_TRUE(clock.Over(0));
}

TEST(ClockTest, APartOfTheTimeGoesFromNoneToAll) {
  const Clock clock(3600);
  const double now = clock.Seconds();
  EXPECT_LT(clock.ShareOf(now, now + 3600), 1);
  EXPECT_GE(clock.ShareOf(now - 2, now - 1), 1);
}

// A part that begins after its end would never come to one otherwise, and the
// search in it would not stop.
TEST(ClockTest, APartThatBeginsTooLateIsOver) {
  const Clock clock(1);
  EXPECT_GE(clock.ShareOf(0.7, 0.6), 1);
  EXPECT_GE(clock.ShareOf(0.7, 0.7), 1);
}

}  // namespace
}  // namespace onnx_memopt::plan
