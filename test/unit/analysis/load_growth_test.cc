#include "onnx_memopt/analysis/load_growth.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::analysis {
namespace {

using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportText;

LoadGrowth GrowthOf(const std::string& text) {
  const Imported model = ImportText(text);
  AnalysisManager analyses(&model.graph);
  return **analyses.Get<LoadGrowth>();
}

// A graph with a weight w of 8 bytes, int8[8], and an input x.
LoadGrowth WithWeight(const std::string& nodes) {
  return GrowthOf(
      "g (float[8] x, bool c) => (float[n] y) "
      "<int8[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, float one = {1.0},"
      " int8 zero = {0}, int64[1] twice = {2}> { " +
      nodes + " }");
}

TEST(LoadGrowthTest, ACastWeightIsKeptInPlaceOfTheWeight) {
  const LoadGrowth growth = WithWeight("f = Cast <to = 1> (w) y = Add(x, f)");
  EXPECT_EQ(growth.folded_nodes(), 1);
  EXPECT_EQ(growth.growth_bytes(), 32 - 8);
}

TEST(LoadGrowthTest, AWeightThatIsAlsoReadAsItIsStays) {
  const LoadGrowth growth = WithWeight(
      "f = Cast <to = 1> (w) a = Add(x, f) "
      "d = DynamicQuantizeLinear(a) g = Add(w, d) y = Cast <to = 1> (g)");
  EXPECT_EQ(growth.folded_nodes(), 1);
  EXPECT_EQ(growth.growth_bytes(), 32);
}

TEST(LoadGrowthTest, OfAChainOnlyTheLastResultIsKept) {
  // w, twice and one go (8 + 8 + 4 bytes); `scaled`, float[16], stays.
  const LoadGrowth growth = WithWeight(
      "f = Cast <to = 1> (w) tiled = Tile(f, twice) "
      "scaled = Mul(tiled, one) y = Add(x, scaled)");
  EXPECT_EQ(growth.folded_nodes(), 3);
  EXPECT_EQ(growth.growth_bytes(), 64 - 20);
}

TEST(LoadGrowthTest, AResultThatIsAnOutputStays) {
  const LoadGrowth growth = WithWeight("y = Cast <to = 1> (w)");
  EXPECT_EQ(growth.folded_nodes(), 1);
  EXPECT_EQ(growth.growth_bytes(), 32 - 8);
}

TEST(LoadGrowthTest, SmallerResultsShrinkTheModel) {
  // One element is left of eight.
  const LoadGrowth growth = GrowthOf(R"(
    g (float[8] x) => (float[8] y)
    <float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
      s = ReduceSum <keepdims = 1> (w)
      y = Add(x, s)
    })");
  EXPECT_EQ(growth.folded_nodes(), 1);
  EXPECT_EQ(growth.growth_bytes(), 4 - 32);
}

TEST(LoadGrowthTest, WhatIsNotFolded) {
  for (const char* nodes :
       {"f = DequantizeLinear(w, one, zero) y = Add(x, f)",
        "r = RandomUniformLike <dtype = 1> (w) y = Add(x, r)",
        "f = local.Cast(w) y = Add(x, f)", "y = Relu(x)"}) {
    const LoadGrowth growth = WithWeight(nodes);
    EXPECT_EQ(growth.folded_nodes(), 0) << nodes;
    EXPECT_EQ(growth.growth_bytes(), 0) << nodes;
  }
}

TEST(LoadGrowthTest, SubgraphsFoldToo) {
  const LoadGrowth growth = WithWeight(
      "f = If (c) <then_branch = t () => (float[8] a)"
      " { a = Cast <to = 1> (w) }, else_branch = e () => (float[8] b)"
      " { d = Cast <to = 1> (w) b = Neg(d) }> y = Add(x, f)");
  EXPECT_EQ(growth.folded_nodes(), 3);
  EXPECT_EQ(growth.growth_bytes(), 32 + 32 - 8);
}

TEST(LoadGrowthTest, AWeightThatTheCallerMayReplaceIsNoConstant) {
  const LoadGrowth growth = GrowthOf(R"(
    g (float[8] x, int8[8] w) => (float[8] y)
    <int8[8] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
      f = Cast <to = 1> (w)
      y = Add(x, f)
    })");
  EXPECT_EQ(growth.folded_nodes(), 0);
  EXPECT_EQ(growth.growth_bytes(), 0);
}

}  // namespace
}  // namespace onnx_memopt::analysis
