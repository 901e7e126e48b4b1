// The planner against searches that know no tricks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "onnx_memopt/plan/recompute.h"
#include "support/status_matchers.h"
#include "unit/plan/recompute_problems.h"

namespace onnx_memopt::plan {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

// The least cost over all sequences with at most `max_runs` runs a node; kNone
// if there is no plan. What has been held is decided as values are made: a
// state is the runs of each node so far, two bits each, and above them which
// values are held. A value is held from its run until it is let go.
int64_t Exhaustive(const RecomputeProblem& problem, int64_t budget,
                   uint64_t max_runs) {
  const auto n = static_cast<int32_t>(problem.memory.size());
  EXPECT_LE(n, 16);
  EXPECT_LE(max_runs, 3);
  using Entry = std::pair<int64_t, uint64_t>;  // cost, state
  std::unordered_map<uint64_t, int64_t> cost_of = {{0, 0}};
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.push({0, 0});
  const auto runs = [](uint64_t state, int32_t v) {
    return state >> (2 * v) & 3;
  };
  const auto held = [](int32_t v) { return uint64_t{1} << (32 + v); };
  while (!queue.empty()) {
    const auto [cost, state] = queue.top();
    queue.pop();
    if (cost_of.at(state) < cost) continue;
    const auto relax = [&](uint64_t next, int64_t next_cost) {
      const auto [it, fresh] = cost_of.try_emplace(next, next_cost);
      if (!fresh && it->second <= next_cost) return;
      it->second = next_cost;
      queue.push({next_cost, next});
    };
    int64_t memory = 0;
    bool all = true;
    for (int32_t v = 0; v < n; ++v) {
      all = all && runs(state, v) > 0;
      if ((state & held(v)) == 0) continue;
      memory += problem.memory[v];
      relax(state & ~held(v), cost);
    }
    if (all) return cost;
    for (int32_t v = 0; v < n; ++v) {
      if ((state & held(v)) != 0 || runs(state, v) == max_runs) continue;
      bool ready = memory + problem.memory[v] <= budget;
      for (int32_t u : problem.inputs[v]) {
        ready = ready && (state & held(u)) != 0;
      }
      if (!ready) continue;
      relax((state | held(v)) + (uint64_t{1} << (2 * v)),
            cost + problem.cost[v]);
    }
  }
  return kNone;
}

// Compares with the exhaustive search, for every budget that matters.
void ExpectEqualToExhaustive(const RecomputeProblem& problem, int64_t budget,
                             int max_runs, bool no_exact) {
  const int64_t expected =
      Exhaustive(problem, budget, static_cast<uint64_t>(max_runs));
  RecomputeOptions options = {.budget = budget, .max_moves = 20'000};
  if (no_exact) options.exact_nodes = 0;
  const auto result = PlanRecompute(problem, options);
  ASSERT_THAT(result, testing::IsOk());
  if (result->outcome == RecomputeOutcome::kInfeasible) {
    EXPECT_EQ(expected, kNone);
    return;
  }
  if (result->outcome == RecomputeOutcome::kNotFound) {
    EXPECT_TRUE(no_exact);
    EXPECT_EQ(expected, kNone);
    return;
  }
  const auto replay = ReplayRecompute(problem, result->sequence);
  ASSERT_THAT(replay, testing::IsOk());
  EXPECT_LE(replay->peak, budget);
  EXPECT_EQ(replay->cost, result->cost);
  EXPECT_LE(result->lower_bound, result->cost);
  std::map<int32_t, int> runs;
  int most = 0;
  for (int32_t v : result->sequence) most = std::max(most, ++runs[v]);
  if (most <= max_runs) {
    EXPECT_EQ(result->cost, expected);
  } else {
    EXPECT_LE(result->cost, expected);
  }
  EXPECT_LE(result->lower_bound, expected);
}

int64_t TotalMemory(const RecomputeProblem& problem) {
  int64_t sum = 0;
  for (int64_t m : problem.memory) sum += m;
  return sum;
}

class RandomDags : public ::testing::TestWithParam<bool> {};

TEST_P(RandomDags, EqualExhaustiveSearch) {
  std::mt19937 random(GetParam() ? 11 : 12);
  for (int round = 0; round < 60; ++round) {
    const int nodes = 1 + round % 8;
    const RecomputeProblem problem = RandomDag(nodes, 3, 5, 6, random);
    const int64_t total = TotalMemory(problem);
    for (int64_t budget = 0; budget <= total; budget += 1 + total / 7) {
      SCOPED_TRACE(::testing::Message()
                   << "round " << round << " budget " << budget);
      ExpectEqualToExhaustive(problem, budget, 2, GetParam());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WithoutExactSearch, RandomDags, ::testing::Bool());

TEST(RecomputeBruteForceTest, TenNodesEqualExhaustiveSearch) {
  std::mt19937 random(13);
  for (int round = 0; round < 8; ++round) {
    const RecomputeProblem problem = RandomDag(9 + round % 2, 2, 5, 6, random);
    const auto set = LargestWorkingSet(problem);
    ASSERT_THAT(set, testing::IsOk());
    for (const int64_t more : {0, 2}) {
      SCOPED_TRACE(::testing::Message() << "round " << round << " " << more);
      ExpectEqualToExhaustive(problem, set->memory + more, 2,
                              /*no_exact=*/false);
    }
  }
}

// The least cost of a chain, by the same search with no limit on runs: in a
// chain the nodes that have run are always the first ones, so states are few.
int64_t ChainByBruteForce(const RecomputeProblem& problem, int64_t budget) {
  const auto n = static_cast<int32_t>(problem.memory.size());
  using Entry = std::tuple<int64_t, int32_t, uint32_t>;  // cost, done, held
  std::set<Entry> queue = {{0, 0, 0}};
  std::map<std::pair<int32_t, uint32_t>, int64_t> cost_of = {{{0, 0}, 0}};
  while (!queue.empty()) {
    const auto [cost, done, held] = *queue.begin();
    queue.erase(queue.begin());
    if (done == n) return cost;
    if (cost_of.at({done, held}) < cost) continue;
    int64_t memory = 0;
    for (int32_t v = 0; v < n; ++v) {
      if ((held >> v & 1) != 0) memory += problem.memory[v];
    }
    std::vector<Entry> next;
    for (int32_t v = 0; v < n && v <= done; ++v) {
      if ((held >> v & 1) != 0) {
        next.push_back({cost, done, held & ~(uint32_t{1} << v)});
        continue;
      }
      bool ready = memory + problem.memory[v] <= budget;
      for (int32_t u : problem.inputs[v]) ready = ready && (held >> u & 1) != 0;
      if (!ready) continue;
      next.push_back({cost + problem.cost[v], std::max(done, v + 1),
                      held | uint32_t{1} << v});
    }
    for (const Entry& entry : next) {
      const auto [it, fresh] = cost_of.try_emplace(
          {std::get<1>(entry), std::get<2>(entry)}, std::get<0>(entry));
      if (!fresh && it->second <= std::get<0>(entry)) continue;
      it->second = std::get<0>(entry);
      queue.insert(entry);
    }
  }
  return kNone;
}

TEST(RecomputeBruteForceTest, ChainsEqualBruteForce) {
  std::mt19937 random(17);
  for (int layers = 1; layers <= 8; ++layers) {
    for (int round = 0; round < 3; ++round) {
      const RecomputeProblem problem =
          round == 0 ? TrainingChain(layers, nullptr)
                     : TrainingChain(layers, &random, 4, 6);
      const auto set = LargestWorkingSet(problem);
      ASSERT_THAT(set, testing::IsOk());
      for (int64_t more = 0; more < 4; ++more) {
        const int64_t budget = set->memory + more;
        SCOPED_TRACE(::testing::Message() << layers << " layers, round "
                                          << round << ", budget " << budget);
        const int64_t expected = ChainByBruteForce(problem, budget);
        const auto result = PlanRecompute(problem, {.budget = budget});
        ASSERT_THAT(result, testing::IsOk());
        if (expected == kNone) {
          EXPECT_NE(result->outcome, RecomputeOutcome::kPlan);
          continue;
        }
        ASSERT_EQ(result->outcome, RecomputeOutcome::kPlan);
        EXPECT_EQ(result->cost, expected);
        EXPECT_LE(result->peak, budget);
      }
    }
  }
}

// Where all layers are equal, dynamic programming alone is exact.
TEST(RecomputeBruteForceTest, EqualLayersByDynamicProgrammingAlone) {
  for (int layers = 3; layers <= 8; ++layers) {
    const RecomputeProblem problem = TrainingChain(layers, nullptr);
    for (int64_t budget = 4; budget <= layers + 1; ++budget) {
      SCOPED_TRACE(::testing::Message()
                   << layers << " layers, budget " << budget);
      const auto result = PlanRecompute(
          problem,
          {.budget = budget,
           .exact_nodes = 0,
           .methods = {.eviction = false, .keep = false, .anneal = false}});
      ASSERT_THAT(result, testing::IsOk());
      ASSERT_EQ(result->outcome, RecomputeOutcome::kPlan);
      EXPECT_EQ(result->cost, ChainByBruteForce(problem, budget));
    }
  }
}

}  // namespace
}  // namespace onnx_memopt::plan
