// From the greedy plan to the best one: parts that share no moment are solved
// apart, the one that is highest first, by local improvement if it is large
// and by exact search if it is not.
#include "onnx_memopt/plan/offsets_search.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/offsets.h"
#include "onnx_memopt/support/status_macros.h"
#include "plan/offsets_improve.h"
#include "plan/offsets_portfolio.h"
#include "plan/offsets_sections.h"

namespace onnx_memopt::plan {
namespace {

using Clock = std::chrono::steady_clock;

// Above this many buffers the sets of the exact search are too large to be
// quick, and its proofs out of reach.
constexpr size_t kMaxExactBuffers = 4000;

Clock::time_point After(Clock::time_point start, double seconds) {
  // A year is for ever, and stays clear of the clock's range.
  constexpr double kYear = 365.0 * 86400.0;
  return start +
         std::chrono::duration_cast<Clock::duration>(
             std::chrono::duration<double>(std::clamp(seconds, 0.0, kYear)));
}

class Solver {
 public:
  Solver(absl::Span<const Buffer> buffers, const OffsetOptions& options,
         OffsetPlan greedy)
      : options_(options),
        start_(Clock::now()),
        deadline_(After(start_, options.time_limit_s)) {
    const SectionProblem whole = MakeSections(buffers);
    unit_ = whole.unit_bytes;
    if (options.capacity_bytes) capacity_ = *options.capacity_bytes / unit_;
    for (SectionProblem& problem : SplitAtCuts(whole)) {
      PartState part{.problem = std::move(problem)};
      part.bound = part.problem.bound;
      for (const SectionBuffer& buffer : part.problem.buffers) {
        // Not a multiple of the unit where the greedy plan is aligned.
        const int64_t offset = greedy.offset_bytes[buffer.source] / unit_;
        part.offsets.push_back(offset);
        part.height = std::max(part.height, offset + buffer.size);
      }
      parts_.push_back(std::move(part));
    }
    solution_.plan = std::move(greedy);
    solution_.method = "greedy";
  }

  OffsetSolution Run() {
    Report();
    while (Clock::now() < deadline_) {
      PartState* part = Next();
      if (part == nullptr) break;
      Work(*part);
    }
    Store();
    return std::move(solution_);
  }

 private:
  int64_t Bound() const {
    int64_t bound = 0;
    for (const PartState& part : parts_) bound = std::max(bound, part.bound);
    return bound;
  }
  int64_t Height() const {
    int64_t height = 0;
    for (const PartState& part : parts_) height = std::max(height, part.height);
    return height;
  }
  // What no part needs to go below.
  int64_t Enough() const {
    return capacity_ ? std::max(*capacity_, int64_t{0}) : Bound();
  }

  // The highest part, if it is worth more work. Lowering another does not
  // lower the arena.
  PartState* Next() {
    if (capacity_ && Bound() > *capacity_) return nullptr;
    PartState* highest = nullptr;
    for (PartState& part : parts_) {
      if (part.height <= std::max(part.bound, Enough())) continue;
      if (highest == nullptr || part.height > highest->height) highest = &part;
    }
    if (highest == nullptr || highest->height < Height()) return nullptr;
    return exhausted_.count(highest) > 0 ? nullptr : highest;
  }

  void Work(PartState& part) {
    const int64_t before = part.height;
    if (options_.rules.warm_up) {
      ImproveLimits limits{.enough = std::max(part.bound, Enough()),
                           .threads = options_.threads,
                           .seed = options_.seed,
                           .max_placements = options_.max_placements,
                           .deadline = deadline_};
      if (part.problem.buffers.size() <= kMaxExactBuffers) {
        limits.max_placements =
            std::min(limits.max_placements, kWarmUpPlacements);
      }
      Improve(part, limits, [&] { Report(); });
      if (part.height < before) solution_.method = "improved";
    }
    if (part.problem.buffers.size() <= kMaxExactBuffers) {
      const int64_t improved = part.height;
      const PortfolioLimits limits{.enough = Enough(),
                                   .decide = capacity_.has_value(),
                                   .threads = options_.threads,
                                   .seed = options_.seed,
                                   .max_states = options_.max_states,
                                   .deadline = deadline_,
                                   .rules = options_.rules};
      solution_.states += RunPortfolio(part, limits, [&] { Report(); });
      if (part.height < improved) solution_.method = "search";
    }
    exhausted_.insert(&part);
  }

  void Report() {
    if (!options_.progress) return;
    const int64_t best = std::min(Height() * unit_, solution_.plan.arena_bytes);
    const int64_t bound = Bound() * unit_;
    if (best == reported_best_ && bound == reported_bound_) return;
    reported_best_ = best;
    reported_bound_ = bound;
    options_.progress(
        {.seconds =
             std::chrono::duration<double>(Clock::now() - start_).count(),
         .best_bytes = best,
         .lower_bound_bytes = bound});
  }

  void Store() {
    solution_.lower_bound_bytes = Bound() * unit_;
    if (Height() * unit_ >= solution_.plan.arena_bytes) return;
    for (const PartState& part : parts_) {
      for (size_t i = 0; i < part.offsets.size(); ++i) {
        solution_.plan.offset_bytes[part.problem.buffers[i].source] =
            part.offsets[i] * unit_;
      }
    }
    solution_.plan.arena_bytes = Height() * unit_;
  }

  // Before the exact search takes over.
  static constexpr int64_t kWarmUpPlacements = 20'000;

  const OffsetOptions& options_;
  const Clock::time_point start_;
  const Clock::time_point deadline_;
  int64_t unit_ = 1;
  std::optional<int64_t> capacity_;  // in units
  std::vector<PartState> parts_;
  absl::flat_hash_set<const PartState*> exhausted_;
  OffsetSolution solution_;
  int64_t reported_best_ = -1;
  int64_t reported_bound_ = -1;
};

}  // namespace

absl::StatusOr<OffsetSolution> SolveOffsets(absl::Span<const Buffer> buffers,
                                            const OffsetOptions& options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("at least one thread is needed, not ", options.threads));
  }
  if (options.capacity_bytes && *options.capacity_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the capacity must not be negative: ", *options.capacity_bytes));
  }
  ASSIGN_OR_RETURN(OffsetPlan greedy, PackFirstFit(buffers));
  return Solver(buffers, options, std::move(greedy)).Run();
}

}  // namespace onnx_memopt::plan
