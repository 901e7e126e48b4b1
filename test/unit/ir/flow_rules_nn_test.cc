// The ways of layers: normalisation, reductions, windows, attention.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/ir/dimension_flow.h"
#include "unit/ir/flow_rule_harness.h"

namespace onnx_memopt::ir {
namespace {

using ::testing::ElementsAre;
using testing::Flow;
using testing::Ints;
using ::testing::IsEmpty;
using testing::Reals;

// Before opset 13 all axes from `axis` on were normalised together.
TEST(NormalizeFlowTest, SoftmaxOfBothKinds) {
  const auto softmax = [](int opset) {
    return Flow("Softmax", opset)
        .In("float[b, 3, 4]")
        .Attr("axis", 1)
        .Out("float[b, 3, 4]")
        .Ways();
  };
  EXPECT_THAT(softmax(13), ElementsAre("results=0 extent=b operands=0:1/1",
                                       "results=2 extent=4 operands=2:1/1"));
  EXPECT_THAT(softmax(11), ElementsAre("results=0 extent=b operands=0:1/1"));
}

TEST(NormalizeFlowTest, LayerNormalizationBeforeItsAxis) {
  EXPECT_THAT(Flow("LayerNormalization")
                  .In("float[b, s, 8]")
                  .In("float[8]")
                  .Out("float[b, s, 8]")
                  .Out("float[b, s, 1]")
                  .Ways(),
              ElementsAre("results=0,0 extent=b operands=0:1/1,whole",
                          "results=1,1 extent=s operands=1:1/1,whole"));
}

TEST(NormalizeFlowTest, BatchNormalizationParametersFollowTheChannels) {
  EXPECT_THAT(
      Flow("BatchNormalization")
          .In("float[b, 3, 4]")
          .In("float[3]")
          .In("float[3]")
          .In("float[3]")
          .In("float[3]")
          .Out("float[b, 3, 4]")
          .Ways(),
      ElementsAre("results=0 extent=b operands=0:1/1,whole,whole,whole,whole",
                  "results=1 extent=3 operands=1:1/1,0:1/1,0:1/1,0:1/1,0:1/1",
                  "results=2 extent=4 operands=2:1/1,whole,whole,whole,whole"));
}

TEST(NormalizeFlowTest, GroupNormalizationInWholeGroups) {
  EXPECT_THAT(
      Flow("GroupNormalization", 18)
          .In("float[b, 6, 4]")
          .In("float[2]")
          .In("float[2]")
          .Attr("num_groups", 2)
          .Out("float[b, 6, 4]")
          .Ways(),
      ElementsAre("results=0 extent=b operands=0:1/1,whole,whole",
                  "results=1 extent=6 operands=1:1/1,0:1/3,0:1/3 grain=3 "
                  "attribute=num_groups:1/3"));
}

TEST(ReduceFlowTest, KeptAndContractedAxes) {
  EXPECT_THAT(
      Flow("ReduceMean")
          .In("float[b, 3, 4]")
          .In(Ints({1}))
          .Attr("keepdims", 0)
          .Out("float[b, 4]")
          .Ways(),
      ElementsAre("results=0 extent=b operands=0:1/1,whole",
                  "results=1 extent=4 operands=2:1/1,whole",
                  "results=- extent=3 operands=1:1/1,whole combine=mean"));
  EXPECT_THAT(Flow("ReduceL2")
                  .In("float[b, 3]")
                  .In(Ints({1}))
                  .Out("float[b, 1]")
                  .Ways(),
              ElementsAre("results=0 extent=b operands=0:1/1,whole"));
  EXPECT_THAT(
      Flow("ReduceSum").In("float[3]").In("int64[1]").Out("float[1]").Ways(),
      IsEmpty());
}

// 7 wide, padded by 1, stride 2: rows [lo, hi) read [2 lo - 1, 2 hi).
TEST(ConvFlowTest, BatchChannelsAndRows) {
  EXPECT_THAT(
      Flow("Conv")
          .In("float[b, 3, 16, 16]")
          .In("float[8, 3, 3, 1]")
          .In("float[8]")
          .List("strides", {2, 1})
          .List("pads", {1, 0, 1, 0})
          .Out("float[b, 8, 8, 16]")
          .Ways(),
      ElementsAre("results=0 extent=b operands=0:1/1,whole,whole",
                  "results=1 extent=8 operands=whole,0:1/1,0:1/1",
                  "results=2 extent=8 operands=2:2/1:1:0,whole,whole windowed",
                  "results=3 extent=16 operands=3:1/1,whole,whole"));
}

// 6 inputs and 9 outputs in 3 groups: 2 inputs and 3 outputs each.
TEST(ConvFlowTest, GroupsAndInputChannels) {
  EXPECT_THAT(Flow("Conv")
                  .In("float[1, 6, h]")
                  .In("float[9, 2, 1]")
                  .Attr("group", 3)
                  .Out("float[1, 9, h]")
                  .Ways(),
              ElementsAre("results=1 extent=9 operands=1:2/3,0:1/1 grain=3 "
                          "attribute=group:1/3",
                          "results=2 extent=h operands=2:1/1,whole"));
  EXPECT_THAT(
      Flow("Conv")
          .In("float[1, 6, h]")
          .In("float[1, 6, 1]")
          .Out("float[1, 1, h]")
          .Ways(),
      ElementsAre("results=2 extent=h operands=2:1/1,whole",
                  "results=- extent=6 operands=1:1/1,1:1/1 combine=sum"));
}

// auto_pad depends on the size of the whole: parts need the numbers.
TEST(ConvFlowTest, AutoPadBecomesExplicit) {
  const auto conv = [](const char* size, const char* result, int stride) {
    return Flow("Conv")
        .In(absl::StrCat("float[1, 1, ", size, "]"))
        .In("float[1, 1, 4]")
        .Attr("auto_pad", "SAME_UPPER")
        .List("strides", {stride})
        .Out(absl::StrCat("float[1, 1, ", result, "]"))
        .Ways();
  };
  // 3 padded in all, 1 of it before.
  EXPECT_THAT(conv("h", "h", 1),
              ElementsAre("results=2 extent=h operands=2:1/1:1:2,whole "
                          "pads=1,2 windowed"));
  // (4 - 1) * 2 + 4 - 7 = 3.
  EXPECT_THAT(conv("7", "4", 2),
              ElementsAre("results=2 extent=4 operands=2:2/1:1:1,whole "
                          "pads=1,2 windowed"));
  EXPECT_THAT(conv("h", "g", 2), IsEmpty());
}

TEST(ConvFlowTest, TransposedInSteps) {
  EXPECT_THAT(Flow("ConvTranspose")
                  .In("float[1, 1, h]")
                  .In("float[1, 1, 2]")
                  .List("strides", {2})
                  .Out("float[1, 1, h+h]")
                  .Ways(),
              ElementsAre("results=2 extent=2*h operands=2:1/2,whole grain=2"));
}

TEST(ConvFlowTest, IndicesOfMaxPoolAreOpaque) {
  EXPECT_THAT(Flow("MaxPool")
                  .In("float[2, 3, 8]")
                  .List("kernel_shape", {2})
                  .Out("float[2, 3, 7]")
                  .Out("int64[2, 3, 7]")
                  .Ways(),
              IsEmpty());
}

TEST(ResizeFlowTest, WholeFactors) {
  const auto resize = [](const char* mode, const char* position) {
    return Flow("Resize")
        .In("float[1, 3, h]")
        .NoIn()
        .In("float[3]", Reals({1, 1, 2}))
        .Attr("mode", mode)
        .Attr("coordinate_transformation_mode", position)
        .Attr("nearest_mode", "floor")
        .Out("float[1, 3, h+h]")
        .Ways();
  };
  EXPECT_THAT(
      resize("nearest", "asymmetric"),
      ElementsAre("results=1 extent=3 operands=1:1/1,whole,whole",
                  "results=2 extent=2*h operands=2:1/2,whole,whole grain=2"));
  EXPECT_THAT(resize("linear", "half_pixel"),
              ElementsAre("results=1 extent=3 operands=1:1/1,whole,whole",
                          "results=2 extent=2*h operands=2:1/2:1:1,whole,whole "
                          "grain=2 windowed"));
  EXPECT_THAT(resize("cubic", "half_pixel"),
              ElementsAre("results=1 extent=3 operands=1:1/1,whole,whole"));
}

TEST(SequenceFlowTest, RecurrentBatch) {
  EXPECT_THAT(Flow("LSTM")
                  .In("float[s, b, 4]")
                  .In("float[1, 12, 4]")
                  .In("float[1, 12, 3]")
                  .NoIn()
                  .In("int32[b]")
                  .NoOut()
                  .Out("float[1, b, 3]")
                  .Ways(),
              ElementsAre("results=-,1 extent=b "
                          "operands=1:1/1,whole,whole,whole,0:1/1"));
}

// 8 query heads share 2 of keys and values; a causal mask counts rows.
TEST(SequenceFlowTest, AttentionWithSharedHeads) {
  const auto attention = [](int causal) {
    return Flow("Attention", 23)
        .In("float[b, 8, s, 16]")
        .In("float[b, 2, t, 16]")
        .In("float[b, 2, t, 16]")
        .Attr("is_causal", causal)
        .Out("float[b, 8, s, 16]")
        .Ways();
  };
  EXPECT_THAT(
      attention(0),
      ElementsAre("results=0 extent=b operands=0:1/1,0:1/1,0:1/1",
                  "results=1 extent=8 operands=1:1/1,1:1/4,1:1/4 grain=4",
                  "results=2 extent=s operands=2:1/1,whole,whole"));
  EXPECT_EQ(attention(1).size(), 2u);
}

}  // namespace
}  // namespace onnx_memopt::ir
