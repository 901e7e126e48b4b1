#include "plan/recompute_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/recompute.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::plan {
namespace {

// The sum, or an error that names what is summed.
absl::StatusOr<int64_t> Sum(absl::Span<const int64_t> values,
                            const char* what) {
  int64_t sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("node ", i, " has a negative ", what, ": ", values[i]));
    }
    const std::optional<int64_t> next = CheckedAdd(sum, values[i]);
    if (!next) {
      return absl::InvalidArgumentError(
          absl::StrCat("the sum of all ", what, " is beyond 2^63"));
    }
    sum = *next;
  }
  return sum;
}

absl::Status CheckInputs(const RecomputeProblem& problem, size_t node) {
  std::vector<int32_t> sorted = problem.inputs[node];
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] < 0 ||
        static_cast<size_t>(sorted[i]) >= problem.memory.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("node ", node, " reads node ", sorted[i],
                       " but there are ", problem.memory.size(), " nodes"));
    }
    if (i > 0 && sorted[i] == sorted[i - 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("node ", node, " reads node ", sorted[i], " twice"));
    }
  }
  return absl::OkStatus();
}

// Kahn's algorithm: of the nodes that may run, the one with the least number.
std::vector<int32_t> TopologicalOrder(const RecomputeModel& model) {
  std::vector<int32_t> missing(model.n);
  std::vector<int32_t> heap;
  for (int32_t v = 0; v < model.n; ++v) {
    missing[v] = static_cast<int32_t>(model.inputs[v].size());
    if (missing[v] == 0) heap.push_back(-v);
  }
  std::make_heap(heap.begin(), heap.end());
  std::vector<int32_t> order;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const int32_t v = -heap.back();
    heap.pop_back();
    order.push_back(v);
    for (int32_t w : model.users[v]) {
      if (--missing[w] > 0) continue;
      heap.push_back(-w);
      std::push_heap(heap.begin(), heap.end());
    }
  }
  return order;
}

// Checks that `order` runs every node once, after its inputs.
absl::Status CheckOrder(const RecomputeModel& model,
                        absl::Span<const int32_t> order) {
  if (order.size() != static_cast<size_t>(model.n)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the initial order has ", order.size(), " nodes, not ", model.n));
  }
  std::vector<bool> done(model.n, false);
  for (int32_t v : order) {
    if (v < 0 || v >= model.n || done[v]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the initial order names node ", v, " twice, or no such node"));
    }
    for (int32_t u : model.inputs[v]) {
      if (done[u]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the initial order runs node ", v, " before node ", u,
                       ", which it reads"));
    }
    done[v] = true;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RecomputeModel> RecomputeModel::Create(
    const RecomputeProblem& problem) {
  const size_t n = problem.memory.size();
  if (problem.cost.size() != n || problem.inputs.size() != n) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the problem has memory for ", n, " nodes, cost for ",
        problem.cost.size(), " and inputs for ", problem.inputs.size()));
  }
  if (n > static_cast<size_t>(std::numeric_limits<int32_t>::max() / 4)) {
    return absl::InvalidArgumentError(absl::StrCat("too many nodes: ", n));
  }
  RecomputeModel model;
  model.n = static_cast<int32_t>(n);
  RETURN_IF_ERROR(Sum(problem.memory, "memory").status());
  ASSIGN_OR_RETURN(model.base_cost, Sum(problem.cost, "cost"));
  model.memory = problem.memory;
  model.cost = problem.cost;
  model.inputs = problem.inputs;
  model.users.resize(n);
  for (size_t v = 0; v < n; ++v) {
    RETURN_IF_ERROR(CheckInputs(problem, v));
    for (int32_t u : problem.inputs[v]) {
      model.users[u].push_back(static_cast<int32_t>(v));
    }
  }
  if (!problem.initial_order.empty()) {
    RETURN_IF_ERROR(CheckOrder(model, problem.initial_order));
    model.order = problem.initial_order;
  } else {
    // The node numbers, where they are an order: the least number goes first.
    model.order = TopologicalOrder(model);
    if (model.order.size() != n) {
      return absl::InvalidArgumentError("the graph has a cycle");
    }
  }
  model.rank.resize(n);
  for (size_t i = 0; i < n; ++i) {
    model.rank[model.order[i]] = static_cast<int32_t>(i);
  }
  return model;
}

}  // namespace onnx_memopt::plan
