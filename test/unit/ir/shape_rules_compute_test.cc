#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "unit/ir/shape_rule_harness.h"

namespace onnx_memopt::ir {
namespace {

using namespace shape_rules;  // NOLINT: the subject of this test
using testing::Dims;
using testing::Ints;
using testing::Rule;
using testing::Scalar;

std::string Product(absl::string_view a, absl::string_view b) {
  return Rule(MatMul, "MatMul").In(a).In(b).Types();
}

TEST(MatMulTest, Shapes) {
  EXPECT_EQ(Product("float[b, s, 768]", "float[768, 64]"), "float[b, s, 64]");
  EXPECT_EQ(Product("float[b, 1, s, 4]", "float[12, 4, s]"),
            "float[b, 12, s, s]");
  EXPECT_EQ(Product("float[4]", "float[4]"), "float[]");
  EXPECT_EQ(Product("float[4]", "float[b, 4, 2]"), "float[b, 2]");
  EXPECT_EQ(Product("float[b, 2, 4]", "float[4]"), "float[b, 2]");
  EXPECT_EQ(Product("float[2, 3]", "float[4, 5]"), "float[...]");
  EXPECT_EQ(Product("float[]", "float[4]"), "float[...]");
  EXPECT_EQ(Rule(MatMulInteger, "MatMulInteger")
                .In("uint8[b, 2]")
                .In("int8[2, 3]")
                .Types(),
            "int32[b, 3]");
  EXPECT_EQ(Rule(QLinearMatMul, "QLinearMatMul")
                .In("uint8[b, 2]")
                .In("float[]")
                .In("uint8[]")
                .In("int8[2, 3]")
                .In("float[]")
                .In("int8[]")
                .In("float[]")
                .In("int8[]")
                .Types(),
            "int8[b, 3]");
  EXPECT_EQ(Rule(Gemm, "Gemm")
                .In("float[3, b]")
                .In("float[5, 3]")
                .Attr("transA", 1)
                .Attr("transB", 1)
                .Types(),
            "float[b, 5]");
  EXPECT_EQ(Rule(FusedMatMul, "FusedMatMul", 1)
                .Domain("com.microsoft")
                .In("float[b, s, 4]")
                .In("float[b, s, 4]")
                .Attr("transB", 1)
                .Types(),
            "float[b, s, s]");
}

std::string EinsumTypes(const char* equation,
                        const std::vector<std::string>& operands) {
  Rule rule(Einsum, "Einsum");
  for (const std::string& operand : operands) rule.In(operand);
  return rule.Attr("equation", equation).Types();
}

TEST(EinsumTest, Equations) {
  EXPECT_EQ(EinsumTypes("bhid,bhjd->bhij",
                        {"float[b, 12, s, 64]", "float[b, 12, t, 64]"}),
            "float[b, 12, s, t]");
  EXPECT_EQ(EinsumTypes("ij,jk", {"float[2, 3]", "float[3, n]"}),
            "float[2, n]");
  EXPECT_EQ(EinsumTypes("ii->i", {"float[n, n]"}), "float[n]");
  EXPECT_EQ(EinsumTypes("ii", {"float[n, n]"}), "float[]");
  EXPECT_EQ(
      EinsumTypes("... i, ... j -> ... i j", {"float[b, 1, 2]", "float[4, 3]"}),
      "float[b, 4, 2, 3]");
  EXPECT_EQ(EinsumTypes("...ij->...ji", {"float[b, s, 2, 3]"}),
            "float[b, s, 3, 2]");
  for (const char* bad : {"ij->k", "ij->ii", "i->i", "ij,jk->ik", "i.j->i",
                          "i1->i", "", "ij->...->i"}) {
    EXPECT_EQ(EinsumTypes(bad, {"float[2, 3]"}), "float[...]") << bad;
  }
}

Rule ConvRule(absl::string_view x, absl::string_view w) {
  return Rule(Conv, "Conv").In(x).In(w);
}

TEST(ConvTest, Shapes) {
  EXPECT_EQ(ConvRule("float[b, 3, 224, 224]", "float[64, 3, 7, 7]")
                .List("strides", {2, 2})
                .List("pads", {3, 3, 3, 3})
                .Types(),
            "float[b, 64, 112, 112]");
  EXPECT_EQ(ConvRule("float[b, 3, h, w]", "float[64, 3, 3, 3]")
                .List("strides", {2, 1})
                .List("pads", {1, 1, 1, 1})
                .Types(),
            "float[b, 64, floor((h + 1)/2), w]");
  EXPECT_EQ(ConvRule("float[1, 4, 20]", "float[8, 1, 3]")
                .List("dilations", {4})
                .Attr("group", 4)
                .Types(),
            "float[1, 8, 12]");
  EXPECT_EQ(ConvRule("float[1, 4, h]", "float[8, 4, 3]")
                .List("strides", {2})
                .Attr("auto_pad", "SAME_UPPER")
                .Types(),
            "float[1, 8, floor((h + 1)/2)]");
  EXPECT_EQ(ConvRule("float[1, 4, 10]", "float[8, 4, 3]")
                .Attr("auto_pad", "VALID")
                .Types(),
            "float[1, 8, 8]");
  EXPECT_EQ(ConvRule("float[1, 4, 10]", "float[?, 4, ?]")
                .List("kernel_shape", {3})
                .Types(),
            "float[1, ?, 8]");
  EXPECT_EQ(ConvRule("float[1, 4, 2]", "float[8, 4, 9]").Types(),
            "float[1, 8, ?]");
  EXPECT_EQ(ConvRule("float[1, 4, 10]", "float[8, 4, 3]")
                .List("strides", {0})
                .Types(),
            "float[1, 8, ?]");
  EXPECT_EQ(Rule(ConvInteger, "ConvInteger")
                .In("uint8[1, 4, 10]")
                .In("uint8[8, 4, 3]")
                .Types(),
            "int32[1, 8, 8]");
  EXPECT_EQ(Rule(QLinearConv, "QLinearConv")
                .In("uint8[1, 4, 10]")
                .In("float[]")
                .In("uint8[]")
                .In("int8[8, 4, 3]")
                .In("float[]")
                .In("int8[]")
                .In("float[]")
                .In("uint8[]")
                .Types(),
            "uint8[1, 8, 8]");
}

TEST(ConvTest, Transposed) {
  const auto rule = [] {
    return Rule(ConvTranspose, "ConvTranspose")
        .In("float[b, 8, h]")
        .In("float[8, 3, 4]");
  };
  EXPECT_EQ(rule().List("strides", {2}).List("pads", {1, 1}).Types(),
            "float[b, 3, 2*h]");
  EXPECT_EQ(rule().List("strides", {2}).List("output_padding", {1}).Types(),
            "float[b, 3, 2*h + 3]");
  EXPECT_EQ(rule().List("dilations", {2}).Attr("group", 2).Types(),
            "float[b, 6, h + 6]");
  EXPECT_EQ(rule().List("output_shape", {33}).Types(), "float[b, 3, 33]");
  EXPECT_EQ(rule().List("strides", {3}).Attr("auto_pad", "SAME_LOWER").Types(),
            "float[b, 3, 3*h]");
}

TEST(NchwcTest, ChannelsFillBlocks) {
  const auto in = [](absl::string_view x) {
    return Rule(NchwcReorderInput, "ReorderInput").In(x);
  };
  EXPECT_EQ(in("float[b, 32, 7, 9]").Types(), "float[b, 32, 7, 9]");
  // 24 or 32, as the blocks of the machine are.
  EXPECT_EQ(in("float[b, 24, 7, 9]").Types(), "float[b, ?, 7, 9]");
  // 16 with either size.
  EXPECT_EQ(in("float[b, 9, 7, 9]").Types(), "float[b, 16, 7, 9]");
  EXPECT_EQ(in("float[b, 7, 9, 48]").Attr("channels_last", 1).Types(),
            "float[b, 48, 7, 9]");
  const auto out = [](absl::string_view x) {
    return Rule(NchwcReorderOutput, "ReorderOutput").In(x).Attr("channels", 30);
  };
  EXPECT_EQ(out("float[b, 32, 7, h]").Types(), "float[b, 30, 7, h]");
  EXPECT_EQ(out("float[b, 32, 7, h]").Attr("channels_last", 1).Types(),
            "float[b, 7, h, 30]");
}

TEST(NchwcTest, Upsample) {
  EXPECT_EQ(Rule(NchwcUpsample, "Upsample")
                .In("float[b, 16, 7, h]")
                .List("scales", {1, 1, 2, 3})
                .Types(),
            "float[b, 16, 14, 3*h]");
}

TEST(PoolTest, Shapes) {
  const auto pool = [](absl::string_view x) {
    return Rule(Pool, "MaxPool").In(x);
  };
  EXPECT_EQ(pool("float[b, 64, 112, h]")
                .List("kernel_shape", {3, 3})
                .List("strides", {2, 2})
                .List("pads", {1, 1, 1, 1})
                .Results(2)
                .Types(),
            "float[b, 64, 56, floor((h + 1)/2)], "
            "int64[b, 64, 56, floor((h + 1)/2)]");
  EXPECT_EQ(pool("float[1, 1, 4]")
                .List("kernel_shape", {3})
                .List("strides", {2})
                .Attr("ceil_mode", 1)
                .Types(),
            "float[1, 1, 2]");
  // ceil gives 3, but the third window would begin in the padding.
  EXPECT_EQ(pool("float[1, 1, 2]")
                .List("kernel_shape", {1})
                .List("strides", {2})
                .List("pads", {0, 1})
                .Attr("ceil_mode", 1)
                .Types(),
            "float[1, 1, 1]");
  EXPECT_EQ(pool("float[1, 1, 4]").Types(), "float[1, 1, ?]");
  EXPECT_EQ(
      Rule(GlobalPool, "GlobalAveragePool").In("float[b, 3, h, 2]").Types(),
      "float[b, 3, 1, 1]");
}

TEST(ReduceTest, Shapes) {
  const auto reduce = [](int opset = 18) {
    return Rule(Reduce, "ReduceMean", opset).In("float[b, 2, s]");
  };
  EXPECT_EQ(reduce(13).List("axes", {-1}).Types(), "float[b, 2, 1]");
  EXPECT_EQ(reduce().In(Ints({0, 2})).Attr("keepdims", 0).Types(), "float[2]");
  EXPECT_EQ(reduce().Types(), "float[1, 1, 1]");
  EXPECT_EQ(reduce().Attr("keepdims", 0).Types(), "float[]");
  EXPECT_EQ(reduce().In(Ints({})).Types(), "float[1, 1, 1]");
  EXPECT_EQ(reduce().In(Ints({})).Attr("noop_with_empty_axes", 1).Types(),
            "float[b, 2, s]");
  EXPECT_EQ(reduce().In("int64[1]").Types(), "float[?, ?, ?]");
  EXPECT_EQ(reduce().In("int64[1]").Attr("keepdims", 0).Types(), "float[?, ?]");
  EXPECT_EQ(reduce().In(Ints({3})).Types(), "float[...]");
  EXPECT_EQ(Rule(Reduce, "ReduceProd")
                .In(Dims({"b", "s", "4"}))
                .Attr("keepdims", 0)
                .Values(),
            "{4*b*s}");
  EXPECT_EQ(Rule(Reduce, "ReduceMax").In(Dims({"b", "1"})).Values(), "{b}");
  EXPECT_EQ(
      Rule(Reduce, "ReduceSum", 13).In(Dims({"b", "?"})).In(Ints({0})).Values(),
      "none");
  EXPECT_EQ(Rule(ArgReduce, "ArgMax")
                .In("float[b, s, 9]")
                .Attr("axis", -1)
                .Attr("keepdims", 0)
                .Types(),
            "int64[b, s]");
  EXPECT_EQ(Rule(TopK, "TopK")
                .In("float[b, 9]")
                .In("int64[1]", Dims({"k"}))
                .Results(2)
                .Types(),
            "float[b, k], int64[b, k]");
  EXPECT_EQ(Rule(TopK, "TopK", 1)
                .In("float[b, 9]")
                .Attr("k", 5)
                .Attr("axis", 0)
                .Results(2)
                .Types(),
            "float[5, 9], int64[5, 9]");
}

TEST(NormalizationTest, Shapes) {
  const auto batch = [](int opset) {
    return Rule(BatchNormalization, "BatchNormalization", opset)
        .In("float16[b, 3, h]")
        .In("float16[3]")
        .In("float16[3]")
        .In("float[3]")
        .In("float[3]");
  };
  EXPECT_EQ(batch(15).Types(), "float16[b, 3, h]");
  EXPECT_EQ(batch(15).Attr("training_mode", 1).Results(3).Types(),
            "float16[b, 3, h], float[3], float[3]");
  EXPECT_EQ(batch(9).Results(5).Types(),
            "float16[b, 3, h], float16[3], float16[3], float16[3], "
            "float16[3]");
  EXPECT_EQ(Rule(LayerNormalization, "LayerNormalization")
                .In("float16[b, s, 8]")
                .In("float16[8]")
                .Results(3)
                .Types(),
            "float16[b, s, 8], float[b, s, 1], float[b, s, 1]");
  EXPECT_EQ(Rule(SkipLayerNormalization, "SkipLayerNormalization", 1)
                .Domain("com.microsoft")
                .In("float16[b, s, 8]")
                .In("float16[b, s, 8]")
                .In("float16[8]")
                .Results(4)
                .Types(),
            "float16[b, s, 8], float[b, s, 1], float[b, s, 1], "
            "float16[b, s, 8]");
}

TEST(RecurrentTest, Shapes) {
  const auto lstm = [](const char* direction, int layout) {
    return Rule(Recurrent, "LSTM")
        .In("float[s, b, 16]")
        .In("float[2, 128, 16]")
        .In("float[2, 128, 32]")
        .Attr("direction", direction)
        .Attr("layout", layout)
        .Results(3)
        .Types();
  };
  EXPECT_EQ(lstm("bidirectional", 0),
            "float[s, 2, b, 32], float[2, b, 32], float[2, b, 32]");
  EXPECT_EQ(lstm("reverse", 1),
            "float[s, b, 1, 32], float[s, 1, 32], float[s, 1, 32]");
  EXPECT_EQ(Rule(Recurrent, "GRU")
                .In("float[s, b, 16]")
                .Attr("hidden_size", 8)
                .Results(2)
                .Types(),
            "float[s, 1, b, 8], float[1, b, 8]");
}

TEST(AttentionTest, Shapes) {
  EXPECT_EQ(Rule(Attention, "Attention", 23)
                .In("float[b, 8, s, 64]")
                .In("float[b, 2, s, 64]")
                .In("float[b, 2, s, 32]")
                .Out()
                .In("float[b, 2, p, 64]")
                .In("float[b, 2, p, 32]")
                .Results(4)
                .Types(),
            "float[b, 8, s, 32], float[b, 2, p + s, 64], "
            "float[b, 2, p + s, 32], float[b, 8, s, p + s]");
  EXPECT_EQ(Rule(Attention, "Attention", 23)
                .In("float[b, s, 512]")
                .In("float[b, t, 128]")
                .In("float[b, t, 64]")
                .Attr("q_num_heads", 8)
                .Attr("kv_num_heads", 2)
                .Results(4)
                .Types(),
            "float[b, s, 256], float[b, 2, t, 64], float[b, 2, t, 32], "
            "float[b, 8, s, t]");
  EXPECT_EQ(Rule(Attention, "Attention", 1)
                .Domain("com.microsoft")
                .In("float[b, s, 512]")
                .Types(),
            "?");
}

}  // namespace
}  // namespace onnx_memopt::ir
