// The judge of every schedule: a plain replay that shares no code with the
// search. It keeps one flag and one count per buffer and does what the
// contract says, step by step.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/schedule.h"
#include "onnx_memopt/support/status_macros.h"
#include "plan/schedule_check.h"

namespace onnx_memopt::plan {
namespace {

// The step of each node.
absl::StatusOr<std::vector<int32_t>> StepsOf(const ScheduleProblem& problem,
                                             absl::Span<const int32_t> order) {
  const size_t n = problem.nodes.size();
  if (order.size() != n) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an order of ", order.size(), " nodes for a problem of ", n));
  }
  std::vector<int32_t> step_of(n, -1);
  for (size_t step = 0; step < n; ++step) {
    const int32_t node = order[step];
    if (node < 0 || static_cast<size_t>(node) >= n) {
      return absl::InvalidArgumentError(
          absl::StrCat("the order names node ", node, " but there are ", n));
    }
    if (step_of[node] != -1) {
      return absl::InvalidArgumentError(
          absl::StrCat("the order names node ", node, " twice"));
    }
    step_of[node] = static_cast<int32_t>(step);
  }
  return step_of;
}

absl::Status CheckDependencies(const ScheduleProblem& problem,
                               absl::Span<const int32_t> step_of) {
  auto check = [&](int32_t before, int32_t node) -> absl::Status {
    if (step_of[before] < step_of[node]) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the order runs node ", node,
                                                   " before node ", before,
                                                   ", which it depends on"));
  };
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    for (int32_t before : problem.nodes[i].after) {
      RETURN_IF_ERROR(check(before, static_cast<int32_t>(i)));
    }
  }
  for (const ScheduleBuffer& buffer : problem.buffers) {
    if (buffer.producer == -1) continue;
    for (int32_t reader : buffer.readers) {
      RETURN_IF_ERROR(check(buffer.producer, reader));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ScheduleProfile> EvaluateSchedule(
    const ScheduleProblem& problem, absl::Span<const int32_t> order) {
  RETURN_IF_ERROR(CheckProblem(problem));
  ASSIGN_OR_RETURN(const std::vector<int32_t> step_of, StepsOf(problem, order));
  RETURN_IF_ERROR(CheckDependencies(problem, step_of));

  const size_t num_buffers = problem.buffers.size();
  std::vector<std::vector<int32_t>> results(problem.nodes.size());
  std::vector<std::vector<int32_t>> dies_at(problem.nodes.size());
  // The step after which a buffer is free; the number of steps: never.
  std::vector<int32_t> last_step(num_buffers,
                                 static_cast<int32_t>(order.size()));
  int64_t live = 0;
  for (size_t b = 0; b < num_buffers; ++b) {
    const ScheduleBuffer& buffer = problem.buffers[b];
    const auto id = static_cast<int32_t>(b);
    if (buffer.producer != -1) results[buffer.producer].push_back(id);
    if (buffer.live_to_end) {
      if (buffer.producer == -1) live += buffer.size_bytes;
      continue;
    }
    if (buffer.readers.empty() && buffer.producer == -1) continue;
    if (buffer.producer == -1) live += buffer.size_bytes;
    int32_t last = buffer.producer == -1 ? -1 : step_of[buffer.producer];
    for (int32_t reader : buffer.readers) {
      last = std::max(last, step_of[reader]);
    }
    last_step[b] = last;
    dies_at[last].push_back(id);
  }

  ScheduleProfile profile;
  profile.step_bytes.reserve(order.size());
  std::vector<bool> taken(num_buffers, false);  // by an in-place pair
  for (size_t step = 0; step < order.size(); ++step) {
    const ScheduleNode& node = problem.nodes[order[step]];
    for (int32_t result : results[order[step]]) {
      live += problem.buffers[result].size_bytes;
    }
    // A pair's two buffers are one, so its bytes were just counted twice; the
    // operand hands its bytes over instead of freeing them below.
    for (const InPlacePair& pair : node.in_place) {
      if (last_step[pair.operand_buffer] != static_cast<int32_t>(step)) {
        continue;
      }
      if (taken[pair.operand_buffer] || taken[pair.result_buffer]) continue;
      taken[pair.operand_buffer] = true;
      taken[pair.result_buffer] = true;
      live -= problem.buffers[pair.operand_buffer].size_bytes;
    }
    profile.step_bytes.push_back(live + node.extra_bytes);
    for (int32_t buffer : dies_at[step]) {
      // Results that took bytes over may die at once; operands gave theirs.
      const bool gave_bytes =
          taken[buffer] && problem.buffers[buffer].producer != order[step];
      if (!gave_bytes) live -= problem.buffers[buffer].size_bytes;
    }
    for (const InPlacePair& pair : node.in_place) {
      taken[pair.result_buffer] = false;
    }
    profile.peak_bytes =
        std::max(profile.peak_bytes, profile.step_bytes.back());
  }
  return profile;
}

}  // namespace onnx_memopt::plan
