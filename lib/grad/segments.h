// Checkpoints by segments: the forward pass in pieces, each of which the
// backward pass makes again as a whole when it needs it. What crosses from one
// piece to another is kept.
//
//   forward   [ segment 0 ]|[ segment 1 ]|[ the last: kept ]
//   backward  ... <- segment 1' <- ... <- segment 0' <- ...
#ifndef ONNX_MEMOPT_LIB_GRAD_SEGMENTS_H_
#define ONNX_MEMOPT_LIB_GRAD_SEGMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "grad/step_units.h"

namespace onnx_memopt::grad {

// By unit: its segment, of about as much saved memory each, cut where little
// crosses. -1: the last one, and the backward pass.
std::vector<int32_t> CutIntoSegments(const StepUnits& units, int segments);

// The runs of a step that keeps of each segment only what is read outside of
// it; -1: all is kept.
std::vector<int32_t> RunsOfSegments(const StepUnits& units,
                                    absl::Span<const int32_t> segment_of);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_SEGMENTS_H_
