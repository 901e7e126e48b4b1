// A checked recomputation problem, with what the searches look up all the time.
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_MODEL_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/plan/recompute.h"

namespace onnx_memopt::plan {

struct RecomputeModel {
  int32_t n = 0;
  std::vector<int64_t> memory;
  std::vector<int64_t> cost;
  int64_t base_cost = 0;  // every node once
  std::vector<std::vector<int32_t>> inputs;
  std::vector<std::vector<int32_t>> users;
  std::vector<int32_t> order;  // valid
  std::vector<int32_t> rank;   // of a node in `order`

  // Fails if the problem is malformed, has a cycle, or its sums overflow.
  static absl::StatusOr<RecomputeModel> Create(const RecomputeProblem& problem);
};

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_MODEL_H_
