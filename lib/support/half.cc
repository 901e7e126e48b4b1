#include "onnx_memopt/support/half.h"

#include <bit>
#include <cmath>

namespace onnx_memopt {

uint16_t ToFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16U) & 0x8000U);
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00U);
  // Halfway to the next power of two rounds to it, and that is infinity.
  if (magnitude >= 65520.0F) return static_cast<uint16_t>(sign | 0x7c00U);
  if (magnitude < kMinNormalFloat16) {  // subnormal: a multiple of 2^-24
    const auto steps =
        static_cast<uint16_t>(std::nearbyint(magnitude * 0x1p24F));
    return static_cast<uint16_t>(sign | steps);
  }
  const uint32_t rest = bits & 0x7fffffffU;
  const uint32_t rounded = rest + 0xfffU + ((rest >> 13U) & 1U);
  return static_cast<uint16_t>(sign | ((rounded - (112U << 23U)) >> 13U));
}

uint16_t ToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // Rounding up a NaN could make it a number.
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

float FromFloat16(uint16_t bits) {
  const uint32_t exponent = (bits >> 10U) & 0x1fU;
  const uint32_t fraction = bits & 0x3ffU;
  const uint32_t sign = (bits & 0x8000U) << 16U;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 0x1fU ? 0xffU : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23U) | (fraction << 13U));
}

float FromBfloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16U);
}

}  // namespace onnx_memopt
