#include "onnx_memopt/ir/type.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "onnx_memopt/ir/contents.h"

namespace onnx_memopt::ir {
namespace {

const Dim kSeq = Dim::Symbol("seq");

std::string Bytes(const Type& type) {
  const std::optional<Dim> bytes = SizeBytes(type);
  return bytes ? bytes->ToString() : "none";
}

Type Nest(TypeKind kind, Type held) {
  Type type;
  type.kind = kind;
  type.nested = std::make_shared<const Type>(std::move(held));
  return type;
}

TEST(TypeTest, EveryElementTypeHasNameAndWidth) {
  for (int i = 1; i <= 28; ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_TRUE(BitWidth(type).has_value()) << i;
    EXPECT_NE(std::string(Name(type)), "undefined") << i;
  }
  for (const int i : {0, 29, 255}) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_FALSE(BitWidth(type).has_value()) << i;
    EXPECT_EQ(std::string(Name(type)), "undefined") << i;
  }
  EXPECT_EQ(BitWidth(ElementType::kInt4), 4);
  EXPECT_EQ(BitWidth(ElementType::kUint2), 2);
  EXPECT_EQ(BitWidth(ElementType::kComplex128), 128);
}

TEST(TypeTest, SizesOfTensors) {
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kFloat, Shape{Dim(8), kSeq})),
            "32*seq");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kFloat, Shape{})), "4");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kString, Shape{Dim(3)})), "96");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kInt4, Shape{Dim(3)})), "2");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kInt2, Shape{Dim(5)})), "2");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kUint4, Shape{kSeq})),
            "floor((seq + 1)/2)");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kUint4, Shape{kSeq, Dim(2)})),
            "seq");
}

TEST(TypeTest, WhatIsUnknownHasNoSize) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(Bytes(Type()), "none");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kFloat, std::nullopt)), "none");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kFloat, Shape{std::nullopt})),
            "none");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kUndefined, Shape{Dim(1)})),
            "none");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kFloat, Shape{Dim(huge)})), "none");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kFloat, Shape{Dim(-1)})), "none");
  EXPECT_EQ(Bytes(Type::Tensor(ElementType::kFloat,
                               Shape{Dim(huge), Dim(huge), Dim(0)})),
            "0");
  const Type tensor = Type::Tensor(ElementType::kFloat, Shape{Dim(2)});
  EXPECT_EQ(Bytes(Nest(TypeKind::kSequence, tensor)), "none");
  EXPECT_EQ(Bytes(Nest(TypeKind::kOptional, tensor)), "8");
  EXPECT_EQ(Bytes(Nest(TypeKind::kOptional, Nest(TypeKind::kSequence, tensor))),
            "none");
}

TEST(TypeTest, Text) {
  EXPECT_EQ(ToString(Type::Tensor(ElementType::kFloat, Shape{Dim(8), kSeq})),
            "float[8, seq]");
  EXPECT_EQ(ToString(Type::Tensor(ElementType::kInt64, Shape{std::nullopt})),
            "int64[?]");
  EXPECT_EQ(ToString(Type::Tensor(ElementType::kFloat, std::nullopt)),
            "float[...]");
  EXPECT_EQ(ToString(Type::Tensor(ElementType::kFloat, Shape{})), "float[]");
  EXPECT_EQ(ToString(Type()), "?");
  const Type tensor = Type::Tensor(ElementType::kFloat, Shape{Dim(2)});
  EXPECT_EQ(ToString(Nest(TypeKind::kSequence, tensor)), "seq(float[2])");
  EXPECT_EQ(ToString(Nest(TypeKind::kOptional, Type())), "optional(?)");
  Type map = Nest(TypeKind::kMap, tensor);
  map.element = ElementType::kInt64;
  EXPECT_EQ(ToString(map), "map(int64, float[2])");
  Type deep = tensor;
  for (int i = 0; i < 10'000; ++i) deep = Nest(TypeKind::kSequence, deep);
  EXPECT_LT(ToString(deep).size(), 200u);
}

TEST(ContentsTest, Equality) {
  const Contents a{{2}, {Element::Integer(kSeq), Element{}}};
  EXPECT_TRUE(a == a);
  EXPECT_FALSE(a == (Contents{{2}, {Element::Integer(Dim(1)), Element{}}}));
  EXPECT_FALSE(a == (Contents{{1, 2}, a.elements}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE((Contents{{}, {Element::Real(nan)}}) ==
              (Contents{{}, {Element::Real(nan)}}));
  EXPECT_FALSE((Contents{{}, {Element::Real(1)}}) ==
               (Contents{{}, {Element::Real(2)}}));
}

}  // namespace
}  // namespace onnx_memopt::ir
