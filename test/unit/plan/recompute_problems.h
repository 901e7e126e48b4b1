// Recomputation problems for tests.
#ifndef ONNX_MEMOPT_TEST_UNIT_PLAN_RECOMPUTE_PROBLEMS_H_
#define ONNX_MEMOPT_TEST_UNIT_PLAN_RECOMPUTE_PROBLEMS_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "onnx_memopt/plan/recompute.h"

namespace onnx_memopt::plan {

inline int32_t AddNode(RecomputeProblem& problem, int64_t memory, int64_t cost,
                       std::vector<int32_t> inputs) {
  problem.memory.push_back(memory);
  problem.cost.push_back(cost);
  std::sort(inputs.begin(), inputs.end());
  inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  problem.inputs.push_back(std::move(inputs));
  return static_cast<int32_t>(problem.memory.size()) - 1;
}

// A training chain: layers f0 -> f1 -> ..., a loss, and for each layer, from
// the last, a gradient that reads the gradient before it, and the layer's
// input.
inline RecomputeProblem TrainingChain(int layers, std::mt19937* random,
                                      int64_t max_memory = 1,
                                      int64_t max_cost = 1) {
  const auto draw = [random](int64_t limit) {
    if (random == nullptr) return limit;
    return std::uniform_int_distribution<int64_t>(1, limit)(*random);
  };
  RecomputeProblem problem;
  std::vector<int32_t> forward;
  for (int i = 0; i < layers; ++i) {
    forward.push_back(AddNode(problem, draw(max_memory), draw(max_cost),
                              i == 0 ? std::vector<int32_t>{}
                                     : std::vector<int32_t>{forward.back()}));
  }
  int32_t gradient =
      AddNode(problem, draw(max_memory), draw(max_cost), {forward.back()});
  for (int i = layers - 1; i >= 0; --i) {
    std::vector<int32_t> inputs = {gradient};
    if (i > 0) inputs.push_back(forward[i - 1]);
    gradient =
        AddNode(problem, draw(max_memory), draw(max_cost), std::move(inputs));
  }
  return problem;
}

// Each node reads up to `max_inputs` of the ones before it; its number is its
// place in a valid order.
inline RecomputeProblem RandomDag(int nodes, int max_inputs, int64_t max_memory,
                                  int64_t max_cost, std::mt19937& random) {
  const auto below = [&random](int64_t limit) {
    return std::uniform_int_distribution<int64_t>(0, limit - 1)(random);
  };
  RecomputeProblem problem;
  for (int v = 0; v < nodes; ++v) {
    std::vector<int32_t> inputs;
    for (int64_t i = v == 0 ? 0 : below(max_inputs + 1); i > 0; --i) {
      inputs.push_back(static_cast<int32_t>(below(v)));
    }
    AddNode(problem, below(max_memory + 1), below(max_cost + 1),
            std::move(inputs));
  }
  return problem;
}

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_TEST_UNIT_PLAN_RECOMPUTE_PROBLEMS_H_
