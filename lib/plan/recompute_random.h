// A small random generator whose numbers are the same everywhere (SplitMix64).
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_RANDOM_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_RANDOM_H_

#include <cstdint>

namespace onnx_memopt::plan {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [0, bound), bound > 0.
  int32_t Below(int32_t bound) {
    return static_cast<int32_t>(
        ((Next() >> 32) * static_cast<uint64_t>(bound)) >> 32);
  }
  // In [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_RANDOM_H_
