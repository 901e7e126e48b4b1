#include "onnx_memopt/analysis/weights.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::analysis {
namespace {

using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportText;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Names(const ir::Graph& graph,
                               const std::vector<ir::ValueId>& values) {
  std::vector<std::string> names;
  for (ir::ValueId value : values) names.push_back(graph.value(value).name);
  return names;
}

TEST(WeightsTest, CountsInitializersConstantsAndWhatIsTwice) {
  const Imported m = ImportText(R"(
    g (float[2] x) => (float[2] y)
    <float[2] a = {1, 2}, float[2] b = {1, 2}, float[2] other = {3, 4}> {
      k = Constant <value = float[2] {5, 6}> ()
      s = Sum(x, a, b, other, k)
      y = Relu(s)
    })");
  AnalysisManager analyses(&m.graph);
  const Weights& weights = **analyses.Get<Weights>();
  EXPECT_THAT(Names(m.graph, weights.values()),
              ElementsAre("a", "b", "other", "k"));
  EXPECT_EQ(weights.count(), 4);
  EXPECT_EQ(weights.bytes(), 32);           // four of two floats
  EXPECT_EQ(weights.duplicate_bytes(), 8);  // a and b
  EXPECT_THAT(weights.shared_by_subgraphs(), IsEmpty());
}

TEST(WeightsTest, SaysWhichAreReadBySeveralSubgraphs) {
  const Imported m = ImportText(R"(
    g (float[2] x, bool c) => (float[2] y)
    <float[2] both = {1, 2}, float[2] once = {3, 4}, float[2] outer = {5, 6}> {
      t = Add(x, outer)
      y = If (c) <
        then_branch = t () => (float[2] a) { p = Add(t, both) a = Add(p, once) },
        else_branch = e () => (float[2] b) { q = Mul(t, both) b = Mul(q, both) }>
    })");
  AnalysisManager analyses(&m.graph);
  const Weights& weights = **analyses.Get<Weights>();
  EXPECT_THAT(Names(m.graph, weights.shared_by_subgraphs()),
              ElementsAre("both"));
  EXPECT_EQ(weights.bytes(), 24);
}

TEST(WeightsTest, CountsThoseInsideSubgraphsAndFunctions) {
  const Imported m = ImportText(R"(
    g (float[2] x, bool c) => (float[2] z) {
      y = If (c) <
        then_branch = t () => (float[2] a) <float[2] w = {1, 2}>
          { a = Add(x, w) },
        else_branch = e () => (float[2] b) { b = Relu(x) }>
      z = local.f (y)
    }
    <domain: "local", opset_import: ["" : 18]>
    f (a) => (b) {
      k = Constant <value = float[2] {7, 8}> ()
      b = Add(a, k)
    })");
  AnalysisManager analyses(&m.graph);
  const Weights& weights = **analyses.Get<Weights>();
  EXPECT_EQ(weights.count(), 2);
  EXPECT_EQ(weights.bytes(), 16);
}

}  // namespace
}  // namespace onnx_memopt::analysis
