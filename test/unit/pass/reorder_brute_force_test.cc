// reorder{target=ideal} against brute force: every topological order of the
// main graph, with MemoryProfile as the judge and not the planner's own model.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "onnx_memopt/pass/pipeline.h"
#include "registry.h"
#include "support/every_order.h"
#include "support/random_graph.h"
#include "support/status_matchers.h"

namespace onnx_memopt::passes {
namespace {

using ir::BlockId;
using ir::Graph;
using ir::NodeId;
using ::onnx_memopt::testing::EveryOrder;
using ::onnx_memopt::testing::ImportOrThrow;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::Random;
using ::onnx_memopt::testing::RandomGraph;
using ::onnx_memopt::testing::RandomGraphOptions;
using ::onnx_memopt::testing::Runs;

int64_t Peak(const Graph& graph, BlockId block) {
  analysis::AnalysisManager analyses(&graph);
  const auto profile = analyses.Get<analysis::MemoryProfile>();
  EXPECT_THAT(profile, IsOk());
  return (*profile)->block(block).peak_bytes;
}

std::optional<int64_t> LowestPeak(Graph* graph, BlockId block, int max_orders) {
  return EveryOrder(graph, block, max_orders).Lowest([&](const Graph& g) {
    return Peak(g, block);
  });
}

struct Outcome {
  int compared = 0;
  int improved = 0;
  int same = 0;
};

void Reorder(Graph* graph) {
  const auto pipeline =
      pass::ParsePipeline("reorder{target=ideal}", RegisteredPasses());
  ASSERT_THAT(pipeline, IsOk());
  ASSERT_THAT(RunPipeline(*pipeline, *graph, {}), IsOk());
}

void Compare(Graph graph, int max_orders, Outcome* outcome) {
  const int64_t before = Peak(graph, ir::kMainBlock);
  Reorder(&graph);
  const int64_t after = Peak(graph, ir::kMainBlock);
  EXPECT_LE(after, before);
  // Subgraphs are in their final order now; only the main graph is moved.
  const std::string text = ToString(graph);
  const std::optional<int64_t> lowest =
      LowestPeak(&graph, ir::kMainBlock, max_orders);
  if (!lowest) return;
  EXPECT_EQ(after, *lowest) << text;
  ++outcome->compared;
  ++(after < before ? outcome->improved : outcome->same);
}

onnx::ModelProto StartFamilyModel() {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(18);
  onnx::GraphProto* graph = model.mutable_graph();
  graph->set_name("family");
  auto* input = graph->add_input();
  input->set_name("v0");
  auto* type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_value(2);
  return model;
}

// Node i makes v<i> from v<parent>; its op, of four kinds, follows from both:
// in place, a view, twice as large, or a single element. The last value is the
// output, and so is the one in the middle in every third graph.
onnx::ModelProto FamilyModel(const std::vector<int>& parents, int variant) {
  onnx::ModelProto model = StartFamilyModel();
  onnx::GraphProto* graph = model.mutable_graph();
  for (size_t i = 0; i < parents.size(); ++i) {
    auto* node = graph->add_node();
    const std::string operand = absl::StrCat("v", parents[i]);
    node->add_input(operand);
    node->add_output(absl::StrCat("v", i + 1));
    switch ((static_cast<int>(i) * 5 + parents[i] * 3 + variant) % 4) {
      case 0:
        node->set_op_type("Relu");
        break;
      case 1:
        node->set_op_type("Identity");
        break;
      case 2: {
        node->set_op_type("Concat");
        node->add_input(operand);
        auto* axis = node->add_attribute();
        axis->set_name("axis");
        axis->set_type(onnx::AttributeProto::INT);
        axis->set_i(0);
        break;
      }
      default:
        node->set_op_type("ReduceMax");
    }
  }
  // A join of the leaves would be another node; that some values are read by
  // nobody is part of the family.
  graph->add_output()->set_name(absl::StrCat("v", parents.size()));
  if (variant % 3 == 0 && parents.size() > 2) {
    graph->add_output()->set_name(absl::StrCat("v", parents.size() / 2));
  }
  return model;
}

// All trees of up to seven nodes: node i reads one of the i values before it.
void EnumerateFamily(size_t size, std::vector<int>* parents, int variant,
                     Outcome* outcome) {
  if (parents->size() == size) {
    Compare(ImportOrThrow(FamilyModel(*parents, variant)), 100'000, outcome);
    return;
  }
  const int choices = static_cast<int>(parents->size()) + 1;
  for (int parent = 0; parent < choices; ++parent) {
    if (::testing::Test::HasFailure()) return;
    parents->push_back(parent);
    EnumerateFamily(size, parents, variant, outcome);
    parents->pop_back();
  }
}

TEST(ReorderBruteForceTest, AllTreesOfUpToSevenNodes) {
  const size_t largest = Runs(100) == 100 ? 7 : 5;
  Outcome outcome;
  for (size_t size = 1; size <= largest; ++size) {
    std::vector<int> parents;
    EnumerateFamily(size, &parents, static_cast<int>(size), &outcome);
    if (size == 7) continue;
    for (int variant = 0; variant < 4; ++variant) {
      EnumerateFamily(size, &parents, variant, &outcome);
    }
  }
  EXPECT_GT(outcome.compared, largest == 7 ? 8000 : 600);
  EXPECT_GT(outcome.improved, outcome.compared / 20);
  EXPECT_GT(outcome.same, outcome.compared / 20);
}

Outcome CompareMany(int count, uint64_t first, int max_orders,
                    const RandomGraphOptions& options) {
  Outcome outcome;
  for (int i = 0; i < Runs(count); ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    Compare(RandomGraph(seed, options), max_orders, &outcome);
    if (::testing::Test::HasFailure()) break;
  }
  return outcome;
}

TEST(ReorderBruteForceTest, RandomGraphsOfUpToSevenNodes) {
  const Outcome outcome =
      CompareMany(3000, 100'000, 6000, {.min_nodes = 3, .max_nodes = 7});
  EXPECT_GT(outcome.compared, Runs(2500));
  EXPECT_GT(outcome.improved, Runs(100));
}

TEST(ReorderBruteForceTest, RandomGraphsOfNineNodes) {
  const Outcome outcome =
      CompareMany(1500, 200'000, 2000, {.min_nodes = 8, .max_nodes = 9});
  EXPECT_GT(outcome.compared, Runs(700));
  EXPECT_GT(outcome.improved, Runs(100));
}

TEST(ReorderBruteForceTest, RandomGraphsWithSubgraphs) {
  const Outcome outcome = CompareMany(
      1500, 300'000, 1000, {.min_nodes = 3, .max_nodes = 7, .max_depth = 2});
  EXPECT_GT(outcome.compared, Runs(1000));
  EXPECT_GT(outcome.improved, Runs(50));
}

// Subgraphs are reordered by themselves, the inner ones first.
TEST(ReorderBruteForceTest, SubgraphsAreOptimalToo) {
  int compared = 0;
  int improved = 0;
  for (int i = 0; i < Runs(1500); ++i) {
    const uint64_t seed = 350'000 + static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    Graph graph = RandomGraph(seed, {.max_nodes = 5, .max_depth = 2});
    std::vector<int64_t> before(graph.num_blocks());
    for (size_t b = 1; b < graph.num_blocks(); ++b) {
      before[b] = Peak(graph, BlockId(static_cast<uint32_t>(b)));
    }
    Reorder(&graph);
    for (size_t b = 1; b < graph.num_blocks(); ++b) {
      const BlockId block{static_cast<uint32_t>(b)};
      const int64_t after = Peak(graph, block);
      EXPECT_LE(after, before[b]);
      const auto lowest = LowestPeak(&graph, block, 500);
      if (!lowest || graph.block(block).nodes.size() < 2) continue;
      EXPECT_EQ(after, *lowest) << ToString(graph);
      ++compared;
      improved += after < before[b] ? 1 : 0;
    }
    if (HasFailure()) break;
  }
  EXPECT_GT(compared, Runs(1000));
  EXPECT_GT(improved, Runs(20));
}

// The planner is told of a call's body as a whole, so it may miss what moving a
// call would bring, but it never makes the peak higher.
TEST(ReorderBruteForceTest, CallsNeverRaiseThePeak) {
  int optimal = 0;
  int compared = 0;
  for (int i = 0; i < Runs(1500); ++i) {
    Graph graph = RandomGraph(400'000 + static_cast<uint64_t>(i),
                              {.min_nodes = 3, .max_nodes = 7, .calls = true});
    const int64_t before = Peak(graph, ir::kMainBlock);
    Reorder(&graph);
    const int64_t after = Peak(graph, ir::kMainBlock);
    EXPECT_LE(after, before);
    const auto lowest = LowestPeak(&graph, ir::kMainBlock, 1000);
    if (!lowest) continue;
    EXPECT_GE(after, *lowest);
    ++compared;
    optimal += after == *lowest ? 1 : 0;
  }
  EXPECT_GT(compared, Runs(1000));
  EXPECT_GT(optimal, compared * 9 / 10);
}

}  // namespace
}  // namespace onnx_memopt::passes
