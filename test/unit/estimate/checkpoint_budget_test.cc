// Checkpoints under a budget, against all that a small transformer can do.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimate/evaluate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/estimate/blocks.h"
#include "onnx_memopt/estimate/configuration.h"
#include "unit/estimate/transformer_estimate.h"

namespace onnx_memopt::estimate {
namespace {

using ::onnx_memopt::testing::TransformerEstimate;

constexpr EvaluateOptions kLive{.allocators = false};

Configuration Step() {
  Configuration c;
  c.batch = 16;
  c.optimizer = FindOptimizer("sgd");
  return c;
}

Configuration Under(int64_t budget) {
  Configuration c = Step();
  c.checkpoint = CheckpointKind::kBudget;
  c.checkpoint_budget_bytes = budget;
  return c;
}

class CheckpointBudget : public ::testing::Test {
 protected:
  CheckpointBudget()
      : transformer_({.layers = 4,
                      .sequence = 64,
                      .hidden = 64,
                      .heads = 4,
                      .vocabulary = 32}) {}

  Estimate Of(const Configuration& c) { return transformer_.Of(c); }
  int64_t Total(CheckpointKind kind) {
    Configuration c = Step();
    c.checkpoint = kind;
    return Of(c).worst().total_bytes;
  }
  const Model::View& view() { return **transformer_.model()->Get(Step()); }

  // The least overhead of all ways to keep each block, to compute its
  // attention core again, or all of it; nullopt: none fits.
  std::optional<double> Exhaustive(int64_t budget) {
    const std::vector<Checkpoint>& blocks = view().blocks.blocks;
    const std::vector<Checkpoint> cores = AttentionCores(view().facts);
    EXPECT_EQ(blocks.size(), 4U);
    EXPECT_EQ(cores.size(), 4U);
    std::optional<double> best;
    for (int code = 0; code < 81; ++code) {
      std::vector<Checkpoint> plan;
      for (size_t i = 0, rest = code; i < blocks.size(); ++i, rest /= 3) {
        if (rest % 3 == 1) plan.push_back(cores[i]);
        if (rest % 3 == 2) plan.push_back(blocks[i]);
      }
      const Estimate e = *EvaluateWith(view(), Step(), kLive, plan);
      if (e.worst().total_bytes > budget) continue;
      if (!best || e.recompute_overhead < *best) best = e.recompute_overhead;
    }
    return best;
  }

  TransformerEstimate transformer_;
};

TEST_F(CheckpointBudget, IsNoCostlierThanAnySetOfBlocksAndCores) {
  const int64_t most = Total(CheckpointKind::kNone);
  const int64_t least = Total(CheckpointKind::kFull);
  ASSERT_LT(least, most);
  for (const int percent : {5, 20, 40, 60, 80, 95}) {
    const int64_t budget = least + (most - least) / 100 * percent;
    const std::optional<double> best = Exhaustive(budget);
    ASSERT_TRUE(best.has_value());
    const Estimate e = Of(Under(budget));
    EXPECT_LE(e.worst().total_bytes, budget);
    EXPECT_LE(e.recompute_overhead, *best * 1.001) << percent;
  }
}

TEST_F(CheckpointBudget, WithRoomForAllNothingIsComputedAgain) {
  const Estimate e = Of(Under(Total(CheckpointKind::kNone)));
  EXPECT_TRUE(e.checkpoints.empty());
  EXPECT_EQ(e.recompute_overhead, 0);
}

TEST_F(CheckpointBudget, TooLittleIsAnErrorThatSaysTheLeast) {
  const auto estimate = Evaluate(transformer_.model(), Under(1 << 20), kLive);
  EXPECT_EQ(estimate.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(estimate.status().message()),
              ::testing::HasSubstr("the least is about"));
}

TEST_F(CheckpointBudget, TheCurveFalls) {
  const auto curve = CheckpointCurve(transformer_.model(), Step(), kLive);
  ASSERT_TRUE(curve.ok()) << curve.status();
  ASSERT_GE(curve->size(), 4U);
  EXPECT_EQ(curve->front().overhead, 0);
  EXPECT_LE(curve->back().total_bytes, Total(CheckpointKind::kFull));
  for (size_t i = 1; i < curve->size(); ++i) {
    EXPECT_LT((*curve)[i].total_bytes, (*curve)[i - 1].total_bytes);
    EXPECT_GE((*curve)[i].overhead, (*curve)[i - 1].overhead);
    // Each point is what its configuration gives, or something cheaper.
    const Estimate e = Of((*curve)[i].configuration);
    EXPECT_LE(e.worst().total_bytes, (*curve)[i].total_bytes);
    EXPECT_LE(e.recompute_overhead, (*curve)[i].overhead + 1e-9);
  }
}

}  // namespace
}  // namespace onnx_memopt::estimate
