// 64-bit arithmetic that says when it overflows. Sizes in this project are
// signed 64-bit byte counts; a model file can name any dimensions it likes, so
// no product or sum of them is taken unchecked.
//
//   std::optional<int64_t> bytes = CheckedMul(rows, row_bytes);
//   if (!bytes) return absl::InvalidArgumentError("...");
#ifndef ONNX_MEMOPT_SUPPORT_CHECKED_MATH_H_
#define ONNX_MEMOPT_SUPPORT_CHECKED_MATH_H_

#include <cstdint>
#include <limits>
#include <optional>

namespace onnx_memopt {

inline std::optional<int64_t> CheckedAdd(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

inline std::optional<int64_t> CheckedSub(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_sub_overflow(a, b, &result)) return std::nullopt;
  return result;
}

inline std::optional<int64_t> CheckedMul(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// Sums of sizes that are each valid stay at the largest value instead of
// wrapping: a total of that size means "too large", never a small number.
inline int64_t SaturatingAdd(int64_t a, int64_t b) {
  return CheckedAdd(a, b).value_or(std::numeric_limits<int64_t>::max());
}

// Rounds towards minus infinity, unlike operator/. Requires b > 0.
inline int64_t FloorDiv(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// Rounds towards plus infinity. Requires b > 0.
inline int64_t CeilDiv(int64_t a, int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_CHECKED_MATH_H_
