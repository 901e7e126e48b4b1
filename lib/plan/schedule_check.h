// Is a schedule problem well formed? The search and the replay both ask first,
// so that neither needs a check of its own afterwards.
#ifndef ONNX_MEMOPT_PLAN_SCHEDULE_CHECK_H_
#define ONNX_MEMOPT_PLAN_SCHEDULE_CHECK_H_

#include "absl/status/status.h"
#include "onnx_memopt/plan/schedule.h"

namespace onnx_memopt::plan {

// Indices in range, readers ascending, sizes not negative, in-place pairs that
// belong to their node and are equal in size, and a sum of all sizes (with the
// largest extra_bytes) below 2^63. Does not look for cycles.
absl::Status CheckProblem(const ScheduleProblem& problem);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_SCHEDULE_CHECK_H_
