#include "gtest/gtest.h"
#include "onnx_memopt/grad/training_step.h"

namespace onnx_memopt::grad {
namespace {

TEST(MatchesPatternTest, WithoutWildcardsNamesAreCompared) {
  EXPECT_TRUE(MatchesPattern("h.0.w", "h.0.w"));
  EXPECT_FALSE(MatchesPattern("h.0.w", "h.0"));
  EXPECT_FALSE(MatchesPattern("h.0", "h.0.w"));
  EXPECT_TRUE(MatchesPattern("", ""));
}

TEST(MatchesPatternTest, AStarStandsForAnyCharacters) {
  EXPECT_TRUE(MatchesPattern("h.0.w", "*"));
  EXPECT_TRUE(MatchesPattern("", "*"));
  EXPECT_TRUE(MatchesPattern("h.0.w", "h.*.w"));
  EXPECT_TRUE(MatchesPattern("h.0.attn.w", "h.*.w"));
  EXPECT_TRUE(MatchesPattern("aab", "*ab"));
  EXPECT_TRUE(MatchesPattern("h.*", "h.*"));
  EXPECT_FALSE(MatchesPattern("h.0.b", "h.*.w"));
}

TEST(MatchesPatternTest, AQuestionMarkStandsForOne) {
  EXPECT_TRUE(MatchesPattern("h.3.w", "h.?.w"));
  EXPECT_FALSE(MatchesPattern("h.31.w", "h.?.w"));
  EXPECT_FALSE(MatchesPattern("", "?"));
}

}  // namespace
}  // namespace onnx_memopt::grad
