// The ways of ops that compute each element, or products, from elements at the
// same place; and that no operands crash a rule. What the ways mean is checked
// by running them: test/equivalence/test_dimension_flow.py.
#include "onnx_memopt/ir/dimension_flow.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "unit/ir/flow_rule_harness.h"
#include "unit/ir/random_node.h"

namespace onnx_memopt::ir {
namespace {

using ::testing::ElementsAre;
using testing::Flow;
using ::testing::IsEmpty;
using testing::RandomNode;
using testing::Scalar;

TEST(ElementwiseFlowTest, AllAxes) {
  EXPECT_THAT(Flow("Relu").In("float[b, 4]").Out("float[b, 4]").Ways(),
              ElementsAre("results=0 extent=b operands=0:1/1",
                          "results=1 extent=4 operands=1:1/1"));
}

TEST(ElementwiseFlowTest, BroadcastOperandsAreWhole) {
  EXPECT_THAT(Flow("Add")
                  .In("float[2, b, 4]")
                  .In("float[b, 1]")
                  .Out("float[2, b, 4]")
                  .Ways(),
              ElementsAre("results=0 extent=2 operands=0:1/1,whole",
                          "results=1 extent=b operands=1:1/1,0:1/1",
                          "results=2 extent=4 operands=2:1/1,whole"));
}

// "a" and "b" may be equal, or one of them 1: that axis is left out.
TEST(ElementwiseFlowTest, DimsThatOnlyMayBeEqual) {
  EXPECT_THAT(
      Flow("Mul").In("float[a, 4]").In("float[b, 4]").Out("float[?, 4]").Ways(),
      ElementsAre("results=1 extent=4 operands=1:1/1,1:1/1"));
  EXPECT_THAT(Flow("Mul").In("float[a]").In("float[b]").Out("float[a]").Ways(),
              IsEmpty());
}

TEST(ElementwiseFlowTest, AxesOfOneElementAreLeftOut) {
  EXPECT_THAT(Flow("Relu").In("float[1, 0, 2]").Out("float[1, 0, 2]").Ways(),
              ElementsAre("results=2 extent=2 operands=2:1/1"));
}

TEST(ElementwiseFlowTest, UnknownRanksAreOpaque) {
  EXPECT_THAT(Flow("Relu").In("float[...]").Out("float[4]").Ways(), IsEmpty());
  EXPECT_THAT(Flow("Relu").In("float[4]").Out("float[...]").Ways(), IsEmpty());
}

TEST(ElementwiseFlowTest, OldBroadcastAlongAnAxisIsOpaque) {
  EXPECT_THAT(Flow("Add", 6)
                  .In("float[2, 3]")
                  .In("float[2]")
                  .Attr("axis", 0)
                  .Out("float[2, 3]")
                  .Ways(),
              IsEmpty());
}

TEST(ElementwiseFlowTest, DropoutOnlyWithoutTraining) {
  const auto dropout = [](const char* training) {
    return Flow("Dropout")
        .In("float[4]")
        .NoIn()
        .In("bool[]", Scalar(training))
        .Out("float[4]")
        .Out("bool[4]")
        .Ways();
  };
  EXPECT_THAT(dropout("0"),
              ElementsAre("results=0,0 extent=4 operands=0:1/1,whole,whole"));
  EXPECT_THAT(dropout("1"), IsEmpty());
  EXPECT_THAT(dropout("?"), IsEmpty());
}

TEST(ElementwiseFlowTest, ScalesFollowTheirAxis) {
  EXPECT_THAT(Flow("DequantizeLinear")
                  .In("int8[3, 4]")
                  .In("float[4]")
                  .In("int8[4]")
                  .Attr("axis", 1)
                  .Out("float[3, 4]")
                  .Ways(),
              ElementsAre("results=0 extent=3 operands=0:1/1,whole,whole",
                          "results=1 extent=4 operands=1:1/1,0:1/1,0:1/1"));
  EXPECT_THAT(Flow("QuantizeLinear")
                  .In("float[3, 8]")
                  .In("float[3, 2]")
                  .Attr("axis", 1)
                  .Attr("block_size", 4)
                  .Out("int8[3, 8]")
                  .Ways(),
              ElementsAre("results=0 extent=3 operands=0:1/1,0:1/1",
                          "results=1 extent=8 operands=1:1/1,1:1/4 grain=4"));
}

TEST(MatMulFlowTest, BatchRowsColumnsAndTheInnerDimension) {
  EXPECT_THAT(
      Flow("MatMul")
          .In("float[b, s, 8]")
          .In("float[8, 16]")
          .Out("float[b, s, 16]")
          .Ways(),
      ElementsAre("results=0 extent=b operands=0:1/1,whole",
                  "results=1 extent=s operands=1:1/1,whole",
                  "results=2 extent=16 operands=whole,1:1/1",
                  "results=- extent=8 operands=2:1/1,0:1/1 combine=sum"));
}

TEST(MatMulFlowTest, Vectors) {
  EXPECT_THAT(
      Flow("MatMul").In("float[8]").In("float[8]").Out("float[]").Ways(),
      ElementsAre("results=- extent=8 operands=0:1/1,0:1/1 combine=sum"));
  EXPECT_THAT(
      Flow("MatMul")
          .In("float[8]")
          .In("float[3, 8, 4]")
          .Out("float[3, 4]")
          .Ways(),
      ElementsAre("results=0 extent=3 operands=whole,0:1/1",
                  "results=1 extent=4 operands=whole,2:1/1",
                  "results=- extent=8 operands=0:1/1,1:1/1 combine=sum"));
}

// Each part would add the bias, so the inner dimension stays whole.
TEST(MatMulFlowTest, GemmWithBias) {
  EXPECT_THAT(Flow("Gemm")
                  .In("float[8, m]")
                  .In("float[16, 8]")
                  .In("float[16]")
                  .Attr("transA", 1)
                  .Attr("transB", 1)
                  .Out("float[m, 16]")
                  .Ways(),
              ElementsAre("results=0 extent=m operands=1:1/1,whole,whole",
                          "results=1 extent=16 operands=whole,0:1/1,0:1/1"));
}

TEST(MatMulFlowTest, GemmWithABiasTimesZero) {
  const auto gemm = [](float beta) {
    return Flow("Gemm")
        .In("float[1, 8]")
        .In("float[8, 1]")
        .In("float[1]")
        .Attr("beta", beta)
        .Out("float[1, 1]")
        .Ways();
  };
  EXPECT_THAT(
      gemm(0),
      ElementsAre("results=- extent=8 operands=1:1/1,0:1/1,whole combine=sum"));
  EXPECT_THAT(gemm(1), IsEmpty());
}

TEST(MatMulFlowTest, ZeroPointsOfColumns) {
  EXPECT_THAT(
      Flow("MatMulInteger")
          .In("int8[4, 8]")
          .In("int8[8, 6]")
          .In("int8[]")
          .In("int8[6]")
          .Out("int32[4, 6]")
          .Ways(),
      ElementsAre(
          "results=0 extent=4 operands=0:1/1,whole,whole,whole",
          "results=1 extent=6 operands=whole,1:1/1,whole,0:1/1",
          "results=- extent=8 operands=1:1/1,0:1/1,whole,whole combine=sum"));
}

TEST(MatMulFlowTest, Einsum) {
  EXPECT_THAT(
      Flow("Einsum")
          .In("float[b, 4, 5]")
          .In("float[b, 6, 5]")
          .Attr("equation", "bqd,bkd->bqk")
          .Out("float[b, 4, 6]")
          .Ways(),
      ElementsAre("results=0 extent=b operands=0:1/1,0:1/1",
                  "results=1 extent=4 operands=1:1/1,whole",
                  "results=2 extent=6 operands=whole,1:1/1",
                  "results=- extent=5 operands=2:1/1,2:1/1 combine=sum"));
  EXPECT_THAT(Flow("Einsum")
                  .In("float[4, 4]")
                  .Attr("equation", "ii->i")
                  .Out("float[4]")
                  .Ways(),
              IsEmpty());
}

TEST(DimensionFlowTest, OpsWithoutARuleAreOpaque) {
  EXPECT_THAT(Flow("NonZero").In("float[4]").Out("int64[1, ?]").Ways(),
              IsEmpty());
  EXPECT_THAT(Flow("Nowhere").In("float[4]").Out("float[4]").Ways(), IsEmpty());
}

// Two elements of an int4 share a byte.
TEST(DimensionFlowTest, PackedElementsAreNotCut) {
  EXPECT_THAT(Flow("DequantizeLinear")
                  .In("int4[8, 4]")
                  .In("float[]")
                  .Out("float[8, 4]")
                  .Ways(),
              IsEmpty());
  EXPECT_THAT(Flow("Not").In("bool[4]").Out("bool[4]").Ways(),
              ElementsAre("results=0 extent=4 operands=0:1/1"));
}

// Any operands at all: axes must exist and grains be sensible.
TEST(DimensionFlowTest, RulesSurviveAnything) {
  RandomNode random(11);
  for (const OpInfo& row : AllOpInfo()) {
    if (row.flow == nullptr) continue;
    for (int run = 0; run < 200; ++run) {
      Graph graph;
      Node node;
      node.op_type = std::string(row.name);
      node.domain = std::string(row.domain);
      node.opset = static_cast<int>(random.Number(0, 26));
      node.info = &row;
      random.AddAttributes(&node);
      const Type shared = random.RandomType();
      const auto add_value = [&](bool same) {
        Value value;
        value.type = same ? shared : random.RandomType();
        if (random.Chance(40)) {
          value.contents = random.RandomContents(&value.type);
        }
        return random.Chance(10) ? kNoValue : graph.AddValue(value);
      };
      const int64_t operands = random.Number(0, 8);
      for (int64_t i = 0; i < operands; ++i) {
        node.operands.push_back(add_value(random.Chance(60)));
      }
      const int64_t results = random.Number(0, 4);
      for (int64_t i = 0; i < results; ++i) {
        node.results.push_back(add_value(random.Chance(60)));
      }
      const NodeId id = graph.AddNode(node);
      for (const SplitWay& way : SplitWays(graph, id)) {
        ASSERT_EQ(way.operands.size(), node.operands.size()) << row.name;
        ASSERT_EQ(way.result_axes.size(), node.results.size()) << row.name;
        for (size_t i = 0; i < way.operands.size(); ++i) {
          const OperandFlow& flow = way.operands[i];
          if (flow.axis < 0) continue;
          const Type& type = graph.value(node.operands[i]).type;
          ASSERT_TRUE(type.shape) << row.name;
          ASSERT_LT(flow.axis, static_cast<int>(type.shape->size()))
              << row.name;
          EXPECT_NE(flow.den, Dim(0)) << row.name;
        }
        EXPECT_TRUE(way.combine == Combine::kNone || way.result_axes[0] == -1)
            << row.name;
      }
    }
  }
}

}  // namespace
}  // namespace onnx_memopt::ir
