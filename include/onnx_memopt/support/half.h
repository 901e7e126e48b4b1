// Between float and the two 16-bit floating-point formats, as bits. Rounding is
// to nearest, ties to even, and what is too large becomes infinity.
//
//   uint16_t one = ToFloat16(1.0F);  // 0x3c00
#ifndef ONNX_MEMOPT_SUPPORT_HALF_H_
#define ONNX_MEMOPT_SUPPORT_HALF_H_

#include <cstdint>

namespace onnx_memopt {

// The largest float16, and the smallest one of full precision.
inline constexpr float kMaxFloat16 = 65504.0F;
inline constexpr float kMinNormalFloat16 = 0x1p-14F;
inline constexpr float kMaxBfloat16 = 0x1.fep127F;
inline constexpr float kMinNormalBfloat16 = 0x1p-126F;

uint16_t ToFloat16(float value);
uint16_t ToBfloat16(float value);
float FromFloat16(uint16_t bits);
float FromBfloat16(uint16_t bits);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_HALF_H_
