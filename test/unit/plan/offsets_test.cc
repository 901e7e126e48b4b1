#include "onnx_memopt/plan/offsets.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/status_matchers.h"

namespace onnx_memopt::plan {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::StatusIs;
using ::testing::HasSubstr;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// The plan, checked by the validator and against the bound.
OffsetPlan Pack(const std::vector<Buffer>& buffers, int64_t alignment = 1) {
  absl::StatusOr<OffsetPlan> plan = PackFirstFit(buffers, alignment);
  EXPECT_THAT(plan, IsOk());
  if (!plan.ok()) return {};
  EXPECT_THAT(ValidateOffsets(buffers, *plan), IsOk());
  EXPECT_GE(plan->arena_bytes, *LowerBound(buffers));
  int64_t top = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    top = std::max(top, plan->offset_bytes[i] + buffers[i].size_bytes);
    EXPECT_EQ(plan->offset_bytes[i] % alignment, 0);
    if (buffers[i].size_bytes == 0) {
      EXPECT_EQ(plan->offset_bytes[i], 0);
    }
  }
  EXPECT_EQ(plan->arena_bytes, top);
  return *plan;
}

std::vector<Buffer> RandomBuffers(std::mt19937& random, int count, int steps,
                                  int max_life, int64_t max_size) {
  auto below = [&](int64_t limit) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
  };
  std::vector<Buffer> buffers;
  for (int i = 0; i < count; ++i) {
    const auto begin = static_cast<int32_t>(below(steps) - steps / 2);
    buffers.push_back({begin, begin + 1 + static_cast<int32_t>(below(max_life)),
                       below(max_size)});
  }
  return buffers;
}

TEST(LowerBoundTest, LargestSumOfOneStep) {
  EXPECT_EQ(*LowerBound({}), 0);
  // Half-open: the first ends where the second begins.
  EXPECT_EQ(*LowerBound({{0, 2, 64}, {2, 3, 32}}), 64);
  EXPECT_EQ(*LowerBound({{0, 2, 64}, {1, 3, 32}, {2, 5, 40}}), 96);
}

TEST(LowerBoundTest, AgreesWithAddingUpEveryStep) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Buffer> buffers = RandomBuffers(random, 12, 10, 6, 50);
    int64_t most = 0;
    for (int32_t step = -10; step < 20; ++step) {
      int64_t sum = 0;
      for (const Buffer& b : buffers) {
        if (b.begin <= step && step < b.end) sum += b.size_bytes;
      }
      most = std::max(most, sum);
    }
    EXPECT_EQ(*LowerBound(buffers), most);
  }
}

TEST(LowerBoundTest, RefusesBadBuffers) {
  EXPECT_THAT(LowerBound({{2, 2, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("empty lifetime")));
  EXPECT_THAT(
      LowerBound({{0, 1, -1}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("negative size")));
  EXPECT_THAT(LowerBound({{0, 1, kMost}, {0, 1, 1}}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("2^63")));
  EXPECT_EQ(*LowerBound({{0, 1, kMost}, {1, 2, kMost}}), kMost);
}

TEST(PackFirstFitTest, SmallCases) {
  EXPECT_EQ(Pack({}).arena_bytes, 0);
  EXPECT_EQ(Pack({{3, 9, 17}}).arena_bytes, 17);
  EXPECT_EQ(Pack({{0, 1, 0}, {0, 1, 0}}).arena_bytes, 0);
  EXPECT_EQ(Pack({{0, 2, 64}, {1, 3, 32}}).arena_bytes, 96);
  // A zero between two others takes no room.
  EXPECT_EQ(Pack({{0, 9, 5}, {0, 9, 0}, {2, 4, 6}}).arena_bytes, 11);
}

TEST(PackFirstFitTest, BuffersThatNeverMeetShareOnePlace) {
  std::vector<Buffer> buffers;
  for (int32_t i = 0; i < 100; ++i) buffers.push_back({i, i + 1, 1 + i % 37});
  EXPECT_EQ(Pack(buffers).arena_bytes, 37);
}

TEST(PackFirstFitTest, OrdersBySizeFindWhatTimeOrderMisses) {
  // In order of time, 4 at 0, 2 at 4; then 4's place goes to the 3 and the 6
  // must lie on top. Large first packs the 6 below the 2.
  const std::vector<Buffer> buffers = {
      {0, 2, 4}, {1, 5, 2}, {2, 4, 3}, {4, 6, 6}};
  EXPECT_EQ(Pack(buffers).arena_bytes, 8);
  EXPECT_EQ(*LowerBound(buffers), 8);
}

TEST(PackFirstFitTest, BuffersThatLiveThroughoutCostExactlyTheirSize) {
  std::mt19937 random(11);
  std::vector<Buffer> buffers = RandomBuffers(random, 50, 40, 5, 100);
  buffers.push_back({-21, 100, 1});  // fixes the first and the last step
  const int64_t without = Pack(buffers).arena_bytes;
  for (int i = 0; i < 10; ++i) buffers.push_back({-21, 100, 1000});
  EXPECT_EQ(Pack(buffers).arena_bytes, without + 10'000);
}

TEST(PackFirstFitTest, RandomProblems) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const int count = 1 + round % 60;
    const std::vector<Buffer> buffers =
        RandomBuffers(random, count, 1 + round % 25, 1 + round % 9, 64);
    Pack(buffers);
    const OffsetPlan plan = Pack(buffers, 16);
    EXPECT_EQ(Pack(buffers, 16).offset_bytes, plan.offset_bytes);
  }
}

TEST(PackFirstFitTest, RefusesBadInput) {
  EXPECT_THAT(PackFirstFit({{2, 1, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("empty lifetime")));
  EXPECT_THAT(PackFirstFit({{0, 1, -7}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("negative size: -7")));
  for (const int64_t alignment : {int64_t{0}, int64_t{-4}, int64_t{12},
                                  std::numeric_limits<int64_t>::min()}) {
    EXPECT_THAT(PackFirstFit({{0, 1, 8}}, alignment),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("power of two")));
  }
}

TEST(PackFirstFitTest, SizesNearTheLimit) {
  EXPECT_EQ(Pack({{0, 1, kMost}}).arena_bytes, kMost);
  EXPECT_EQ(Pack({{0, 2, kMost - 5}, {1, 3, 5}}).arena_bytes, kMost);
  EXPECT_THAT(PackFirstFit({{0, 1, kMost}, {1, 2, 1}}),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("2^63")));
  // Rounding up is what overflows here.
  EXPECT_THAT(PackFirstFit({{0, 1, kMost}}, 64),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("2^63")));
  constexpr int32_t kFirst = std::numeric_limits<int32_t>::min();
  constexpr int32_t kLast = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(
      Pack({{kFirst, kLast, kMost / 2}, {0, 1, 9}, {kFirst, 0, 8}}).arena_bytes,
      kMost / 2 + 9);
}

// Seconds for one call; the bounds are loose, a quadratic method would take
// minutes.
double Seconds(const std::vector<Buffer>& buffers) {
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<OffsetPlan> plan = PackFirstFit(buffers);
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  EXPECT_THAT(plan, IsOk());
  if (!plan.ok()) return 1e9;
  EXPECT_THAT(ValidateOffsets(buffers, *plan), IsOk());
  const int64_t bound = *LowerBound(buffers);
  EXPECT_GE(plan->arena_bytes, bound);
  std::cout << buffers.size() << " buffers: " << plan->arena_bytes
            << " bytes, bound " << bound << ", " << seconds.count() << " s\n";
  ::testing::Test::RecordProperty("seconds", std::to_string(seconds.count()));
  return seconds.count();
}

TEST(PackFirstFitScaleTest, ShortLives) {
  std::mt19937 random(1);
  EXPECT_LT(Seconds(RandomBuffers(random, 100'000, 100'000, 20, 1 << 20)), 60);
}

TEST(PackFirstFitScaleTest, ThousandsLiveThroughout) {
  std::mt19937 random(2);
  std::vector<Buffer> buffers =
      RandomBuffers(random, 100'000, 100'000, 20, 1 << 20);
  for (int i = 0; i < 5000; ++i) buffers.push_back({-60'000, 60'000, 1 << 10});
  EXPECT_LT(Seconds(buffers), 60);
}

TEST(PackFirstFitScaleTest, ThousandsLiveNearlyThroughout) {
  std::mt19937 random(3);
  std::vector<Buffer> buffers =
      RandomBuffers(random, 100'000, 100'000, 20, 1 << 20);
  for (int i = 0; i < 5000; ++i) {
    buffers.push_back({-50'000 + i, 50'000 - i, 1 << 10});
  }
  EXPECT_LT(Seconds(buffers), 60);
}

TEST(PackFirstFitScaleTest, AllLiveTogether) {
  std::mt19937 random(4);
  EXPECT_LT(Seconds(RandomBuffers(random, 100'000, 10, 1000, 1 << 20)), 60);
}

TEST(ValidateOffsetsTest, FindsEveryKindOfError) {
  const std::vector<Buffer> buffers = {{0, 2, 64}, {1, 3, 32}, {2, 4, 64}};
  EXPECT_THAT(ValidateOffsets(buffers, {{0, 64, 0}, 96}), IsOk());
  EXPECT_THAT(ValidateOffsets(buffers, {{0, 64, 0}, 200}), IsOk());
  EXPECT_THAT(ValidateOffsets(buffers, {{0, 64}, 96}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("2 offsets for 3")));
  EXPECT_THAT(ValidateOffsets(buffers, {{0, 63, 0}, 96}),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("live together at step 1")));
  EXPECT_THAT(ValidateOffsets(buffers, {{32, 0, 31}, 96}),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("live together at step 2")));
  EXPECT_THAT(
      ValidateOffsets(buffers, {{0, -1, 64}, 200}),
      StatusIs(absl::StatusCode::kInternal, HasSubstr("negative offset: -1")));
  EXPECT_THAT(ValidateOffsets(buffers, {{0, 64, 0}, 95}),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("beyond the arena of 95")));
  EXPECT_THAT(ValidateOffsets(buffers, {{0, kMost, 0}, kMost}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("beyond")));
  EXPECT_THAT(
      ValidateOffsets(buffers, {{0, 64, 0}, -1}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("negative size")));
  EXPECT_THAT(ValidateOffsets({{1, 1, 4}}, {{0}, 4}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("empty lifetime")));
}

TEST(ValidateOffsetsTest, AgreesWithComparingAllPairs) {
  std::mt19937 random(9);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::vector<Buffer> buffers = RandomBuffers(random, 4, 6, 3, 8);
    OffsetPlan plan;
    plan.arena_bytes = 24;
    for (size_t i = 0; i < buffers.size(); ++i) {
      plan.offset_bytes.push_back(static_cast<int64_t>(random() % 16));
    }
    bool disjoint = true;
    for (size_t a = 0; a < buffers.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const bool together = buffers[a].begin < buffers[b].end &&
                              buffers[b].begin < buffers[a].end;
        const bool overlap =
            plan.offset_bytes[a] <
                plan.offset_bytes[b] + buffers[b].size_bytes &&
            plan.offset_bytes[b] < plan.offset_bytes[a] + buffers[a].size_bytes;
        if (together && overlap && buffers[a].size_bytes > 0 &&
            buffers[b].size_bytes > 0) {
          disjoint = false;
        }
      }
    }
    EXPECT_EQ(ValidateOffsets(buffers, plan).ok(), disjoint);
    accepted += disjoint ? 1 : 0;
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 2900);
}

}  // namespace
}  // namespace onnx_memopt::plan
