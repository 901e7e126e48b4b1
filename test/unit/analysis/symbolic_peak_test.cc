// The peak as formulas in named dims, evaluated, against the profile in
// numbers.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/sizes.h"
#include "support/random_graph.h"

namespace onnx_memopt::analysis {
namespace {

using ::onnx_memopt::testing::Random;
using ::onnx_memopt::testing::RandomGraph;
using ::onnx_memopt::testing::Runs;

// Which values share storages.
std::vector<StorageId> Sharing(const ir::Graph& graph) {
  AnalysisManager analyses(&graph);
  const Liveness& liveness = **analyses.Get<Liveness>();
  std::vector<StorageId> ids;
  for (size_t i = 0; i < graph.num_values(); ++i) {
    ids.push_back(liveness.storage_of(ir::ValueId(static_cast<uint32_t>(i))));
  }
  return ids;
}

TEST(SymbolicPeakTest, IsTheProfileForAnySizes) {
  Random random(7);
  int compared = 0;
  int with_names = 0;
  for (int seed = 0; seed < Runs(2000); ++seed) {
    SCOPED_TRACE(seed);
    ir::Graph graph =
        RandomGraph(static_cast<uint64_t>(seed),
                    {.max_nodes = 14, .calls = true, .named_dims = true});
    const std::vector<StorageId> sharing = Sharing(graph);
    AnalysisManager analyses(&graph);
    const std::vector<ir::Dim> all =
        *SymbolicPeak(graph, analyses, /*max_terms=*/1000);
    const std::vector<ir::Dim> one =
        *SymbolicPeak(graph, analyses, /*max_terms=*/1);
    ASSERT_LE(one.size(), 1u);
    for (int i = 0; i < 5; ++i) {
      for (const std::string& name : graph.symbols) {
        graph.assumed[name] = 1 + random.Below(20);
      }
      // Other sizes may be overwritten in place.
      if (Sharing(graph) != sharing) continue;
      AnalysisManager bound(&graph);
      const int64_t peak = (*bound.Get<MemoryProfile>())->main().peak_bytes;
      int64_t largest = 0;
      for (const ir::Dim& term : all) {
        const auto bytes = term.Evaluate(AssumedBindings(graph));
        ASSERT_TRUE(bytes.has_value());
        largest = std::max(largest, *bytes);
      }
      EXPECT_EQ(largest, peak);
      if (!one.empty()) {
        EXPECT_LE(*one[0].Evaluate(AssumedBindings(graph)), peak);
      }
      ++compared;
      with_names += graph.symbols.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(compared, Runs(5000));
  EXPECT_GT(with_names, Runs(3000));
}

TEST(SymbolicPeakTest, HasNoTermTwice) {
  for (int seed = 0; seed < Runs(500); ++seed) {
    const ir::Graph graph = RandomGraph(static_cast<uint64_t>(seed),
                                        {.max_nodes = 14, .named_dims = true});
    AnalysisManager analyses(&graph);
    const std::vector<ir::Dim> terms = *SymbolicPeak(graph, analyses);
    for (size_t i = 0; i < terms.size(); ++i) {
      for (size_t j = 0; j < terms.size(); ++j) {
        if (i == j) continue;
        const auto difference = Sub(terms[i], terms[j]);
        EXPECT_FALSE(difference && KnownAtLeast(*difference, 0))
            << terms[i].ToString() << " covers " << terms[j].ToString();
      }
    }
  }
}

TEST(SymbolicPeakTest, IsEmptyWhereASizeIsUnknown) {
  int empty = 0;
  for (int seed = 0; seed < Runs(500); ++seed) {
    const ir::Graph graph = RandomGraph(
        static_cast<uint64_t>(seed), {.max_nodes = 10, .unknown_sizes = true});
    AnalysisManager analyses(&graph);
    if ((*analyses.Get<MemoryProfile>())->complete()) continue;
    EXPECT_TRUE(SymbolicPeak(graph, analyses)->empty());
    ++empty;
  }
  EXPECT_GT(empty, Runs(40));
}

}  // namespace
}  // namespace onnx_memopt::analysis
