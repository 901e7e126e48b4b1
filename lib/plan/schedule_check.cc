#include "plan/schedule_check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "onnx_memopt/plan/schedule.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::plan {
namespace {

bool InRange(int32_t index, size_t size) {
  return index >= 0 && static_cast<size_t>(index) < size;
}

absl::Status CheckBuffer(const ScheduleBuffer& buffer, size_t index,
                         size_t num_nodes) {
  if (buffer.size_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "buffer ", index, " has a negative size: ", buffer.size_bytes));
  }
  if (buffer.producer != -1 && !InRange(buffer.producer, num_nodes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer ", index, " has producer ", buffer.producer,
                     " but there are ", num_nodes, " nodes"));
  }
  int32_t previous = -1;
  for (int32_t reader : buffer.readers) {
    if (!InRange(reader, num_nodes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer ", index, " has reader ", reader,
                       " but there are ", num_nodes, " nodes"));
    }
    if (reader <= previous) {
      return absl::InvalidArgumentError(
          absl::StrCat("the readers of buffer ", index,
                       " are not ascending: ", previous, " before ", reader));
    }
    if (reader == buffer.producer) {
      return absl::InvalidArgumentError(absl::StrCat(
          "node ", reader, " reads buffer ", index, ", which it produces"));
    }
    previous = reader;
  }
  return absl::OkStatus();
}

absl::Status CheckPair(const ScheduleProblem& problem, int32_t node,
                       const InPlacePair& pair) {
  if (!InRange(pair.operand_buffer, problem.buffers.size()) ||
      !InRange(pair.result_buffer, problem.buffers.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", node, " has an in-place pair with buffers ",
                     pair.operand_buffer, " and ", pair.result_buffer,
                     " but there are ", problem.buffers.size(), " buffers"));
  }
  const ScheduleBuffer& operand = problem.buffers[pair.operand_buffer];
  const ScheduleBuffer& result = problem.buffers[pair.result_buffer];
  if (!std::binary_search(operand.readers.begin(), operand.readers.end(),
                          node) ||
      result.producer != node) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", node, " has the in-place pair ",
                     pair.operand_buffer, " -> ", pair.result_buffer,
                     " but does not read the first and produce the second"));
  }
  if (operand.size_bytes != result.size_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "node ", node, " has the in-place pair ", pair.operand_buffer, " -> ",
        pair.result_buffer, " with sizes ", operand.size_bytes, " and ",
        result.size_bytes, ", which must be equal"));
  }
  return absl::OkStatus();
}

absl::Status CheckNode(const ScheduleProblem& problem, int32_t index) {
  const ScheduleNode& node = problem.nodes[index];
  if (node.extra_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "node ", index, " has negative extra bytes: ", node.extra_bytes));
  }
  for (int32_t before : node.after) {
    if (!InRange(before, problem.nodes.size()) || before == index) {
      return absl::InvalidArgumentError(
          absl::StrCat("node ", index, " cannot run after node ", before));
    }
  }
  for (const InPlacePair& pair : node.in_place) {
    RETURN_IF_ERROR(CheckPair(problem, index, pair));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckProblem(const ScheduleProblem& problem) {
  constexpr size_t kMost = std::numeric_limits<int32_t>::max();
  if (problem.nodes.size() > kMost || problem.buffers.size() > kMost) {
    return absl::InvalidArgumentError("more than 2^31 nodes or buffers");
  }
  std::optional<int64_t> total = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const ScheduleBuffer& buffer = problem.buffers[i];
    RETURN_IF_ERROR(CheckBuffer(buffer, i, problem.nodes.size()));
    if (total) total = CheckedAdd(*total, buffer.size_bytes);
  }
  int64_t most_extra = 0;
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    RETURN_IF_ERROR(CheckNode(problem, static_cast<int32_t>(i)));
    most_extra = std::max(most_extra, problem.nodes[i].extra_bytes);
  }
  if (total) total = CheckedAdd(*total, most_extra);
  if (!total) {
    return absl::OutOfRangeError(
        "the buffers have 2^63 bytes or more in total");
  }
  return absl::OkStatus();
}

}  // namespace onnx_memopt::plan
