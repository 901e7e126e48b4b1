#include "onnx_memopt/rewrite/builder.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::ElementType;

// The bits of one number as an initializer holds them.
template <typename Bits>
Bits BitsOf(double value, ElementType element) {
  ir::Graph graph;
  graph.AddBlock({});
  Builder builder(&graph);
  const ir::ValueId id = builder.Real(ir::kMainBlock, "number", element, value);
  const ir::Weight& weight = graph.weight(graph.value(id).weight);
  EXPECT_EQ(weight.bytes.size(), sizeof(Bits));
  EXPECT_EQ(weight.size_bytes, static_cast<int64_t>(sizeof(Bits)));
  Bits bits;
  std::memcpy(&bits, weight.bytes.data(), sizeof(Bits));
  return bits;
}

uint16_t Half(double value) {
  return BitsOf<uint16_t>(value, ElementType::kFloat16);
}
uint16_t Brain(double value) {
  return BitsOf<uint16_t>(value, ElementType::kBfloat16);
}

TEST(BuilderTest, HalfPrecisionIsRoundedToNearestEven) {
  EXPECT_EQ(Half(0), 0x0000);
  EXPECT_EQ(Half(1), 0x3c00);
  EXPECT_EQ(Half(-2), 0xc000);
  EXPECT_EQ(Half(0.1), 0x2e66);
  EXPECT_EQ(Half(1 + 0x1p-11), 0x3c00);      // halfway: to the even one
  EXPECT_EQ(Half(1 + 3 * 0x1p-11), 0x3c02);  // halfway: to the even one
  EXPECT_EQ(Half(65504), 0x7bff);            // the largest
  EXPECT_EQ(Half(65519), 0x7bff);
  EXPECT_EQ(Half(65520), 0x7c00);  // infinity
  EXPECT_EQ(Half(0x1p-14), 0x0400);
  EXPECT_EQ(Half(0x1p-14 - 0x1p-24), 0x03ff);  // the largest subnormal
  EXPECT_EQ(Half(0x1p-24), 0x0001);
  EXPECT_EQ(Half(std::numeric_limits<double>::quiet_NaN()), 0x7e00);
}

TEST(BuilderTest, BrainFloatIsTheUpperHalfRounded) {
  EXPECT_EQ(Brain(1), 0x3f80);
  EXPECT_EQ(Brain(-1), 0xbf80);
  EXPECT_EQ(Brain(1 + 0x1p-8), 0x3f80);
  EXPECT_EQ(Brain(1 + 3 * 0x1p-8), 0x3f82);
}

TEST(BuilderTest, WiderNumbersAreAsTheyAre) {
  EXPECT_EQ(BitsOf<uint32_t>(1, ElementType::kFloat), 0x3f800000);
  EXPECT_EQ(BitsOf<uint64_t>(1, ElementType::kDouble), 0x3ff0000000000000);
}

}  // namespace
}  // namespace onnx_memopt::rewrite
