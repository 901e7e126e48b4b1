// Which reductions are written in two phases, what becomes of what stood
// around them, and that they come back. That they compute the same is for
// test/equivalence.
#include "onnx_memopt/rewrite/two_phases.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/status_matchers.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::rewrite {
namespace {

using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportText;
using ::onnx_memopt::testing::IsOk;
using ::testing::HasSubstr;
using ::testing::Not;

// As PyTorch's exporter writes group norm of 8 channels in 2 groups; `reader`
// reads what is between the Reshapes, too.
std::string ExportedNorm(const std::string& reader) {
  return R"(
    g (float[n, 4, h, w] x, float[8, 4, 3, 3] f, float[2] one, float[2] zero)
      => (float[n, 8, h, w] y, float z)
    <float[8, 1, 1] scale = {1, 2, 3, 4, 5, 6, 7, 8},
     float[1, 8, 1, 1] shift = {1, 2, 3, 4, 5, 6, 7, 8},
     int64[3] by_group = {0, 2, -1}> {
      image = Conv <pads = [1, 1, 1, 1]> (x, f)
      shape = Shape (image)
      grouped = Reshape (image, by_group)
      normal = InstanceNormalization (grouped, one, zero)
      restored = Reshape (normal, shape)
      scaled = Mul (scale, restored)
      shifted = Add (scaled, shift)
      y = Sigmoid (shifted)
      z = ReduceL1 <keepdims = 0> ()" +
         reader + R"()
    })";
}

std::string Instance(const std::string& type) {
  return "g (" + type + " x) => (" + type + R"( y)
    <float[8] s = {1, 1, 1, 1, 1, 1, 1, 1},
     float[8] b = {1, 1, 1, 1, 1, 1, 1, 1}> {
      y = InstanceNormalization (x, s, b)
    })";
}

TEST(TwoPhasesTest, ExportedGroupNormBecomesOneScaleAndShift) {
  Imported model = ImportText(ExportedNorm("image"));
  ASSERT_THAT(model.status, IsOk());
  const std::string before = ToString(model.graph);
  const TwoPhases phases = TwoPhases::Write(model.graph, {});
  EXPECT_EQ(phases.size(), 1U);
  EXPECT_THAT(ir::Verify(model.graph), IsOk());
  const std::string after = ToString(model.graph);
  EXPECT_THAT(after, Not(HasSubstr("InstanceNormalization")));
  // The scale and shift behind it are part of its own, and what was there for
  // the Reshapes alone has gone: nothing but rows reads the image.
  EXPECT_THAT(after, Not(HasSubstr("Shape(")));
  EXPECT_THAT(after, HasSubstr("%shifted = Add("));
  EXPECT_THAT(after, HasSubstr(": float[n, 8, h, 1]"));

  phases.RestoreUnused(model.graph);
  EXPECT_THAT(ir::Verify(model.graph), IsOk());
  EXPECT_EQ(ToString(model.graph), before);
}

TEST(TwoPhasesTest, WhatIsReadElsewhereStays) {
  Imported model = ImportText(ExportedNorm("grouped"));
  ASSERT_THAT(model.status, IsOk());
  EXPECT_EQ(TwoPhases::Write(model.graph, {}).size(), 1U);
  EXPECT_THAT(ir::Verify(model.graph), IsOk());
  EXPECT_THAT(ToString(model.graph), HasSubstr("%grouped = Reshape(%image"));
  // Between the norm and its Reshape nothing may be read.
  model = ImportText(ExportedNorm("normal"));
  ASSERT_THAT(model.status, IsOk());
  EXPECT_EQ(TwoPhases::Write(model.graph, {}).size(), 0U);
}

TEST(TwoPhasesTest, OnlyRealImagesOfSize) {
  const auto count = [](const std::string& type, int64_t min_bytes) {
    Imported model = ImportText(Instance(type));
    EXPECT_THAT(model.status, IsOk());
    return TwoPhases::Write(model.graph, {.min_bytes = min_bytes}).size();
  };
  EXPECT_EQ(count("float[1, 8, 4, 4]", 512), 1U);
  EXPECT_EQ(count("float[1, 8, 4, 4]", 513), 0U);
  EXPECT_EQ(count("float[1, 8, 4, 4, 4]", 0), 1U);
  // One row, and a row that has no elements of its own.
  EXPECT_EQ(count("float[1, 8, 1, 16]", 0), 0U);
  EXPECT_EQ(count("float[1, 8, 16]", 0), 0U);
}

TEST(TwoPhasesTest, ReductionsOfSeveralAxesBecomeTwo) {
  const auto count = [](const std::string& node) {
    Imported model = ImportText(R"(
      g (float[2, 8, 4, 6] x) => (float z)
      <int64[2] a = {2, -1}, int64[1] one = {2}> { y = )" +
                                node + " z = ReduceL1 <keepdims = 0> (y) }");
    EXPECT_THAT(model.status, IsOk());
    const std::string before = ToString(model.graph);
    const TwoPhases phases = TwoPhases::Write(model.graph, {});
    EXPECT_THAT(ir::Verify(model.graph), IsOk());
    if (phases.size() > 0) {
      EXPECT_THAT(ToString(model.graph), HasSubstr(", 4, 1]"));
    }
    phases.RestoreUnused(model.graph);
    EXPECT_EQ(ToString(model.graph), before);
    return phases.size();
  };
  EXPECT_EQ(count("ReduceMean (x, a)"), 1U);
  EXPECT_EQ(count("ReduceSum <keepdims = 0> (x, a)"), 1U);
  EXPECT_EQ(count("ReduceMax (x)"), 1U);
  EXPECT_EQ(count("GlobalAveragePool (x)"), 1U);
  EXPECT_EQ(count("GlobalMaxPool (x)"), 1U);
  EXPECT_EQ(count("ReduceMean (x, one)"), 0U);
  EXPECT_EQ(count("ReduceLogSumExp (x, a)"), 0U);
}

TEST(TwoPhasesTest, StatisticsOfAnEnlargedImageMayMakeItAgain) {
  Imported model = ImportText(R"(
    g (float[1, 8, 8, 8] x, float[8, 8, 3, 3] f) => (float[1, 8, 16, 16] y)
    <float[8] s = {1, 1, 1, 1, 1, 1, 1, 1},
     float[4] twice = {1, 1, 2, 2}> {
      large = Resize <mode = "nearest"> (x, , twice)
      image = Conv <pads = [1, 1, 1, 1]> (large, f)
      y = InstanceNormalization (image, s, s)
    })");
  ASSERT_THAT(model.status, IsOk());
  ir::Graph graph = model.graph.Clone();
  EXPECT_EQ(TwoPhases::Write(graph, {}).made_again(), 0U);
  EXPECT_EQ(TwoPhases::Write(model.graph, {.again_bytes = 0}).made_again(), 1U);
  EXPECT_THAT(ir::Verify(model.graph), IsOk());
  const std::string text = ToString(model.graph);
  EXPECT_THAT(text, HasSubstr("%image/again = Conv(%large/again, %f)"));
  // The image itself is only scaled and shifted.
  EXPECT_THAT(text, HasSubstr("Mul(%image, "));
  EXPECT_THAT(text, Not(HasSubstr("Sub(%image, ")));
}

}  // namespace
}  // namespace onnx_memopt::rewrite
