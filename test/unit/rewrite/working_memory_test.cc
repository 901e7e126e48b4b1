#include "onnx_memopt/rewrite/working_memory.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::rewrite {
namespace {

using ::onnx_memopt::testing::ImportText;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

WorkingMemory Of(const std::string& text) {
  const auto model = ImportText(text);
  analysis::AnalysisManager analyses(&model.graph);
  return *WorkingMemoryOf(model.graph, analyses, ir::kMainBlock);
}

TEST(WorkingMemoryTest, OutputsAreNotCounted) {
  // wide: 1,024 bytes; narrow: 64; y: 4,096.
  const WorkingMemory memory = Of(R"(
    g (float[16, 4] x) => (float[16, 64] y)
    <int64[2] shape = {16, 64}, int64[1] last = {1}> {
      wide = Concat <axis = 1> (x, x, x, x)
      narrow = ReduceSum(wide, last)
      y = Expand(narrow, shape)
    })");
  EXPECT_THAT(memory.bytes, ElementsAre(1024, 1088, 64));
  EXPECT_EQ(memory.peak_step, 1);
}

TEST(WorkingMemoryTest, AnOutputThatIsAReshapeIsACopy) {
  const WorkingMemory memory = Of(R"(
    g (float[16, 4] x) => (float[256] y)
    <int64[1] shape = {256}> {
      wide = Concat <axis = 1> (x, x, x, x)
      y = Reshape(wide, shape)
    })");
  EXPECT_THAT(memory.bytes, ElementsAre(1024, 1024));
}

TEST(WorkingMemoryTest, AnOutputThatIsReadLaterIsNotCountedThere) {
  const WorkingMemory memory = Of(R"(
    g (float[16, 4] x) => (float[16, 16] wide, float[16, 4] y)
    <int64[1] last = {1}> {
      wide = Concat <axis = 1> (x, x, x, x)
      narrow = ReduceSum(wide, last)
      y = Mul(narrow, x)
    })");
  EXPECT_THAT(memory.bytes, ElementsAre(0, 64, 64));
}

TEST(WorkingMemoryTest, WhatIsComputedWhenTheModelIsLoadedIsNotCounted) {
  const WorkingMemory memory = Of(R"(
    g (float[8] x) => (float[8] y)
    <int8[8] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
      f = Cast <to = 1> (w)
      a = Add(x, f)
      b = Exp(f)
      y = Mul(a, b)
    })");
  EXPECT_THAT(memory.bytes, ElementsAre(0, 32, 32, 32));
}

TEST(WorkingMemoryTest, AGraphWithoutNodesHasNoPeak) {
  const WorkingMemory memory = Of("g (float[8] x) => (float[8] x) {}");
  EXPECT_THAT(memory.bytes, IsEmpty());
  EXPECT_EQ(memory.peak_step, -1);
}

TEST(WorkingMemoryTest, LowerPeaksFromHighToLow) {
  const auto model = ImportText(R"(
    g (float[1, 4] x) => (float[1, 1] y)
    <int64[1] last = {1}> {
      a = Concat <axis = 1> (x, x, x)
      b = ReduceSum(a, last)
      small = Neg(b)
      c = Concat <axis = 1> (small, x, x, x)
      d = ReduceSum(c, last)
      e = Concat <axis = 1> (d, d, d)
      y = ReduceSum(e, last)
    })");
  analysis::AnalysisManager analyses(&model.graph);
  const auto memory = *WorkingMemoryOf(model.graph, analyses, ir::kMainBlock);
  // b beside a: 4 + 48; c beside small: 52 + 4; e beside d is too low.
  EXPECT_THAT(LowerPeaks(model.graph, memory, 8), ElementsAre(3, 1));
  EXPECT_THAT(LowerPeaks(model.graph, memory, 1), ElementsAre(3));
}

}  // namespace
}  // namespace onnx_memopt::rewrite
