#include "onnx_memopt/plan/offsets_variants.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/plan/offsets_search.h"
#include "support/status_matchers.h"

namespace onnx_memopt::plan {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<OffsetPlan> Greedy(absl::Span<const Buffer> buffers) {
  return PackFirstFit(buffers);
}

absl::StatusOr<OffsetPlan> Search(absl::Span<const Buffer> buffers) {
  absl::StatusOr<OffsetSolution> solution =
      SolveOffsets(buffers, {.max_states = 5000});
  if (!solution.ok()) return solution.status();
  return solution->plan;
}

TEST(PackInPlaceTest, AChainOfEqualSizesTakesOnePlace) {
  const std::vector<Buffer> buffers = {{0, 2, 64}, {1, 3, 64}, {2, 4, 64}};
  const std::vector<InPlaceBuffers> pairs = {{0, 1}, {1, 2}};
  absl::StatusOr<OffsetPlan> plan = PackInPlace(buffers, pairs, Greedy);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->arena_bytes, 64);
  EXPECT_THAT(plan->offset_bytes, ElementsAre(0, 0, 0));
  EXPECT_THAT(ValidateInPlace(buffers, pairs, *plan), IsOk());
  // Without the pairs that is an overlap.
  EXPECT_THAT(ValidateInPlace(buffers, {}, *plan),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("overlap")));
}

TEST(PackInPlaceTest, OneOperandServesOneResult) {
  const std::vector<Buffer> buffers = {{0, 2, 64}, {1, 3, 64}, {1, 3, 64}};
  const std::vector<InPlaceBuffers> pairs = {{0, 1}, {0, 2}};
  absl::StatusOr<OffsetPlan> plan = PackInPlace(buffers, pairs, Greedy);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->arena_bytes, 128);
  EXPECT_THAT(ValidateInPlace(buffers, pairs, *plan), IsOk());
}

TEST(PackInPlaceTest, ASmallResultIsOnlyPutInPlaceIfThatHelps) {
  // 8 over 64 saves 8 while both live, ...
  const std::vector<InPlaceBuffers> pairs = {{0, 1}};
  absl::StatusOr<OffsetPlan> plan =
      PackInPlace({{0, 2, 64}, {1, 3, 8}}, pairs, Greedy);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->arena_bytes, 64);
  // ... but would hold all 64 while another 64 live.
  plan = PackInPlace({{0, 2, 64}, {1, 9, 8}, {2, 9, 64}}, pairs, Greedy);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->arena_bytes, 72);
}

TEST(PackInPlaceTest, RefusesPairsThatBreakTheRules) {
  const std::vector<Buffer> buffers = {{0, 2, 64}, {1, 3, 65}, {2, 3, 1}};
  auto pack = [&](InPlaceBuffers pair) {
    return PackInPlace(buffers, {pair}, Greedy);
  };
  EXPECT_THAT(pack({0, 1}), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("larger than its operand")));
  EXPECT_THAT(pack({0, 2}), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("not in the last step")));
  // Both live in one step only: neither was there before the other.
  EXPECT_THAT(PackInPlace({{0, 1, 4}, {0, 1, 4}}, {{0, 1}}, Greedy),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("begin in the same step")));
  EXPECT_THAT(pack({0, 3}), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("does not name two")));
  EXPECT_THAT(pack({1, 1}), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("does not name two")));
}

TEST(PackInPlaceTest, RandomProblemsAreValid) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Buffer> buffers;
    std::vector<InPlaceBuffers> pairs;
    for (int32_t i = 0; i < 30; ++i) {
      const auto begin = static_cast<int32_t>(random() % 20);
      buffers.push_back({begin, begin + 1 + static_cast<int32_t>(random() % 4),
                         static_cast<int64_t>(random() % 4) * 8});
    }
    for (int32_t a = 0; a < 30; ++a) {
      for (int32_t b = 0; b < 30; ++b) {
        if (a != b && buffers[a].end == buffers[b].begin + 1 &&
            buffers[a].begin < buffers[b].begin &&
            buffers[b].size_bytes <= buffers[a].size_bytes &&
            random() % 3 == 0) {
          pairs.push_back({a, b});
        }
      }
    }
    for (const OffsetPacker& packer :
         {OffsetPacker(Greedy), OffsetPacker(Search)}) {
      absl::StatusOr<OffsetPlan> plan = PackInPlace(buffers, pairs, packer);
      ASSERT_THAT(plan, IsOk());
      EXPECT_THAT(ValidateInPlace(buffers, pairs, *plan), IsOk());
    }
  }
}

TEST(PackPoolsTest, EachPoolIsAnArena) {
  const std::vector<Buffer> buffers = {{0, 2, 8}, {0, 2, 16}, {1, 3, 32}};
  const std::vector<int32_t> pool = {1, 1, 2};
  absl::StatusOr<PoolPlan> plan = PackPools(buffers, pool, 3, Greedy);
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->pool_bytes, ElementsAre(0, 24, 32));
  EXPECT_THAT(ValidatePools(buffers, pool, *plan), IsOk());
  plan->offset_bytes[1] = plan->offset_bytes[0];
  EXPECT_THAT(ValidatePools(buffers, pool, *plan),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("")));
}

TEST(PackPoolsTest, RefusesBuffersInNoPool) {
  EXPECT_THAT(PackPools({{0, 1, 1}}, {2}, 2, Greedy),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("in pool 2, but there are 2")));
  EXPECT_THAT(PackPools({{0, 1, 1}}, {}, 2, Greedy),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("0 pools are given for 1 buffers")));
}

}  // namespace
}  // namespace onnx_memopt::plan
