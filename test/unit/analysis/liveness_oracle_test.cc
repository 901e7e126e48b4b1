// Liveness, MemoryProfile and Packing against the naive oracle, on random
// graphs with subgraphs, calls, views, in-place ops and unknown sizes.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/packing.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/timeline.h"
#include "support/random_graph.h"
#include "unit/analysis/naive_oracle.h"

namespace onnx_memopt::analysis {
namespace {

using ::onnx_memopt::testing::RandomGraph;
using ::onnx_memopt::testing::RandomGraphOptions;
using ::onnx_memopt::testing::Runs;
using testing::NaiveOracle;

// What the graphs of a run had, so that a test can say that it saw each kind.
struct Seen {
  int nested_blocks = 0;
  int shared_storages = 0;
  int incomplete = 0;
  int64_t largest_peak = 0;
};

void Compare(const ir::Graph& graph, Seen* seen) {
  AnalysisManager analyses(&graph);
  const Sizes& sizes = **analyses.Get<Sizes>();
  const Liveness& liveness = **analyses.Get<Liveness>();
  const MemoryProfile& profile = **analyses.Get<MemoryProfile>();
  const NaiveOracle oracle(graph, sizes);

  std::map<size_t, StorageId> same;
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const ir::ValueId value{static_cast<uint32_t>(i)};
    const auto expected = oracle.storage_of.find(value);
    const StorageId id = liveness.storage_of(value);
    if (expected == oracle.storage_of.end()) {
      EXPECT_EQ(id, kNoStorage) << graph.value(value).name;
      continue;
    }
    ASSERT_NE(id, kNoStorage) << graph.value(value).name;
    const auto& wanted = oracle.storages[expected->second];
    const Storage& storage = liveness.storage(id);
    EXPECT_EQ(same.try_emplace(expected->second, id).first->second, id);
    EXPECT_EQ(storage.kind, wanted.kind) << graph.value(value).name;
    EXPECT_EQ(storage.block, wanted.block) << graph.value(value).name;
    EXPECT_EQ(storage.size_bytes, wanted.size_bytes);
    const auto& range = oracle.ranges.at(value);
    EXPECT_EQ(liveness.range(value).begin, range.begin)
        << graph.value(value).name;
    EXPECT_EQ(liveness.range(value).end, range.end) << graph.value(value).name;
  }
  EXPECT_EQ(liveness.storages().size(), oracle.storages.size());

  EXPECT_EQ(profile.complete(), oracle.complete);
  for (const auto& [block, live] : oracle.live_bytes) {
    EXPECT_EQ(profile.block(block).live_bytes, live) << ir::Index(block);
    EXPECT_EQ(profile.block(block).peak_bytes, oracle.peaks.at(block));
  }
  const auto& main = oracle.live_bytes.at(ir::kMainBlock);
  const auto highest = std::max_element(main.begin(), main.end());
  EXPECT_EQ(profile.main().peak_step,
            profile.main().peak_bytes == 0 ? -1 : highest - main.begin());

  const Packing& packing = **analyses.Get<Packing>();
  EXPECT_GE(packing.arena_bytes(), profile.main().peak_bytes);

  seen->nested_blocks += static_cast<int>(oracle.live_bytes.size()) - 1;
  seen->incomplete += oracle.complete ? 0 : 1;
  seen->largest_peak = std::max(seen->largest_peak, profile.main().peak_bytes);
  for (const auto& storage : oracle.storages) {
    seen->shared_storages += storage.values.size() > 1 ? 1 : 0;
  }
}

Seen CompareMany(int count, uint64_t first, const RandomGraphOptions& options) {
  Seen seen;
  for (int i = 0; i < Runs(count); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    Compare(RandomGraph(seed, options), &seen);
    if (::testing::Test::HasFailure()) break;
  }
  EXPECT_GT(seen.shared_storages, Runs(count) / 2);
  EXPECT_GT(seen.largest_peak, 64);
  return seen;
}

TEST(LivenessOracleTest, FlatGraphs) {
  CompareMany(4000, 1, {.max_nodes = 14});
}

TEST(LivenessOracleTest, Subgraphs) {
  const Seen seen = CompareMany(3000, 10'000, {.max_nodes = 8, .max_depth = 3});
  EXPECT_GT(seen.nested_blocks, Runs(3000));
}

TEST(LivenessOracleTest, Calls) {
  CompareMany(2000, 20'000, {.max_nodes = 8, .calls = true});
}

TEST(LivenessOracleTest, NamedDims) {
  CompareMany(1000, 30'000, {.max_nodes = 10, .named_dims = true});
}

TEST(LivenessOracleTest, Everything) {
  const Seen seen = CompareMany(3000, 40'000,
                                {.max_nodes = 8,
                                 .max_depth = 2,
                                 .calls = true,
                                 .unknown_sizes = true,
                                 .named_dims = true});
  EXPECT_GT(seen.nested_blocks, Runs(1000));
  EXPECT_GT(seen.incomplete, Runs(100));
}

}  // namespace
}  // namespace onnx_memopt::analysis
