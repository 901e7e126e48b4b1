#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx/defs/parser.h"
#include "onnx_memopt/io/import.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/graph.h"
#include "support/random_graph.h"
#include "support/status_matchers.h"

namespace onnx_memopt::ir {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::Random;
using ::onnx_memopt::testing::RandomGraph;
using ::onnx_memopt::testing::Runs;
using ::onnx_memopt::testing::StatusIs;
using ::testing::HasSubstr;

absl::StatusOr<Graph> ImportText(const std::string& nodes) {
  const std::string text =
      "<ir_version: 9, opset_import: [\"\" : 18]>\n"
      "g (float[4] x, bool c) => (float[4] y) {\n" +
      nodes + "}";
  onnx::ModelProto model;
  onnx::OnnxParser parser(text.c_str());
  const auto parsed = parser.Parse(model);
  EXPECT_TRUE(parsed.IsOK()) << parsed.ErrorMessage();
  const auto loaded = io::FromProto(model, "");
  EXPECT_THAT(loaded, IsOk());
  return io::Import(*loaded, {});
}

std::vector<std::string> Ops(const Graph& graph) {
  std::vector<std::string> ops;
  for (NodeId id : graph.block(kMainBlock).nodes) {
    ops.push_back(graph.node(id).op_type);
  }
  return ops;
}

TEST(TopologicalOrderTest, KeepsWhatIsSortedAndSortsTheRest) {
  const auto sorted = ImportText("a = Exp(x) b = Neg(x) y = Add(a, b)");
  ASSERT_THAT(sorted, IsOk());
  EXPECT_THAT(Ops(*sorted), ::testing::ElementsAre("Exp", "Neg", "Add"));
  EXPECT_TRUE(sorted->warnings.empty());
  const auto unsorted = ImportText("y = Add(a, b) b = Neg(x) a = Exp(x)");
  ASSERT_THAT(unsorted, IsOk());
  EXPECT_THAT(Ops(*unsorted), ::testing::ElementsAre("Neg", "Exp", "Add"));
  EXPECT_THAT(unsorted->warnings,
              ::testing::ElementsAre(
                  "nodes of graph \"g\" were not in topological order"));
}

TEST(TopologicalOrderTest, CapturesAreDependencies) {
  const auto graph = ImportText(
      "y = If (c) <then_branch = t () => (float[4] p) { p = Neg(late) },"
      "            else_branch = e () => (float[4] q) { q = Exp(x) }>"
      "late = Tanh(x)");
  ASSERT_THAT(graph, IsOk());
  EXPECT_THAT(Ops(*graph), ::testing::ElementsAre("Tanh", "If"));
}

TEST(TopologicalOrderTest, NamesANodeAndATensorOfACycle) {
  const struct {
    const char* nodes;
    const char* message;
  } cases[] = {
      {"y = Relu(y)",
       "node \"Relu:y\" (Relu): its output \"y\" depends on "
       "itself; the graph has a cycle"},
      {"before = Exp(x) y = Add(b, before) b = Neg(d) d = Tanh(b)",
       "depends on itself; the graph has a cycle"},
      {"y = If (c) <then_branch = t () => (float[4] p) { p = Neg(z) },"
       "            else_branch = e () => (float[4] q) { q = Exp(x) }>"
       "z = Tanh(y)",
       "depends on itself"},
      // A branch that reads what its own node will give.
      {"y = If (c) <then_branch = t () => (float[4] p) { p = Neg(y) },"
       "            else_branch = e () => (float[4] q) { q = Exp(x) }>",
       "node \"If:y\" (If): its output \"y\" depends on itself"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(
        ImportText(c.nodes),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)))
        << c.nodes;
  }
}

TEST(TopologicalOrderTest, TheNodeNamedIsOnTheCycle) {
  // "late" only waits for the cycle of b and d.
  const auto status =
      ImportText("late = Exp(d) y = Relu(late) b = Neg(d) d = Tanh(b)")
          .status();
  EXPECT_THAT(std::string(status.message()),
              ::testing::AnyOf(HasSubstr("\"b\" depends on itself"),
                               HasSubstr("\"d\" depends on itself")));
}

TEST(TopologicalOrderTest, SortsShuffledGraphs) {
  for (int i = 0; i < Runs(1000); ++i) {
    const auto seed = static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    Graph graph =
        RandomGraph(seed, {.max_nodes = 20, .max_depth = 2, .calls = true});
    const std::vector<NodeId> sorted = graph.block(kMainBlock).nodes;
    EXPECT_EQ(*TopologicalOrder(graph, sorted), sorted);
    Random random(seed);
    std::vector<NodeId> shuffled = sorted;
    for (size_t k = shuffled.size(); k > 1; --k) {
      std::swap(
          shuffled[k - 1],
          shuffled[static_cast<size_t>(random.Below(static_cast<int>(k)))]);
    }
    const auto order = TopologicalOrder(graph, shuffled);
    ASSERT_THAT(order, IsOk());
    EXPECT_TRUE(
        std::is_permutation(order->begin(), order->end(), sorted.begin()));
    // Stable: sorting again changes nothing.
    EXPECT_EQ(*TopologicalOrder(graph, *order), *order);
    graph.mutable_block(kMainBlock).nodes = *order;
    EXPECT_THAT(Verify(graph), IsOk());
  }
}

}  // namespace
}  // namespace onnx_memopt::ir
