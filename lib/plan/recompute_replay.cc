// The independent judge of a plan: it shares no code with the planner, and
// follows the rules in the header to the letter.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/recompute.h"
#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::plan {
namespace {

constexpr const char* kTooLarge = "a sum of the plan is beyond 2^63";

}  // namespace

absl::StatusOr<RecomputeReplay> ReplayRecompute(
    const RecomputeProblem& problem, absl::Span<const int32_t> sequence) {
  const size_t n = problem.memory.size();
  if (problem.cost.size() != n || problem.inputs.size() != n) {
    return absl::InvalidArgumentError("the problem's vectors differ in length");
  }
  // Of each node, the step that made its latest value; -1: none yet.
  std::vector<int64_t> latest(n, -1);
  // Of each step, the last step that reads what it made.
  std::vector<size_t> last_read(sequence.size());
  RecomputeReplay result;
  for (size_t step = 0; step < sequence.size(); ++step) {
    const int32_t node = sequence[step];
    if (node < 0 || static_cast<size_t>(node) >= n) {
      return absl::InvalidArgumentError(absl::StrCat(
          "step ", step, " runs node ", node, ", but there are ", n, " nodes"));
    }
    for (int32_t input : problem.inputs[node]) {
      if (input < 0 || static_cast<size_t>(input) >= n) {
        return absl::InvalidArgumentError(absl::StrCat(
            "node ", node, " reads node ", input, ", which does not exist"));
      }
      if (latest[input] < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("step ", step, " runs node ", node,
                         " before its input, node ", input));
      }
      last_read[latest[input]] = step;
    }
    latest[node] = static_cast<int64_t>(step);
    last_read[step] = step;
    const std::optional<int64_t> cost =
        CheckedAdd(result.cost, problem.cost[node]);
    if (!cost || problem.cost[node] < 0 || problem.memory[node] < 0) {
      return absl::InvalidArgumentError(
          cost ? absl::StrCat("node ", node, " has a negative memory or cost")
               : kTooLarge);
    }
    result.cost = *cost;
  }
  for (size_t node = 0; node < n; ++node) {
    if (latest[node] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("node ", node, " never runs"));
    }
  }
  // Values to let go after a step, as lists: those whose last read it is.
  std::vector<std::vector<int32_t>> ends(sequence.size());
  for (size_t step = 0; step < sequence.size(); ++step) {
    ends[last_read[step]].push_back(sequence[step]);
  }
  int64_t live = 0;
  for (size_t step = 0; step < sequence.size(); ++step) {
    const std::optional<int64_t> more =
        CheckedAdd(live, problem.memory[sequence[step]]);
    if (!more) return absl::InvalidArgumentError(kTooLarge);
    live = *more;
    result.peak = std::max(result.peak, live);
    for (int32_t node : ends[step]) live -= problem.memory[node];
  }
  return result;
}

}  // namespace onnx_memopt::plan
