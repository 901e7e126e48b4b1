// A stream of random numbers that are the same on every machine.
#ifndef ONNX_MEMOPT_PLAN_OFFSETS_RANDOM_H_
#define ONNX_MEMOPT_PLAN_OFFSETS_RANDOM_H_

#include <cstdint>

#include "onnx_memopt/support/random_bits.h"

namespace onnx_memopt::plan {

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
