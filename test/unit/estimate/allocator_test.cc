#include "onnx_memopt/estimate/allocator.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace onnx_memopt::estimate {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Positive: allocate the block of that size; negative: free the block with that
// number, counted from 1.
StepTrace Trace(const std::vector<int64_t>& calls) {
  StepTrace trace;
  for (const int64_t call : calls) {
    if (call < 0) {
      trace.events.push_back(
          {.block = static_cast<int32_t>(-call - 1), .allocate = false});
      continue;
    }
    trace.events.push_back(
        {.block = static_cast<int32_t>(trace.blocks.size()), .allocate = true});
    trace.blocks.push_back({.bytes = call});
  }
  trace.points.push_back(
      {.end_event = static_cast<int32_t>(trace.events.size())});
  return trace;
}

TEST(CachingAllocator, RoundsTo512BytesFromASegmentOf2MiB) {
  const AllocatorResult r = SimulateCaching(Trace({1, 513}), 1);
  EXPECT_EQ(r.peak_requested_bytes, 514);
  EXPECT_EQ(r.peak_allocated_bytes, 512 + 1024);
  EXPECT_EQ(r.peak_reserved_bytes, 2 * kMiB);
}

TEST(CachingAllocator, MiddleSizesComeFromSegmentsOf20MiB) {
  // 3 x 6 MiB fit one segment; the fourth needs another.
  EXPECT_EQ(SimulateCaching(Trace({6 * kMiB, 6 * kMiB, 6 * kMiB}), 1)
                .peak_reserved_bytes,
            20 * kMiB);
  EXPECT_EQ(SimulateCaching(Trace({6 * kMiB, 6 * kMiB, 6 * kMiB, 6 * kMiB}), 1)
                .peak_reserved_bytes,
            40 * kMiB);
}

TEST(CachingAllocator, LargeSizesHaveTheirOwnSegments) {
  const AllocatorResult r = SimulateCaching(Trace({11 * kMiB}), 1);
  EXPECT_EQ(r.peak_reserved_bytes, 12 * kMiB);
  // The remainder of 1 MiB is too small to be split off.
  EXPECT_EQ(r.peak_allocated_bytes, 12 * kMiB);
}

TEST(CachingAllocator, FreedNeighboursMergeAndAreUsedAgain) {
  // 5 + 5 MiB of one segment, freed, take 10 MiB - 1 again.
  const AllocatorResult r = SimulateCaching(
      Trace({5 * kMiB, 5 * kMiB, 5 * kMiB, -1, -2, 10 * kMiB - 1}), 1);
  EXPECT_EQ(r.peak_reserved_bytes, 20 * kMiB);
}

TEST(CachingAllocator, PiecesBetweenBlocksInUseAreLost) {
  // Two free pieces of 6 MiB with a block between them do not take 9 MiB.
  const AllocatorResult r = SimulateCaching(
      Trace({6 * kMiB, 6 * kMiB, 6 * kMiB, -1, -3, 9 * kMiB}), 1);
  EXPECT_EQ(r.peak_reserved_bytes, 40 * kMiB);
  EXPECT_EQ(r.segments, 2);
}

TEST(CachingAllocator, ASecondStepNeedsNoMore) {
  const StepTrace trace = Trace({30 * kMiB, 4 * kMiB, -2, -1});
  EXPECT_EQ(SimulateCaching(trace, 1).peak_reserved_bytes,
            SimulateCaching(trace, 5).peak_reserved_bytes);
}

TEST(CachingAllocator, SaysWhatEmptyCacheWouldGiveBack) {
  // A segment of its own that is free, and one of 20 MiB that is half in use.
  const AllocatorResult r =
      SimulateCaching(Trace({30 * kMiB, 6 * kMiB, 6 * kMiB, -1, -2}), 1);
  EXPECT_EQ(r.peak_reserved_bytes, 50 * kMiB);
  EXPECT_EQ(r.idle_bytes, 30 * kMiB);
}

TEST(ExpandableAllocator, OneSegmentTakesWhatPiecesCouldNot) {
  // The free piece at the end grows: nothing is lost between segments.
  const StepTrace trace =
      Trace({15 * kMiB, 30 * kMiB, -2, 60 * kMiB, 512, 1024});
  const AllocatorResult r = SimulateExpandable(trace, 1);
  EXPECT_EQ(r.peak_reserved_bytes, (80 + 2) * kMiB);
  EXPECT_EQ(r.segments, 2);
  EXPECT_EQ(SimulateCaching(trace, 1).peak_reserved_bytes,
            (16 + 30 + 60 + 2) * kMiB);
}

TEST(BfcAllocator, RegionsDouble) {
  // 2 MiB, then 4, then what 9 MiB need: 16.
  const AllocatorResult r =
      SimulateBfc(Trace({2 * kMiB, 3 * kMiB, 9 * kMiB}), 1);
  EXPECT_EQ(r.peak_reserved_bytes, (2 + 4 + 16) * kMiB);
  EXPECT_EQ(SimulateBfc(Trace({1}), 1).peak_allocated_bytes, 256);
}

}  // namespace
}  // namespace onnx_memopt::estimate
