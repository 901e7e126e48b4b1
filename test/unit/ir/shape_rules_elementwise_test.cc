#include <cmath>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "unit/ir/shape_rule_harness.h"

namespace onnx_memopt::ir {
namespace {

using namespace shape_rules;  // NOLINT: the subject of this test
using testing::ContentsPtr;
using testing::Dims;
using testing::Ints;
using testing::Reals;
using testing::RealScalar;
using testing::Rule;
using testing::Scalar;

std::string AddTypes(absl::string_view a, absl::string_view b) {
  return Rule(Arithmetic, "Add").In(a).In(b).Types();
}

TEST(BroadcastTest, Dims) {
  EXPECT_EQ(AddTypes("float[2, 1]", "float[3]"), "float[2, 3]");
  EXPECT_EQ(AddTypes("float[b, 1, s]", "float[s, 1]"), "float[b, s, s]");
  EXPECT_EQ(AddTypes("float[b, s]", "float[768]"), "float[b, 768]");
  EXPECT_EQ(AddTypes("float[?]", "float[8]"), "float[8]");
  EXPECT_EQ(AddTypes("float[?]", "float[1]"), "float[?]");
  EXPECT_EQ(AddTypes("float[?]", "float[b]"), "float[?]");
  EXPECT_EQ(AddTypes("float[0]", "float[1]"), "float[0]");
  EXPECT_EQ(AddTypes("float[b]", "float[s]"), "float[max(b, s)]");
  EXPECT_EQ(AddTypes("float[s+1]", "float[b]"), "float[s + 1]");
  EXPECT_EQ(AddTypes("float[2]", "float[3]"), "float[...]");
  EXPECT_EQ(AddTypes("float[...]", "float[3]"), "float[...]");
  EXPECT_EQ(AddTypes("float[]", "float[]"), "float[]");
  // Before opset 7 the second operand was broadcast by an attribute.
  EXPECT_EQ(Rule(Arithmetic, "Add", 6)
                .In("float[2, 3, 4]")
                .In("float[3]")
                .Attr("broadcast", 1)
                .Attr("axis", 1)
                .Types(),
            "float[2, 3, 4]");
  EXPECT_EQ(Rule(BroadcastFloat, "Sum")
                .In("float[b, 1]")
                .In("float[4]")
                .In("float[1, 1, 1]")
                .Types(),
            "float[1, b, 4]");
  EXPECT_EQ(Rule(Comparison, "Less").In("float[b]").In("float[1]").Types(),
            "bool[b]");
  EXPECT_EQ(Rule(Where, "Where")
                .In("bool[s, 1]")
                .In("float[]")
                .In("float[b, 1, 4]")
                .Types(),
            "float[b, s, 4]");
}

std::string Integers(absl::string_view op, const ContentsPtr& a,
                     const ContentsPtr& b) {
  return Rule(Arithmetic, op).In(a).In(b).Values();
}

TEST(ArithmeticTest, IntegerContents) {
  EXPECT_EQ(Integers("Add", Dims({"b", "2", "?"}), Ints({1})), "{b + 1, 3, ?}");
  EXPECT_EQ(Integers("Sub", Ints({5}), Dims({"b"})), "{-b + 5}");
  EXPECT_EQ(Integers("Mul", Dims({"b", "s"}), Dims({"s", "3"})), "{b*s, 3*s}");
  EXPECT_EQ(Integers("Div", Ints({-7, 7}), Ints({2})), "{-3, 3}");
  EXPECT_EQ(Integers("Div", Dims({"s"}), Ints({2})), "{floor(s/2)}");
  EXPECT_EQ(Integers("Div", Ints({1}), Ints({0})), "none");
  EXPECT_EQ(Integers("Mod", Ints({-7}), Ints({3})), "{2}");
  EXPECT_EQ(Rule(Arithmetic, "Mod")
                .In(Ints({-7}))
                .In(Ints({3}))
                .Attr("fmod", 1)
                .Values(),
            "{-1}");
  EXPECT_EQ(Integers("Pow", Dims({"b", "2"}), Ints({3})), "{b^3, 8}");
  EXPECT_EQ(Integers("Max", Dims({"b", "-4"}), Ints({1})), "{b, 1}");
  EXPECT_EQ(Integers("Min", Dims({"b"}), Dims({"s"})), "{min(b, s)}");
  EXPECT_EQ(Integers("Add", Ints({1, 2}), Ints({1, 2, 3})), "none");
  const int64_t big = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Integers("Add", Ints({big, 1}), Ints({1})), "{?, 2}");
  // An int32 sum that would wrap.
  EXPECT_EQ(Rule(Arithmetic, "Add")
                .In("int32[1]", Ints({2147483647}))
                .In("int32[1]", Ints({1}))
                .Values(),
            "none");
}

TEST(ArithmeticTest, RealContents) {
  const auto real = [](absl::string_view op, double a, double b) {
    return Rule(Arithmetic, op)
        .In("float[]", RealScalar(a))
        .In("float[]", RealScalar(b))
        .Values();
  };
  EXPECT_EQ(real("Div", 7, 2), "{3.5}");
  EXPECT_EQ(real("Pow", 2, 3), "{8}");
  EXPECT_EQ(real("Pow", 10, -0.5), "none");
  EXPECT_EQ(real("Div", 1, 0), "none");
  EXPECT_EQ(real("Mul", 1e30, 1e30), "none");
  EXPECT_EQ(real("Add", std::nan(""), 1), "none");
  // In float, not in double.
  const Rule sum = Rule(Arithmetic, "Add")
                       .In("float[]", RealScalar(static_cast<double>(0.1F)))
                       .In("float[]", RealScalar(static_cast<double>(0.2F)))
                       .Run();
  EXPECT_EQ(sum.contents(0)->elements[0].real,
            static_cast<double>(0.1F + 0.2F));
}

TEST(UnaryTest, Contents) {
  const auto unary = [](absl::string_view op, double x) {
    return Rule(UnaryArithmetic, op).In("float[]", RealScalar(x)).Values();
  };
  EXPECT_EQ(unary("Floor", 2.7), "{2}");
  EXPECT_EQ(unary("Ceil", 2.2), "{3}");
  EXPECT_EQ(unary("Round", 2.5), "{2}");
  EXPECT_EQ(unary("Round", 3.5), "{4}");
  EXPECT_EQ(unary("Sqrt", 16), "{4}");
  EXPECT_EQ(unary("Sqrt", -1), "none");
  EXPECT_EQ(unary("Reciprocal", 4), "{0.25}");
  EXPECT_EQ(unary("Exp", 1), "none");
  EXPECT_EQ(Rule(UnaryArithmetic, "Neg").In(Dims({"b", "3"})).Values(),
            "{-b, -3}");
  EXPECT_EQ(Rule(UnaryArithmetic, "Abs").In(Dims({"b", "-3"})).Values(),
            "{b, 3}");
  EXPECT_EQ(Rule(BoolLikeFirst, "Not").In("bool[2]", Ints({0, 1})).Values(),
            "{1, 0}");
  EXPECT_EQ(Rule(BoolLikeFirst, "IsNaN").In("float[b]").Types(), "bool[b]");
}

TEST(ComparisonTest, Contents) {
  const auto compare = [](absl::string_view op, absl::string_view a,
                          absl::string_view b) {
    return Rule(Comparison, op)
        .In("int64[]", Scalar(a))
        .In("int64[]", Scalar(b))
        .Values();
  };
  EXPECT_EQ(compare("Equal", "b", "-1"), "{0}");
  EXPECT_EQ(compare("Equal", "b", "b"), "{1}");
  EXPECT_EQ(compare("Equal", "b", "s"), "none");
  // A size may be 0 at run time.
  EXPECT_EQ(compare("Equal", "past", "0"), "none");
  EXPECT_EQ(compare("Greater", "past", "0"), "none");
  EXPECT_EQ(compare("GreaterOrEqual", "past", "0"), "{1}");
  EXPECT_EQ(compare("Less", "s", "s+1"), "{1}");
  EXPECT_EQ(compare("LessOrEqual", "3", "2"), "{0}");
  EXPECT_EQ(compare("And", "?", "0"), "{0}");
  EXPECT_EQ(compare("And", "?", "1"), "none");
  EXPECT_EQ(compare("Or", "1", "?"), "{1}");
  EXPECT_EQ(compare("Xor", "1", "0"), "{1}");
  // Shape elements of -1 are replaced, as exporters of Expand write it.
  EXPECT_EQ(Rule(Where, "Where")
                .In("bool[3]", Dims({"0", "1", "?"}))
                .In("int64[3]", Dims({"1", "1", "s"}))
                .In("int64[3]", Dims({"b", "7", "s"}))
                .Values(),
            "{b, 1, s}");
}

std::string CastValues(absl::string_view from, const ContentsPtr& contents,
                       ElementType to) {
  return Rule(Cast, "Cast")
      .In(from, contents)
      .Attr("to", static_cast<int>(to))
      .Values();
}

TEST(CastTest, Contents) {
  EXPECT_EQ(CastValues("float[2]", Reals({2.9, -2.9}), ElementType::kInt64),
            "{2, -2}");
  EXPECT_EQ(CastValues("float[1]", Reals({1e300}), ElementType::kInt64),
            "none");
  EXPECT_EQ(CastValues("int64[2]", Ints({0, 5}), ElementType::kBool), "{0, 1}");
  EXPECT_EQ(CastValues("int64[1]", Ints({300}), ElementType::kUint8), "none");
  EXPECT_EQ(CastValues("int64[1]", Dims({"b"}), ElementType::kInt32), "{b}");
  EXPECT_EQ(CastValues("int64[1]", Dims({"b"}), ElementType::kInt8), "none");
  EXPECT_EQ(CastValues("int64[1]", Dims({"b"}), ElementType::kFloat16), "none");
  EXPECT_EQ(CastValues("int64[1]", Ints({1}), ElementType::kString), "none");
  EXPECT_EQ(Rule(Cast, "Cast").In("int64[b]").Attr("to", 99).Types(), "?[b]");
  EXPECT_EQ(Rule(CastLike, "CastLike").In("int64[b]").In("float[]").Types(),
            "float[b]");
}

// Interpolation by a factor: Shape -> Cast -> Mul -> Floor -> Cast.
TEST(CastTest, SymbolicSizesSurviveFloatingPoint) {
  Rule cast = Rule(Cast, "Cast").In(Dims({"h"})).Attr("to", 1).Run();
  Rule scaled = Rule(Arithmetic, "Mul")
                    .In(cast.type(0), cast.contents(0))
                    .In("float[]", RealScalar(2))
                    .Run();
  Rule floor = Rule(UnaryArithmetic, "Floor")
                   .In(scaled.type(0), scaled.contents(0))
                   .Run();
  Rule back =
      Rule(Cast, "Cast").In(floor.type(0), floor.contents(0)).Attr("to", 7);
  EXPECT_EQ(back.Values(), "{2*h}");
}

TEST(TypeOfResultTest, Others) {
  EXPECT_EQ(Rule(SameAsFirst, "Relu").In("float[b, 3]").Types(), "float[b, 3]");
  EXPECT_EQ(Rule(SameAsFirst, "Identity").In(Dims({"b"})).Values(), "{b}");
  EXPECT_EQ(Rule(SameAsFirst, "Relu").In("float[1]", Reals({-1})).Values(),
            "none");
  EXPECT_EQ(Rule(Dropout, "Dropout").In("float[b]").Results(2).Types(),
            "float[b], bool[b]");
  EXPECT_EQ(Rule(Dropout, "Dropout", 7).In("float[b]").Results(2).Types(),
            "float[b], float[b]");
  EXPECT_EQ(Rule(QuantizeLinear, "QuantizeLinear")
                .In("float[b]")
                .In("float[]")
                .Types(),
            "uint8[b]");
  EXPECT_EQ(Rule(QuantizeLinear, "QuantizeLinear")
                .In("float[b]")
                .In("float[]")
                .In("int8[]")
                .Types(),
            "int8[b]");
  EXPECT_EQ(Rule(QuantizeLinear, "QuantizeLinear", 21)
                .In("float[b]")
                .In("float[]")
                .Attr("output_dtype", 22)
                .Types(),
            "int4[b]");
  EXPECT_EQ(Rule(DequantizeLinear, "DequantizeLinear")
                .In("int8[b]")
                .In("float16[]")
                .Types(),
            "float16[b]");
  EXPECT_EQ(Rule(DynamicQuantizeLinear, "DynamicQuantizeLinear")
                .In("float[b]")
                .Results(3)
                .Types(),
            "uint8[b], float[], uint8[]");
  EXPECT_EQ(Rule(RandomLike, "RandomNormalLike")
                .In("float[b]")
                .Attr("dtype", 11)
                .Types(),
            "double[b]");
  EXPECT_EQ(Rule(EyeLike, "EyeLike").In("float[b, 2]").Types(), "float[b, 2]");
}

}  // namespace
}  // namespace onnx_memopt::ir
