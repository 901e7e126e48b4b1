// Many short exact searches instead of one long: each thread takes a style, a
// seed and a capacity, and gives up after so many states; the limit grows from
// round to round. The time that one search needs is heavy-tailed, so the
// first of many is soon there.
#ifndef ONNX_MEMOPT_PLAN_OFFSETS_PORTFOLIO_H_
#define ONNX_MEMOPT_PLAN_OFFSETS_PORTFOLIO_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "onnx_memopt/plan/offsets_search.h"
#include "plan/offsets_dfs.h"
#include "plan/offsets_sections.h"

namespace onnx_memopt::plan {

// One part of the problem and what is known of it, in units.
struct PartState {
  SectionProblem problem;
  std::vector<int64_t> offsets;  // the best plan
  int64_t height = 0;
  int64_t bound = 0;
};

struct PortfolioLimits {
  // Nothing is gained by a plan below this height.
  int64_t enough = 0;
  // Only whether a plan of height `enough` exists is of interest.
  bool decide = false;
  int threads = 1;
  uint64_t seed = 1;
  int64_t max_states = 0;  // per thread
  std::chrono::steady_clock::time_point deadline;
  OffsetRules rules;
};

// Lowers the height and raises the bound until the height is the bound or at
// most `enough`, or, with `decide`, the bound is above it, or a limit strikes.
// Returns the states visited. The bound must be at least the problem's.
int64_t RunPortfolio(PartState& part, const PortfolioLimits& limits,
                     const std::function<void()>& improved);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_OFFSETS_PORTFOLIO_H_
