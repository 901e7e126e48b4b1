// A part of the forward pass that the backward pass makes again.
//
//   for (const RecomputedSegment& s : result.segments) saved += s.bytes;
#ifndef ONNX_MEMOPT_GRAD_RECOMPUTED_SEGMENT_H_
#define ONNX_MEMOPT_GRAD_RECOMPUTED_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace onnx_memopt::grad {

struct RecomputedSegment {
  std::string first;  // node names
  std::string last;
  size_t nodes = 0;
  int64_t bytes = 0;   // that need not be kept
  double seconds = 0;  // by a model of time: arithmetic or traffic
};

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_RECOMPUTED_SEGMENT_H_
