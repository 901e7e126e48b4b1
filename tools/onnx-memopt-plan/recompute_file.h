// Reads recomputation problems, and writes plans. The formats:
//
//   {"n": 3, "memory": [2, 2, 2], "cost": [1, 1, 1], "edges": [[0, 1], [1, 2]]}
//   {"sequence": [0, 1, 0, 2], ...}
#ifndef ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_RECOMPUTE_FILE_H_
#define ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_RECOMPUTE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/plan/recompute.h"

namespace onnx_memopt::cli {

// Messages begin with the file's name and the line, then a JSON pointer to what
// is wrong.
absl::StatusOr<plan::RecomputeProblem> ReadRecomputeProblem(
    const std::string& path);

absl::Status WriteRecomputePlan(const std::string& path,
                                const plan::RecomputeResult& result);

// One line of JSON.
std::string DescribeRecompute(const plan::RecomputeProblem& problem,
                              const plan::RecomputeOptions& options,
                              const plan::RecomputeResult& result);

}  // namespace onnx_memopt::cli

#endif  // ONNX_MEMOPT_TOOLS_ONNX_MEMOPT_PLAN_RECOMPUTE_FILE_H_
