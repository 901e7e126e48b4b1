#include "onnx_memopt/support/best_fit_arena.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace onnx_memopt {
namespace {

constexpr int64_t kKiB = 1024;

BestFitArena SmallArena() {
  return BestFitArena(
      {.alignment = 256, .first_region = 4 * kKiB, .most_dead = kKiB});
}

TEST(BestFitPool, TakesTheSmallestThatFits) {
  BestFitPool pool;
  pool.AddRegion(0, 1000);
  pool.AddRegion(5000, 600);
  EXPECT_EQ(pool.Take(500, 1), 5000);
  EXPECT_EQ(pool.Take(500, 1), 0);
  EXPECT_EQ(pool.Take(501, 1), -1);
  EXPECT_EQ(pool.Take(500, 1), 500);
}

TEST(BestFitPool, ASmallRemainderStaysWithTheBlock) {
  BestFitPool pool;
  pool.AddRegion(0, 1000);
  EXPECT_EQ(pool.Take(700, 301), 0);
  EXPECT_EQ(pool.size_of(0), 1000);
  EXPECT_EQ(pool.Give(0), 1000);
  EXPECT_EQ(pool.Take(700, 300), 0);
  EXPECT_EQ(pool.size_of(0), 700);
}

TEST(BestFitPool, NeighboursAreOneAgain) {
  BestFitPool pool;
  pool.AddRegion(0, 300);
  for (const int64_t at : {0, 100, 200}) EXPECT_EQ(pool.Take(100, 1), at);
  EXPECT_EQ(pool.Give(0), 100);
  EXPECT_EQ(pool.Give(200), 100);
  EXPECT_EQ(pool.Take(200, 1), -1);
  EXPECT_EQ(pool.FreeBefore(300), 100);
  EXPECT_EQ(pool.FreeBefore(200), 0);
  EXPECT_EQ(pool.Give(100), 100);
  EXPECT_TRUE(pool.IsFree(0, 300));
  EXPECT_EQ(pool.Give(7), 0);
}

TEST(BestFitPool, ARegionThatGrowsIsOneRegion) {
  BestFitPool pool;
  pool.AddRegion(0, 100);
  pool.GrowRegion(100, 50);
  EXPECT_EQ(pool.Take(150, 1), 0);
}

TEST(BestFitArena, RegionsDoubleAndHoldTheRequest) {
  BestFitArena arena = SmallArena();
  arena.Allocate(1);
  EXPECT_EQ(arena.allocated_bytes(), 256);
  EXPECT_EQ(arena.region_bytes(), 4 * kKiB);
  arena.Allocate(4 * kKiB);  // the second: 8
  EXPECT_EQ(arena.region_bytes(), 12 * kKiB);
  arena.Allocate(30 * kKiB);  // 16 would be next, but 32 are needed
  EXPECT_EQ(arena.region_bytes(), 44 * kKiB);
  // A region that a request made larger is not doubled for the next.
  arena.Allocate(32 * kKiB);
  EXPECT_EQ(arena.region_bytes(), 76 * kKiB);
  EXPECT_EQ(arena.regions(), 4);
}

TEST(BestFitArena, RegionsAsLargeAsTheRequest) {
  BestFitArena arena({.alignment = 256, .doubles = false});
  arena.Allocate(1000);
  arena.Allocate(5000);
  EXPECT_EQ(arena.region_bytes(), 1024 + 5120);
}

TEST(BestFitArena, WhatIsFreedIsUsedAgain) {
  BestFitArena arena = SmallArena();
  std::vector<int64_t> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(arena.Allocate(kKiB));
  for (const int64_t block : blocks) arena.Free(block);
  EXPECT_EQ(arena.allocated_bytes(), 0);
  arena.Allocate(4 * kKiB);
  EXPECT_EQ(arena.region_bytes(), 4 * kKiB);
}

TEST(BestFitArena, HugeSizesSaturate) {
  BestFitArena arena = SmallArena();
  for (int i = 0; i < 8; ++i) arena.Allocate(INT64_MAX);
  EXPECT_GT(arena.region_bytes(), 0);
}

}  // namespace
}  // namespace onnx_memopt
