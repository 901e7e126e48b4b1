// The ways of ops that move elements.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/ir/dimension_flow.h"
#include "unit/ir/flow_rule_harness.h"

namespace onnx_memopt::ir {
namespace {

using testing::Dims;
using ::testing::ElementsAre;
using testing::Flow;
using testing::Ints;
using ::testing::IsEmpty;
using testing::Scalar;

TEST(LayoutFlowTest, TransposePermutes) {
  EXPECT_THAT(Flow("Transpose")
                  .In("float[b, 3, 4]")
                  .List("perm", {2, 0, 1})
                  .Out("float[4, b, 3]")
                  .Ways(),
              ElementsAre("results=0 extent=4 operands=2:1/1",
                          "results=1 extent=b operands=0:1/1",
                          "results=2 extent=3 operands=1:1/1"));
}

// [3, s | 768] to [3*s | 12, 64]: the outer axes of both groups flow.
TEST(LayoutFlowTest, ReshapeMergesAndSplits) {
  EXPECT_THAT(
      Flow("Reshape")
          .In("float[3, s, 768]")
          .In(Ints({-1, 12, 64}))
          .Out("float[s+s+s, 12, 64]")
          .Ways(),
      ElementsAre("results=0 extent=3*s operands=0:1/s,whole grain=s",
                  "results=1 extent=12 operands=2:64/1,whole edit=1[1]"));
}

TEST(LayoutFlowTest, ReshapeMergesAnInnerExtent) {
  EXPECT_THAT(
      Flow("Reshape")
          .In("float[5, 4, 8]")
          .In(Ints({20, 8}))
          .Out("float[20, 8]")
          .Ways(),
      ElementsAre("results=0 extent=20 operands=0:1/4,whole grain=4 edit=1[0]",
                  "results=1 extent=8 operands=2:1/1,whole edit=1[1]"));
}

// A leading 1 has nothing to split, so the next axis is the outer one.
TEST(LayoutFlowTest, ReshapeSkipsOnes) {
  EXPECT_THAT(Flow("Reshape")
                  .In("float[1, s, 8]")
                  .In(Ints({-1, 8}))
                  .Out("float[s, 8]")
                  .Ways(),
              ElementsAre("results=0 extent=s operands=1:1/1,whole",
                          "results=1 extent=8 operands=2:1/1,whole edit=1[1]"));
}

// 0 copies the extent of the part; elements that are symbolic are edited.
TEST(LayoutFlowTest, ReshapeCopiesAndComputedExtents) {
  EXPECT_THAT(Flow("Reshape")
                  .In("float[b, s, 8]")
                  .In(Dims({"0", "s", "2", "4"}))
                  .Out("float[b, s, 2, 4]")
                  .Ways(),
              ElementsAre("results=0 extent=b operands=0:1/1,whole",
                          "results=1 extent=s operands=1:1/1,whole edit=1[1]",
                          "results=2 extent=2 operands=2:4/1,whole edit=1[2]"));
}

// In [1, 4, 4] to {2, 0, 2}, the 0 would copy the extent of a part.
TEST(LayoutFlowTest, ReshapeThatCopiesThePartElsewhere) {
  EXPECT_THAT(Flow("Reshape")
                  .In("float[1, 4, 4]")
                  .In(Ints({2, 0, 2}))
                  .Out("float[2, 4, 2]")
                  .Ways(),
              IsEmpty());
}

TEST(LayoutFlowTest, ReshapeWithRationalSteps) {
  EXPECT_THAT(
      Flow("Reshape")
          .In("float[6, 4]")
          .In(Ints({8, -1}))
          .Out("float[8, 3]")
          .Ways(),
      ElementsAre("results=0 extent=8 operands=0:3/4,whole grain=4 edit=1[0]"));
}

TEST(LayoutFlowTest, OldReshapeHasAnAttribute) {
  EXPECT_THAT(
      Flow("Reshape", 4)
          .In("float[6, 4]")
          .List("shape", {6, 2, 2})
          .Out("float[6, 2, 2]")
          .Ways(),
      ElementsAre("results=0 extent=6 operands=0:1/1 attribute=shape[0]:1/1",
                  "results=1 extent=2 operands=1:2/1 attribute=shape[1]:1/1"));
}

// Without axes it would also drop the axis of a part of one element.
TEST(LayoutFlowTest, SqueezeNeedsAxes) {
  EXPECT_THAT(
      Flow("Squeeze").In("float[1, 4]").In(Ints({0})).Out("float[4]").Ways(),
      ElementsAre("results=0 extent=4 operands=1:1/1,whole"));
  EXPECT_THAT(Flow("Squeeze").In("float[1, 4]").Out("float[4]").Ways(),
              IsEmpty());
}

TEST(LayoutFlowTest, ExpandEditsItsShape) {
  EXPECT_THAT(Flow("Expand")
                  .In("float[3, 1]")
                  .In(Ints({2, 1, 4}))
                  .Out("float[2, 3, 4]")
                  .Ways(),
              ElementsAre("results=0 extent=2 operands=whole,whole edit=1[0]",
                          "results=1 extent=3 operands=0:1/1,whole",
                          "results=2 extent=4 operands=whole,whole edit=1[2]"));
}

TEST(LayoutFlowTest, ConcatAndSplitAlongOtherAxes) {
  EXPECT_THAT(Flow("Concat")
                  .In("float[b, 2]")
                  .In("float[b, 3]")
                  .Attr("axis", 1)
                  .Out("float[b, 5]")
                  .Ways(),
              ElementsAre("results=0 extent=b operands=0:1/1,0:1/1"));
  EXPECT_THAT(Flow("Split")
                  .In("float[b, 5]")
                  .In(Ints({2, 3}))
                  .Attr("axis", 1)
                  .Out("float[b, 2]")
                  .Out("float[b, 3]")
                  .Ways(),
              ElementsAre("results=0,0 extent=b operands=0:1/1,whole"));
}

// An end behind the part is the part's end; a start is not moved.
TEST(LayoutFlowTest, SliceFromTheFront) {
  EXPECT_THAT(
      Flow("Slice")
          .In("float[b, 9, 9, 9]")
          .In(Ints({0, 0, 1}))
          .In(Ints({100, 4, 5}))
          .In(Ints({1, 2, 3}))
          .Out("float[b, 9, 4, 4]")
          .Ways(),
      ElementsAre("results=0 extent=b operands=0:1/1,whole,whole,whole",
                  "results=1 extent=9 operands=1:1/1,whole,whole,whole",
                  "results=2 extent=4 operands=2:1/1,whole,whole,whole"));
}

TEST(LayoutFlowTest, GatherAlongIndicesAndOtherAxes) {
  EXPECT_THAT(Flow("Gather")
                  .In("float[1000, 8]")
                  .In("int64[b, s]")
                  .Out("float[b, s, 8]")
                  .Ways(),
              ElementsAre("results=0 extent=b operands=whole,0:1/1",
                          "results=1 extent=s operands=whole,1:1/1",
                          "results=2 extent=8 operands=1:1/1,whole"));
}

TEST(LayoutFlowTest, PadOnlyAxesWithoutPadding) {
  EXPECT_THAT(Flow("Pad")
                  .In("float[b, 4]")
                  .In(Ints({0, 1, 0, 1}))
                  .Out("float[b, 6]")
                  .Ways(),
              ElementsAre("results=0 extent=b operands=0:1/1,whole"));
}

TEST(LayoutFlowTest, CumSumAlongOtherAxes) {
  EXPECT_THAT(Flow("CumSum")
                  .In("float[3, 4]")
                  .In("int64[]", Scalar("-1"))
                  .Out("float[3, 4]")
                  .Ways(),
              ElementsAre("results=0 extent=3 operands=0:1/1,whole"));
  EXPECT_THAT(
      Flow("CumSum").In("float[3, 4]").In("int64[]").Out("float[3, 4]").Ways(),
      IsEmpty());
}

TEST(LayoutFlowTest, DepthToSpaceInSteps) {
  EXPECT_THAT(Flow("DepthToSpace")
                  .In("float[2, 12, 5, h]")
                  .Attr("blocksize", 2)
                  .Out("float[2, 3, 10, h+h]")
                  .Ways(),
              ElementsAre("results=0 extent=2 operands=0:1/1",
                          "results=2 extent=10 operands=2:1/2 grain=2",
                          "results=3 extent=2*h operands=3:1/2 grain=2"));
}

}  // namespace
}  // namespace onnx_memopt::ir
