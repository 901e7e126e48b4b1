#include "onnx_memopt/ir/op_info.h"

#include <cstdint>
#include <set>
#include <string>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/ir/shape_rules.h"

namespace onnx_memopt::ir {
namespace {

std::string Label(const OpInfo& info) {
  return absl::StrCat(info.domain, ":", info.name);
}

TEST(OpInfoTest, RowsAreSortedAndUnique) {
  const absl::Span<const OpInfo> rows = AllOpInfo();
  ASSERT_FALSE(rows.empty());
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_LT(std::tie(rows[i - 1].domain, rows[i - 1].name),
              std::tie(rows[i].domain, rows[i].name))
        << Label(rows[i]);
  }
}

TEST(OpInfoTest, FindsEachRow) {
  for (const OpInfo& row : AllOpInfo()) {
    EXPECT_EQ(&FindOpInfo(row.domain, row.name), &row) << Label(row);
    EXPECT_TRUE(IsKnown(row)) << Label(row);
  }
}

TEST(OpInfoTest, DefaultDomainHasTwoNames) {
  EXPECT_EQ(&FindOpInfo("ai.onnx", "Conv"), &FindOpInfo("", "Conv"));
  EXPECT_NE(&FindOpInfo("com.microsoft", "Gelu"), &FindOpInfo("", "Gelu"));
}

TEST(OpInfoTest, NothingIsAssumedOfAnUnknownOp) {
  for (const auto& [domain, name] :
       {std::pair("", "Conf"), std::pair("com.example", "Conv"),
        std::pair("ai.onnx", ""), std::pair("", ""), std::pair("zzz", "Zzz")}) {
    const OpInfo& info = FindOpInfo(domain, name);
    EXPECT_EQ(&info, &UnknownOp()) << domain << ":" << name;
    EXPECT_FALSE(IsKnown(info));
    EXPECT_EQ(info.view_of, -1);
    EXPECT_EQ(info.in_place, 0u);
    EXPECT_EQ(info.recompute, RecomputeCost::kUnknown);
    EXPECT_EQ(info.flops, nullptr);
    EXPECT_EQ(info.shape, nullptr);
    EXPECT_FALSE(info.saved.known);
    EXPECT_TRUE(info.differentiable);
  }
}

// A view moves no data, so it is free, and the gradient of its result needs
// none of its data: at most small operands such as axes.
TEST(OpInfoTest, ViewsAreFree) {
  int num_views = 0;
  for (const OpInfo& row : AllOpInfo()) {
    if (row.view_of < 0) continue;
    ++num_views;
    EXPECT_EQ(row.view_of, 0) << Label(row);
    EXPECT_EQ(row.recompute, RecomputeCost::kFree) << Label(row);
    EXPECT_FALSE(row.random) << Label(row);
    EXPECT_EQ(row.in_place, 0u) << Label(row) << " shares its operand already";
    EXPECT_TRUE(row.saved.known) << Label(row);
    EXPECT_EQ(row.saved.operands & 1u, 0u) << Label(row);
    EXPECT_EQ(row.saved.results, 0u) << Label(row);
  }
  EXPECT_EQ(num_views, 8);
}

TEST(OpInfoTest, CopyingOpsAreNoViews) {
  for (const char* name : {"Dropout", "Slice", "Split", "Transpose", "Concat",
                           "Expand", "Cast", "BitCast", "SequenceAt"}) {
    EXPECT_EQ(FindOpInfo("", name).view_of, -1) << name;
  }
}

TEST(OpInfoTest, RandomOps) {
  std::set<std::string> random;
  for (const OpInfo& row : AllOpInfo()) {
    if (row.random) random.insert(Label(row));
  }
  EXPECT_THAT(random,
              ::testing::ElementsAre(":Bernoulli", ":Dropout", ":Multinomial",
                                     ":RandomNormal", ":RandomNormalLike",
                                     ":RandomUniform", ":RandomUniformLike",
                                     "com.microsoft:BiasDropout",
                                     "com.microsoft:BitmaskBiasDropout",
                                     "com.microsoft:BitmaskDropout"));
}

TEST(OpInfoTest, ResultsWithoutGradientSaveNothing) {
  for (const OpInfo& row : AllOpInfo()) {
    if (row.differentiable) continue;
    EXPECT_TRUE(row.saved.known) << Label(row);
    EXPECT_EQ(row.saved.operands, 0u) << Label(row);
    EXPECT_EQ(row.saved.results, 0u) << Label(row);
  }
  for (const char* name :
       {"Shape", "Size", "ArgMax", "ArgMin", "NonZero", "Equal", "Less", "Not",
        "QuantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "Floor",
        "Constant", "RandomNormal"}) {
    EXPECT_FALSE(FindOpInfo("", name).differentiable) << name;
  }
}

// The ops that ONNX Runtime's CPU kernels were seen to compute in place, and a
// few that look as if they could be, but are not.
TEST(OpInfoTest, InPlaceIsWhatRuntimesDo) {
  std::set<std::string> in_place;
  for (const OpInfo& row : AllOpInfo()) {
    if (row.in_place != 0) in_place.insert(Label(row));
  }
  EXPECT_THAT(
      in_place,
      ::testing::UnorderedElementsAre(
          ":BitCast", ":Cast", ":CastLike", ":Celu", ":Clip", ":Elu",
          ":HardSigmoid", ":LeakyRelu", ":LogSoftmax", ":Relu", ":ScaledTanh",
          ":Scatter", ":ScatterElements", ":Selu", ":Shrink", ":Sigmoid",
          ":Softmax", ":Softplus", ":Softsign", ":Tanh", ":TensorScatter",
          ":ThresholdedRelu", ":Trilu", "com.microsoft:FusedConv",
          "com.microsoft:MoE", "com.microsoft:QMoE", "com.microsoft:SampleOp",
          "com.microsoft:Trilu", "com.microsoft.nchwc:Conv"));
  // Only the addend of a convolution is overwritten, never its image.
  EXPECT_EQ(FindOpInfo("com.microsoft", "FusedConv").in_place, 1u << 3);
  EXPECT_EQ(FindOpInfo("com.microsoft.nchwc", "Conv").in_place, 1u << 3);
  EXPECT_EQ(FindOpInfo("", "Relu").in_place, 1u);
}

TEST(OpInfoTest, SavedForBackward) {
  struct Case {
    const char* name;
    uint32_t operands;
    uint32_t results;
  };
  for (const Case& c :
       {Case{"Relu", 0, 1}, Case{"Add", 0, 0}, Case{"Mul", 3, 0},
        Case{"MatMul", 3, 0}, Case{"Conv", 3, 0}, Case{"MaxPool", 0, 2},
        Case{"Softmax", 0, 1}, Case{"Reshape", 0, 0},
        Case{"LayerNormalization", 3, 6}, Case{"Dropout", 6, 2},
        Case{"Gather", 2, 0}}) {
    const OpInfo& info = FindOpInfo("", c.name);
    EXPECT_TRUE(info.differentiable) << c.name;
    EXPECT_TRUE(info.saved.known) << c.name;
    EXPECT_EQ(info.saved.operands, c.operands) << c.name;
    EXPECT_EQ(info.saved.results, c.results) << c.name;
  }
  EXPECT_FALSE(FindOpInfo("", "Loop").saved.known);
}

// Free ops do no arithmetic, products and convolutions are expensive, and a
// cost that is known without a rule for its flops is a deliberate exception.
TEST(OpInfoTest, CostsAgreeWithFlops) {
  for (const char* name : {"MatMul", "Gemm", "Conv", "ConvTranspose", "LSTM",
                           "Attention", "Einsum", "QLinearConv"}) {
    EXPECT_EQ(FindOpInfo("", name).recompute, RecomputeCost::kExpensive);
    EXPECT_NE(FindOpInfo("", name).flops, nullptr) << name;
  }
  for (const char* name : {"If", "Loop", "Scan", "SequenceMap"}) {
    EXPECT_EQ(FindOpInfo("", name).recompute, RecomputeCost::kUnknown);
    EXPECT_EQ(FindOpInfo("", name).flops, nullptr) << name;
  }
  for (const OpInfo& row : AllOpInfo()) {
    if (row.recompute == RecomputeCost::kFree) {
      EXPECT_NE(row.flops, nullptr) << Label(row);
      EXPECT_FALSE(row.random) << Label(row);
    }
    if (row.recompute == RecomputeCost::kUnknown) {
      EXPECT_EQ(row.flops, nullptr) << Label(row);
    }
    EXPECT_FALSE(row.side_effect) << Label(row);
  }
}

TEST(OpInfoTest, ReductionsShareTheirShapeRule) {
  int num_reductions = 0;
  for (const OpInfo& row : AllOpInfo()) {
    if (!row.domain.empty() || !absl::StartsWith(row.name, "Reduce")) continue;
    ++num_reductions;
    EXPECT_EQ(row.shape, &shape_rules::Reduce) << Label(row);
    EXPECT_EQ(row.recompute, RecomputeCost::kModerate) << Label(row);
  }
  EXPECT_EQ(num_reductions, 10);
}

}  // namespace
}  // namespace onnx_memopt::ir
