// Activations of generated transformers against Korthikanti et al., table 2.
#include <cstdint>
#include <string>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/estimate/configuration.h"
#include "onnx_memopt/estimate/reference_formulas.h"
#include "unit/estimate/transformer_estimate.h"

namespace onnx_memopt::estimate {
namespace {

using ::onnx_memopt::testing::TransformerEstimate;
using ::onnx_memopt::testing::TransformerSizes;

constexpr TransformerSizes kSizes = {
    .batch = 2, .sequence = 32, .hidden = 64, .heads = 8, .vocabulary = 32};

Configuration Fp16(int64_t ways, bool sequence_parallel,
                   CheckpointKind checkpoint) {
  Configuration c;
  c.batch = kSizes.batch;
  c.precision = FindPrecision("fp16");
  c.loss = LossKind::kNone;
  c.tensor_parallel = ways;
  c.sequence_parallel = sequence_parallel;
  c.checkpoint = checkpoint;
  return c;
}

// Four layers less three: without what comes before and after the layers.
int64_t LayerBytes(const Configuration& c) {
  TransformerSizes sizes = kSizes;
  sizes.layers = 4;
  TransformerEstimate four(sizes);
  sizes.layers = 3;
  TransformerEstimate three(sizes);
  return four.Saved(c) - three.Saved(c);
}

// Means and deviations of two normalisations in float32, which the table leaves
// out: a number less than 1 % of the rest.
int64_t Statistics(int64_t ways, bool sequence_parallel) {
  const int64_t bytes = 2 * kSizes.batch * kSizes.sequence * 2 * 4;
  return sequence_parallel ? bytes / ways : bytes;
}

class KorthikantiTest
    : public ::testing::TestWithParam<std::tuple<int64_t, bool, bool>> {};

TEST_P(KorthikantiTest, LayerTakesWhatTheTableSays) {
  const auto [ways, sequence_parallel, selective] = GetParam();
  const Configuration c =
      Fp16(ways, sequence_parallel,
           selective ? CheckpointKind::kSelective : CheckpointKind::kNone);
  const int64_t expected = KorthikantiLayerBytes(
      {.sequence = kSizes.sequence,
       .batch = kSizes.batch,
       .hidden = kSizes.hidden,
       .heads = kSizes.heads,
       .tensor_parallel = ways},
      selective ? LayerRecompute::kSelective : LayerRecompute::kNone,
      sequence_parallel);
  EXPECT_EQ(LayerBytes(c), expected + Statistics(ways, sequence_parallel));
}

INSTANTIATE_TEST_SUITE_P(AllCases, KorthikantiTest,
                         ::testing::Combine(::testing::Values(1, 2, 4, 8),
                                            ::testing::Bool(),
                                            ::testing::Bool()));

TEST(TransformerActivations, FullRecomputationKeepsTheLayersInput) {
  // 2 sbh = 2 * 32 * 2 * 64.
  EXPECT_EQ(LayerBytes(Fp16(1, false, CheckpointKind::kFull)), 8192);
}

TEST(TransformerActivations, FullRecomputationRunsForwardTwice) {
  TransformerSizes sizes = kSizes;
  sizes.layers = 4;
  TransformerEstimate model(sizes);
  const Estimate e = model.Of(Fp16(1, false, CheckpointKind::kFull));
  // All of forward again: a third of a step.
  EXPECT_NEAR(e.recompute_overhead, 1.0 / 3, 0.02);
  EXPECT_EQ(e.checkpoints.size(), 4U);
}

TEST(TransformerActivations, ProductsOfALayerAreSplitByColumnAndRow) {
  TransformerEstimate model(kSizes);
  const auto view = model.model()->Get(Fp16(4, false, CheckpointKind::kNone));
  ASSERT_TRUE(view.ok()) << view.status();
  // Query, key, value and the first of the MLP, and the logits; the projection
  // and the second of the MLP.
  EXPECT_EQ((*view)->facts.notes[0],
            "tensor parallel: 9 products by column, 4 by row, 0 whole on every "
            "GPU");
}

TEST(TransformerActivations, WaysThatDoNotDivideTheHeadsAreRefused) {
  TransformerEstimate model(kSizes);
  const auto estimate =
      Evaluate(model.model(), Fp16(3, false, CheckpointKind::kNone), {});
  EXPECT_EQ(estimate.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(estimate.status().message()),
              ::testing::HasSubstr("--tp 3 does not divide the 8 heads"));
}

TEST(TransformerActivations, FusedAttentionKeepsNoScores) {
  Configuration c = Fp16(1, false, CheckpointKind::kNone);
  const int64_t written_out = LayerBytes(c);
  c.fused_attention = true;
  const int64_t scores =
      kSizes.batch * kSizes.heads * kSizes.sequence * kSizes.sequence;
  const int64_t sums = kSizes.batch * kSizes.heads * kSizes.sequence * 4;
  // Softmax, mask and dropped scores go; a sum for each row comes.
  EXPECT_EQ(written_out - LayerBytes(c), 5 * scores - sums);
}

}  // namespace
}  // namespace onnx_memopt::estimate
