// MinimizePeak against every order there is. The oracle tries all topological
// orders with EvaluateSchedule's rules restated on sets: the live bytes are
// summed over all buffers at every step, in no way incrementally.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/plan/schedule.h"
#include "support/status_matchers.h"
#include "unit/plan/schedule_problems.h"

namespace onnx_memopt::plan {
namespace {

using ::onnx_memopt::testing::IsOk;

class Oracle {
 public:
  explicit Oracle(const ScheduleProblem& problem)
      : problem_(problem), done_(problem.nodes.size(), false) {
    needs_.resize(problem.nodes.size());
    for (size_t i = 0; i < problem.nodes.size(); ++i) {
      needs_[i] = problem.nodes[i].after;
    }
    for (const ScheduleBuffer& buffer : problem.buffers) {
      if (buffer.producer < 0) continue;
      for (int32_t reader : buffer.readers) {
        needs_[reader].push_back(buffer.producer);
      }
    }
  }

  int64_t BestPeak() {
    Extend(0, 0);
    return best_;
  }
  int64_t orders() const { return orders_; }

 private:
  bool IsLive(const ScheduleBuffer& buffer) const {
    if (buffer.producer >= 0 && !done_[buffer.producer]) return false;
    if (buffer.live_to_end) return true;
    return std::any_of(buffer.readers.begin(), buffer.readers.end(),
                       [&](int32_t reader) { return !done_[reader]; });
  }

  int64_t Cost(int32_t node) const {
    int64_t bytes = problem_.nodes[node].extra_bytes;
    for (const ScheduleBuffer& buffer : problem_.buffers) {
      if (buffer.producer == node || IsLive(buffer)) bytes += buffer.size_bytes;
    }
    std::vector<int32_t> taken;
    for (const auto& [operand, result] : problem_.nodes[node].in_place) {
      const ScheduleBuffer& buffer = problem_.buffers[operand];
      const bool last = std::all_of(
          buffer.readers.begin(), buffer.readers.end(),
          [&](int32_t reader) { return reader == node || done_[reader]; });
      if (!last || buffer.live_to_end) continue;
      if (std::count(taken.begin(), taken.end(), operand) > 0 ||
          std::count(taken.begin(), taken.end(), result) > 0) {
        continue;
      }
      taken.push_back(operand);
      taken.push_back(result);
      bytes -= buffer.size_bytes;
    }
    return bytes;
  }

  void Extend(size_t steps, int64_t peak) {
    if (steps == problem_.nodes.size()) {
      ++orders_;
      best_ = std::min(best_, peak);
      return;
    }
    for (size_t i = 0; i < needs_.size(); ++i) {
      if (done_[i] || std::any_of(needs_[i].begin(), needs_[i].end(),
                                  [&](int32_t need) { return !done_[need]; })) {
        continue;
      }
      const int64_t cost = Cost(static_cast<int32_t>(i));
      // Prunes nothing that could be the best, and keeps most of the orders.
      if (cost >= best_) continue;
      done_[i] = true;
      Extend(steps + 1, std::max(peak, cost));
      done_[i] = false;
    }
  }

  const ScheduleProblem& problem_;
  std::vector<std::vector<int32_t>> needs_;
  std::vector<bool> done_;
  int64_t best_ = std::numeric_limits<int64_t>::max();
  int64_t orders_ = 0;
};

// True if the result is what brute force says.
bool Matches(const ScheduleProblem& problem) {
  absl::StatusOr<ScheduleResult> result = MinimizePeak(problem, {});
  EXPECT_THAT(result, IsOk());
  if (!result.ok()) return false;
  absl::StatusOr<ScheduleProfile> replay =
      EvaluateSchedule(problem, result->order);
  EXPECT_THAT(replay, IsOk());
  if (!replay.ok()) return false;
  const int64_t best = problem.nodes.empty() ? 0 : Oracle(problem).BestPeak();
  EXPECT_EQ(replay->peak_bytes, result->peak_bytes);
  EXPECT_EQ(result->peak_bytes, best);
  EXPECT_TRUE(result->optimal);
  return replay->peak_bytes == best && result->peak_bytes == best &&
         result->optimal;
}

TEST(ScheduleBruteForceTest, AllGraphsOfUpToFiveNodes) {
  // An edge i -> j for every subset of i < j; node i's result is read by its
  // successors. Sinks are kept in every second pattern.
  const std::vector<std::vector<int64_t>> patterns = {
      {1, 1, 1, 1, 1}, {1, 2, 4, 8, 16}, {16, 8, 4, 2, 1},
      {5, 1, 7, 0, 3}, {2, 9, 1, 9, 2},
  };
  for (int n = 1; n <= 5; ++n) {
    const int pairs = n * (n - 1) / 2;
    for (int edges = 0; edges < 1 << pairs; ++edges) {
      for (const std::vector<int64_t>& sizes : patterns) {
        for (const bool keep : {false, true}) {
          ProblemBuilder p;
          int bit = 0;
          for (int j = 0; j < n; ++j) {
            std::vector<int32_t> operands;
            for (int i = 0; i < j; ++i, ++bit) {
              if (((edges >> bit) & 1) != 0) operands.push_back(i);
            }
            p.Node(sizes[j], operands);
          }
          if (keep) {
            for (ScheduleBuffer& buffer : p.problem().buffers) {
              if (buffer.readers.empty()) buffer.live_to_end = true;
            }
          }
          ASSERT_TRUE(Matches(p.problem())) << "n " << n << " edges " << edges;
        }
      }
    }
  }
}

// Shapes of random problems: from sparse to dense, with and without in place.
class RandomBruteForceTest : public ::testing::TestWithParam<RandomShape> {};

TEST_P(RandomBruteForceTest, PeakIsTheBestOfAllOrders) {
  for (uint32_t seed = 0; seed < 700; ++seed) {
    RandomProblems random(seed);
    RandomShape shape = GetParam();
    shape.nodes = static_cast<int>(1 + random.Below(GetParam().nodes));
    ASSERT_TRUE(Matches(random.Make(shape))) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, RandomBruteForceTest,
    ::testing::Values(
        RandomShape{.nodes = 9},
        RandomShape{.nodes = 9, .max_operands = 2, .in_place_share = 0},
        RandomShape{.nodes = 9, .max_operands = 2, .in_place_share = 80},
        RandomShape{.nodes = 9, .max_operands = 1, .reach = 3},
        RandomShape{.nodes = 9,
                    .max_operands = 4,
                    .in_place_share = 60,
                    .keep_share = 40},
        RandomShape{.nodes = 9,
                    .reach = 2,
                    .max_size = 1000,
                    .keep_share = 0,
                    .extra_share = 0},
        RandomShape{.nodes = 9,
                    .max_operands = 2,
                    .max_size = 3,
                    .extra_share = 60,
                    .after_share = 40},
        RandomShape{.nodes = 8,
                    .max_operands = 1,
                    .reach = 20,
                    .keep_share = 0,
                    .after_share = 0}));

TEST(ScheduleBruteForceTest, BeamFindsTheSameOnItsOwn) {
  // With no exact search, a beam wide enough to drop nothing proves its result.
  for (uint32_t seed = 0; seed < 500; ++seed) {
    RandomProblems random(seed + 10'000);
    const ScheduleProblem problem =
        random.Make({.nodes = 8, .max_operands = 2, .reach = 6});
    ScheduleOptions options;
    options.exact_nodes = 0;
    options.beam_width = 1 << 8;
    absl::StatusOr<ScheduleResult> result = MinimizePeak(problem, options);
    ASSERT_THAT(result, IsOk());
    EXPECT_TRUE(result->optimal);
    EXPECT_EQ(result->peak_bytes, Oracle(problem).BestPeak()) << seed;
  }
}

}  // namespace
}  // namespace onnx_memopt::plan
