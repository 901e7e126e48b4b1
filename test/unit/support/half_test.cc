#include "onnx_memopt/support/half.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace onnx_memopt {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(HalfTest, EveryNumberComesBack) {
  for (uint32_t i = 0; i <= UINT16_MAX; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    if (!std::isnan(FromFloat16(bits))) {
      ASSERT_EQ(ToFloat16(FromFloat16(bits)), bits) << i;
    }
    if (!std::isnan(FromBfloat16(bits))) {
      ASSERT_EQ(ToBfloat16(FromBfloat16(bits)), bits) << i;
    }
  }
}

// Between two neighbours the middle goes to the even one, all else to the
// nearer one.
TEST(HalfTest, RoundsToNearestEven) {
  for (uint16_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = FromFloat16(bits);
    const float high = FromFloat16(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact: float is wider
    ASSERT_EQ(ToFloat16(std::nextafter(middle, 0.0F)), bits);
    ASSERT_EQ(ToFloat16(std::nextafter(middle, kInfinity)), bits + 1);
    ASSERT_EQ(ToFloat16(middle), bits + bits % 2);
    ASSERT_EQ(ToFloat16(-middle), 0x8000 + bits + bits % 2);
  }
  EXPECT_EQ(ToBfloat16(std::bit_cast<float>(0x3f808000U)), 0x3f80);
  EXPECT_EQ(ToBfloat16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_EQ(ToBfloat16(std::bit_cast<float>(0x3f808001U)), 0x3f81);
}

TEST(HalfTest, BordersOfTheRange) {
  EXPECT_EQ(FromFloat16(0x7bff), kMaxFloat16);
  EXPECT_EQ(ToFloat16(65519.996F), 0x7bff);
  EXPECT_EQ(ToFloat16(65520.0F), 0x7c00);
  EXPECT_EQ(FromFloat16(0x7c00), kInfinity);
  EXPECT_EQ(ToFloat16(-kInfinity), 0xfc00);
  EXPECT_EQ(FromFloat16(0x0400), kMinNormalFloat16);
  EXPECT_EQ(ToFloat16(0x1p-25F), 0);  // halfway to the smallest: to even
  EXPECT_EQ(ToFloat16(0x1.8p-25F), 1);
  EXPECT_EQ(FromBfloat16(0x7f7f), kMaxBfloat16);
  EXPECT_EQ(ToBfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(FromFloat16(ToFloat16(std::nanf("")))));
  EXPECT_TRUE(std::isnan(FromBfloat16(ToBfloat16(
      std::bit_cast<float>(0x7fffffffU)))));  // a NaN with all bits set
}

}  // namespace
}  // namespace onnx_memopt
