// Random numbers that are the same on every machine: the distributions of
// <random> are not.
//
//   double x = UnitReal(MixBits(seed + i));
#ifndef ONNX_MEMOPT_SUPPORT_RANDOM_BITS_H_
#define ONNX_MEMOPT_SUPPORT_RANDOM_BITS_H_

#include <cstdint>

namespace onnx_memopt {

// Spreads the bits of x (the finaliser of SplitMix64).
inline uint64_t MixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// In [0, 1).
inline double UnitReal(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_RANDOM_BITS_H_
