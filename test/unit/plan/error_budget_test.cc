#include "onnx_memopt/plan/error_budget.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "support/random_graph.h"

namespace onnx_memopt::plan {
namespace {

using Items = std::vector<std::vector<Saving>>;

struct Total {
  int64_t bytes = 0;
  double error = 0;
  int64_t longest_step = 0;
};

Total Of(const Items& items, const std::vector<int>& chosen) {
  Total total;
  for (size_t i = 0; i < items.size(); ++i) {
    for (const Saving& saving : items[i]) {
      total.longest_step = std::max(total.longest_step, saving.bytes);
    }
    if (chosen[i] < 0) continue;
    total.bytes += items[i][static_cast<size_t>(chosen[i])].bytes;
    total.error += items[i][static_cast<size_t>(chosen[i])].error;
  }
  return total;
}

// Every choice for every item.
int64_t Best(const Items& items, size_t from, double budget) {
  if (from == items.size()) return 0;
  int64_t best = Best(items, from + 1, budget);
  for (const Saving& saving : items[from]) {
    if (saving.error > budget) continue;
    best = std::max(
        best, saving.bytes + Best(items, from + 1, budget - saving.error));
  }
  return best;
}

TEST(ErrorBudgetTest, SpendsWhereItSavesTheMost) {
  const Items items{{{100, 0.1}, {150, 0.4}}, {{80, 0.3}}};
  EXPECT_EQ(SpendError(items, 0.05), (std::vector<int>{-1, -1}));
  EXPECT_EQ(SpendError(items, 0.1), (std::vector<int>{0, -1}));
  // 80 bytes for 0.3 before 50 more for 0.3.
  EXPECT_EQ(SpendError(items, 0.5), (std::vector<int>{0, 0}));
  EXPECT_EQ(SpendError(items, 0.75), (std::vector<int>{1, 0}));
  EXPECT_EQ(SpendError({}, 1), std::vector<int>{});
}

// The corner is 100 bytes for 0.5, which does not fit; what lies before it
// does.
TEST(ErrorBudgetTest, TakesAPartOfAStep) {
  const Items items{{{100, 0.5}, {10, 0.2}, {20, 0.3}}};
  EXPECT_EQ(SpendError(items, 0.35), std::vector<int>{2});
  EXPECT_EQ(SpendError(items, 0.5), std::vector<int>{0});
}

TEST(ErrorBudgetTest, IsTheBestForWhatItSpends) {
  testing::Random random(3);
  for (int round = 0; round < 200; ++round) {
    Items items(1 + random.Below(4));
    for (std::vector<Saving>& item : items) {
      item.resize(random.Below(5));
      for (Saving& saving : item) {
        // Sixteenths add up exactly.
        saving = {static_cast<int64_t>(1 + random.Below(40)),
                  static_cast<double>(random.Below(16)) / 16};
      }
    }
    const double budget = static_cast<double>(random.Below(40)) / 16;
    const Total total = Of(items, SpendError(items, budget));
    ASSERT_LE(total.error, budget);
    const int64_t best = Best(items, 0, budget);
    ASSERT_LE(total.bytes, best);
    ASSERT_GE(total.bytes, best - total.longest_step);
  }
}

// With convex items of equal steps, as ranks of matrices of one size are,
// nothing better exists for any budget.
TEST(ErrorBudgetTest, IsTheBestForStepsOfOneSize) {
  testing::Random random(4);
  for (int round = 0; round < 100; ++round) {
    Items items(1 + random.Below(4));
    for (std::vector<Saving>& item : items) {
      double error = 0;
      double step = 0;
      for (int64_t i = 1; i <= 4; ++i) {
        step += static_cast<double>(random.Below(4)) / 16;
        error += step;
        item.push_back({8 * i, error});
      }
    }
    const double budget = static_cast<double>(random.Below(40)) / 16;
    ASSERT_EQ(Of(items, SpendError(items, budget)).bytes,
              Best(items, 0, budget));
  }
}

}  // namespace
}  // namespace onnx_memopt::plan
