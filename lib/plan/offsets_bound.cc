// The bytes that no plan can do without: the largest sum of sizes over the
// buffers of one step.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/support/checked_math.h"
#include "onnx_memopt/support/status_macros.h"
#include "plan/offsets_internal.h"

namespace onnx_memopt::plan {

absl::Status CheckBuffers(absl::Span<const Buffer> buffers) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    if (buffer.end <= buffer.begin) {
      return absl::InvalidArgumentError(
          absl::StrCat("buffer ", i, " has an empty lifetime [", buffer.begin,
                       ", ", buffer.end, ")"));
    }
    if (buffer.size_bytes < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "buffer ", i, " has a negative size: ", buffer.size_bytes));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> LowerBound(absl::Span<const Buffer> buffers) {
  RETURN_IF_ERROR(CheckBuffers(buffers));
  // Sorted, the negative changes of a step come first: [begin, end) is
  // half-open, so what ends at a step makes room for what begins there.
  std::vector<std::pair<int32_t, int64_t>> changes;
  changes.reserve(2 * buffers.size());
  for (const Buffer& buffer : buffers) {
    changes.emplace_back(buffer.begin, buffer.size_bytes);
    changes.emplace_back(buffer.end, -buffer.size_bytes);
  }
  std::sort(changes.begin(), changes.end());
  int64_t live = 0;
  int64_t most = 0;
  for (const auto& [step, change] : changes) {
    std::optional<int64_t> sum = CheckedAdd(live, change);
    if (!sum) {
      return absl::OutOfRangeError(absl::StrCat(
          "the buffers live at step ", step, " have 2^63 bytes or more"));
    }
    live = *sum;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace onnx_memopt::plan
