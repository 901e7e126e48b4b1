// reorder for ONNX Runtime against brute force: every order that a file can
// have, with the runtime model as the judge.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/pass/pipeline.h"
#include "onnx_memopt/rewrite/order_search.h"
#include "onnx_memopt/rewrite/prediction.h"
#include "registry.h"
#include "support/every_order.h"
#include "support/random_graph.h"
#include "support/status_matchers.h"

namespace onnx_memopt::passes {
namespace {

using analysis::RuntimePrediction;
using ir::Graph;
using ::onnx_memopt::testing::EveryOrder;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::RandomGraph;
using ::onnx_memopt::testing::RandomGraphOptions;
using ::onnx_memopt::testing::Runs;

int64_t BareBytes(const Graph& graph) {
  analysis::AnalysisManager analyses(&graph);
  const auto peak = PredictBarePeak(graph, analyses, rewrite::RewriteOptions());
  EXPECT_THAT(peak, IsOk());
  return *peak;
}

RuntimePrediction Predict(const Graph& graph) {
  const auto prediction = rewrite::PredictForRewrite(graph);
  EXPECT_THAT(prediction, IsOk());
  return *prediction;
}

bool IsAbove(const RuntimePrediction& a, const RuntimePrediction& b) {
  return a.peak_first_bytes > b.peak_first_bytes ||
         a.peak_steady_bytes > b.peak_steady_bytes;
}

bool Reorder(Graph* graph) {
  const auto pipeline = pass::ParsePipeline("reorder", RegisteredPasses());
  EXPECT_THAT(pipeline, IsOk());
  const auto runs = RunPipeline(*pipeline, *graph, {});
  EXPECT_THAT(runs, IsOk());
  return runs->front().changed;
}

struct Outcome {
  int compared = 0;
  int improved = 0;
};

Outcome CompareMany(int count, uint64_t first, int max_orders,
                    const RandomGraphOptions& options) {
  Outcome outcome;
  for (int i = 0; i < Runs(count); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    Graph graph = RandomGraph(seed, options);
    const std::string text = ToString(graph);
    const int64_t before = BareBytes(graph);
    const RuntimePrediction present = Predict(graph);
    const std::optional<int64_t> lowest =
        EveryOrder(&graph, ir::kMainBlock, max_orders)
            .Lowest([&](const Graph& g) {
              const int64_t peak = BareBytes(g);
              return peak < before && IsAbove(Predict(g), present)
                         ? std::numeric_limits<int64_t>::max()
                         : peak;
            });
    if (!lowest) continue;
    Reorder(&graph);
    EXPECT_EQ(BareBytes(graph), *lowest) << text << ToString(graph);
    EXPECT_FALSE(IsAbove(Predict(graph), present)) << text;
    ++outcome.compared;
    outcome.improved += *lowest < before ? 1 : 0;
    if (::testing::Test::HasFailure()) break;
  }
  return outcome;
}

// Shares of many graphs; of the few of a sanitizer build they say nothing.
constexpr bool kMany = Runs(100) == 100;

TEST(ReorderRuntimeTest, BestOfAllFilesOfUpToSevenNodes) {
  const Outcome outcome =
      CompareMany(1000, 700'000, 6000, {.min_nodes = 3, .max_nodes = 7});
  EXPECT_GT(outcome.compared, 0);
  if (!kMany) return;
  EXPECT_GT(outcome.compared, 800);
  EXPECT_GT(outcome.improved, 100);
}

TEST(ReorderRuntimeTest, BestOfAllFilesOfNineNodes) {
  const Outcome outcome =
      CompareMany(100, 710'000, 1500, {.min_nodes = 8, .max_nodes = 9});
  EXPECT_GT(outcome.compared, 0);
  if (!kMany) return;
  EXPECT_GT(outcome.compared, 40);
  EXPECT_GT(outcome.improved, 8);
}

// With subgraphs and calls the search may miss the best, but what the runtime
// takes never grows, and doing it twice changes nothing more.
TEST(ReorderRuntimeTest, NeverRaisesWhatTheRuntimeTakes) {
  int changed = 0;
  int lower = 0;
  for (int i = 0; i < Runs(1000); ++i) {
    const uint64_t seed = 720'000 + static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    Graph graph = RandomGraph(
        seed, {.max_nodes = 16, .max_depth = i % 3, .calls = i % 2 == 0});
    const RuntimePrediction before = Predict(graph);
    const int64_t bare = BareBytes(graph);
    changed += Reorder(&graph) ? 1 : 0;
    EXPECT_FALSE(IsAbove(Predict(graph), before));
    EXPECT_LE(BareBytes(graph), bare);
    lower += BareBytes(graph) < bare ? 1 : 0;
    if (HasFailure()) break;
  }
  EXPECT_GT(changed, Runs(200));
  EXPECT_GT(lower, Runs(50));
}

// Where the search does not try all orders, it still finds most of what there
// is.
TEST(ReorderRuntimeTest, StepByStepSearchIsCloseToAllOrders) {
  int64_t present = 0;
  int64_t best = 0;
  int64_t found = 0;
  int equal = 0;
  int compared = 0;
  for (int i = 0; i < Runs(150); ++i) {
    const Graph graph = RandomGraph(730'000 + static_cast<uint64_t>(i),
                                    {.min_nodes = 10, .max_nodes = 18});
    analysis::AnalysisManager analyses(&graph);
    const analysis::RuntimeOptions options = rewrite::RewriteOptions();
    const auto block =
        BuildRuntimeBlock(graph, analyses, ir::kMainBlock, options);
    ASSERT_THAT(block, IsOk());
    const std::vector<ir::NodeId>& nodes = graph.block(ir::kMainBlock).nodes;
    std::vector<std::vector<int32_t>> after(nodes.size());
    std::vector<int32_t> file(nodes.size());
    for (size_t n = 0; n < nodes.size(); ++n) {
      file[n] = static_cast<int32_t>(n);
      for (const ir::ValueId operand : graph.node(nodes[n]).operands) {
        for (size_t m = 0; m < n; ++m) {
          for (const ir::ValueId result : graph.node(nodes[m]).results) {
            if (operand == result && operand != ir::kNoValue &&
                (after[n].empty() || after[n].back() != file[m])) {
              after[n].push_back(file[m]);
            }
          }
        }
      }
    }
    for (auto& before : after) {
      std::sort(before.begin(), before.end());
      before.erase(std::unique(before.begin(), before.end()), before.end());
    }
    const rewrite::FileOrders orders(graph, *block, nodes, after);
    const auto all = FindFileOrder(orders, {file}, options, {});
    if (!all.optimal) continue;
    const auto some = FindFileOrder(orders, {file}, options, {.max_orders = 0});
    EXPECT_GE(some.bare_bytes, all.bare_bytes);
    present += BareBytes(graph);
    best += all.bare_bytes;
    found += some.bare_bytes;
    ++compared;
    equal += some.bare_bytes == all.bare_bytes ? 1 : 0;
  }
  EXPECT_GT(compared, 0);
  if (!kMany) return;
  EXPECT_GT(compared, 60);
  EXPECT_GT(equal, compared * 7 / 10);
  EXPECT_GT(present - found, (present - best) * 8 / 10);
  EXPECT_LT(best, present);
}

}  // namespace
}  // namespace onnx_memopt::passes
