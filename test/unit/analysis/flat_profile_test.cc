// FlatProfile against the profile of each graph, on random graphs.

#include "onnx_memopt/analysis/flat_profile.h"

#include <algorithm>
#include <cstdint>

#include "gtest/gtest.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/packing.h"
#include "onnx_memopt/analysis/timeline.h"
#include "support/random_graph.h"

namespace onnx_memopt::analysis {
namespace {

using ::onnx_memopt::testing::RandomGraph;
using ::onnx_memopt::testing::Runs;

int64_t Peak(const FlatProfile& flat) {
  int64_t peak = 0;
  for (const FlatStep& step : flat.steps()) {
    peak = std::max(peak, step.live_bytes);
  }
  return peak;
}

// By brute force: what lives at each step, and that nothing overlaps.
void Check(const FlatProfile& flat) {
  for (size_t i = 0; i < flat.steps().size(); ++i) {
    int64_t live = 0;
    for (const FlatBuffer& buffer : flat.buffers()) {
      if (static_cast<size_t>(buffer.range.begin) <= i &&
          i < static_cast<size_t>(buffer.range.end)) {
        live += buffer.size_bytes;
      }
    }
    EXPECT_EQ(flat.steps()[i].live_bytes, live);
  }
  for (const FlatBuffer& a : flat.buffers()) {
    EXPECT_LT(a.range.begin, a.range.end);
    EXPECT_LE(a.offset_bytes + a.size_bytes, flat.arena_bytes());
    for (const FlatBuffer& b : flat.buffers()) {
      const bool together =
          a.range.begin < b.range.end && b.range.begin < a.range.end;
      if (&a == &b || !together || a.size_bytes == 0 || b.size_bytes == 0) {
        continue;
      }
      EXPECT_TRUE(a.offset_bytes + a.size_bytes <= b.offset_bytes ||
                  b.offset_bytes + b.size_bytes <= a.offset_bytes);
    }
  }
}

TEST(FlatProfileTest, WithoutSubgraphsItIsTheProfileAndThePacking) {
  for (uint64_t seed = 1; seed <= uint64_t{500}; ++seed) {
    SCOPED_TRACE(seed);
    const ir::Graph graph = RandomGraph(seed, {.max_nodes = 14, .calls = true});
    AnalysisManager analyses(&graph);
    const FlatProfile& flat = **analyses.Get<FlatProfile>();
    const MemoryProfile& profile = **analyses.Get<MemoryProfile>();
    const Packing& packing = **analyses.Get<Packing>();
    ASSERT_EQ(flat.steps().size(), profile.main().live_bytes.size());
    for (size_t i = 0; i < flat.steps().size(); ++i) {
      EXPECT_EQ(flat.steps()[i].live_bytes, profile.main().live_bytes[i]);
    }
    EXPECT_EQ(flat.arena_bytes(), packing.arena_bytes());
    for (const FlatBuffer& buffer : flat.buffers()) {
      EXPECT_EQ(buffer.offset_bytes, packing.offset_bytes(buffer.storage));
    }
    Check(flat);
    if (HasFailure()) break;
  }
}

TEST(FlatProfileTest, WithSubgraphsItHasThePeak) {
  int nested = 0;
  int equal = 0;
  const int runs = Runs(800);
  for (int i = 0; i < runs; ++i) {
    const uint64_t seed = 5000 + static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    const ir::Graph graph = RandomGraph(seed, {.max_nodes = 8, .max_depth = 3});
    AnalysisManager analyses(&graph);
    const FlatProfile& flat = **analyses.Get<FlatProfile>();
    const MemoryProfile& profile = **analyses.Get<MemoryProfile>();
    const Timeline& timeline = **analyses.Get<Timeline>();
    EXPECT_GE(Peak(flat), profile.main().peak_bytes);
    equal += Peak(flat) == profile.main().peak_bytes ? 1 : 0;
    nested += flat.steps().size() > timeline.steps(ir::kMainBlock).size();
    Check(flat);
    if (HasFailure()) break;
  }
  EXPECT_GT(nested, runs / 3);
  // The others return what is not their own.
  EXPECT_GT(equal, runs / 2);
}

}  // namespace
}  // namespace onnx_memopt::analysis
