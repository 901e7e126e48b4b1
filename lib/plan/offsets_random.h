// Random numbers that are the same on every machine: the distributions of
// <random> are not.
#ifndef ONNX_MEMOPT_PLAN_OFFSETS_RANDOM_H_
#define ONNX_MEMOPT_PLAN_OFFSETS_RANDOM_H_

#include <cstdint>

namespace onnx_memopt::plan {

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

class OffsetRandom {
 public:
  explicit OffsetRandom(uint64_t seed) : state_(MixBits(seed)) {}
  uint64_t Bits() { return MixBits(state_++); }
  double Real() { return UnitReal(Bits()); }

 private:
  uint64_t state_;
};

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_OFFSETS_RANDOM_H_
