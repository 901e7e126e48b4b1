// Figures that DeepSpeed, Accelerate and Megatron publish, and the right
// answers where the EleutherAI calculator is known to be wrong.
#include <cmath>
#include <cstdint>

#include "gtest/gtest.h"
#include "onnx_memopt/estimate/configuration.h"
#include "onnx_memopt/estimate/reference_formulas.h"
#include "unit/estimate/transformer_estimate.h"

namespace onnx_memopt::estimate {
namespace {

using ::onnx_memopt::testing::TransformerEstimate;
using ::onnx_memopt::testing::TransformerSizes;

// As the tables print them: two decimals of GiB, or whole MiB.
double Gib(int64_t bytes) {
  return std::round(static_cast<double>(bytes) / (1 << 30) * 100) / 100;
}
int64_t Mib(int64_t bytes) { return bytes >> 20; }
double Mib2(int64_t bytes) {
  return std::round(static_cast<double>(bytes) / (1 << 20) * 100) / 100;
}

TEST(DeepSpeed, DocumentedRowsOfT5With3BillionParameters) {
  const DeepSpeedModel model{
      .parameters = 2'851'598'336, .largest_layer = 32'899'072, .gpus = 8};
  EXPECT_EQ(Gib(DeepSpeedZero2Bytes(model)), 15.93);
  EXPECT_EQ(Gib(DeepSpeedZero2Bytes(model, true)), 5.31);
  EXPECT_EQ(Gib(DeepSpeedZero3Bytes(model)), 6.10);
  EXPECT_EQ(Gib(DeepSpeedZero3Bytes(model, true)), 0.79);
  EXPECT_EQ(Gib(DeepSpeedZero3Bytes(model, true, true)), 0.12);
}

TEST(DeepSpeed, DocumentedRowsOfT5Large) {
  const DeepSpeedModel model{
      .parameters = 737'668'096, .largest_layer = 32'899'072, .gpus = 4};
  EXPECT_EQ(Mib(DeepSpeedZero3Bytes(model)), 3291);
  EXPECT_EQ(Mib(DeepSpeedZero3Bytes(model, true)), 477);
  EXPECT_EQ(Mib(DeepSpeedZero3Bytes(model, true, true)), 125);
}

TEST(Accelerate, DocumentedFigures) {
  // bert-base-cased: two buffers of 512 positions, int64.
  const AccelerateEstimate bert = AccelerateBytes(108'310'272, 4, 2 * 512 * 8);
  EXPECT_EQ(Mib2(bert.inference_bytes), 413.18);
  EXPECT_EQ(Gib(bert.training_bytes), 1.61);
  // timm's resnet50: running statistics of 26,560 channels, 53 counters.
  const AccelerateEstimate resnet =
      AccelerateBytes(25'557'032, 4, 2 * 26'560 * 4 + 53 * 8);
  EXPECT_NEAR(Mib2(resnet.inference_bytes), 97.7, 0.006);
  EXPECT_EQ(Mib2(resnet.training_bytes), 390.78);
}

TEST(Megatron, WeightsAndOptimizer) {
  EXPECT_DOUBLE_EQ(MegatronStateBytes(1e9, 8, false), 18e9);
  EXPECT_DOUBLE_EQ(MegatronStateBytes(1e9, 8, true), 7.5e9);
}

TEST(Megatron, Activations) {
  MegatronModel model{.layers = 2,
                      .ffn_hidden = 256,
                      .vocabulary = 640,
                      .layer = {.sequence = 16, .batch = 1, .hidden = 64}};
  const double sbh = 16 * 64;
  // 34 sbh a layer, ids, the embedding's dropout, the output layer.
  EXPECT_DOUBLE_EQ(MegatronActivationBytes(model),
                   2 * 34 * sbh + 8 * 16 + sbh + 4 * sbh * (1 + 10));
  model.pipeline_parallel = 4;
  model.micro_batches = 2;
  EXPECT_DOUBLE_EQ(MegatronActivationBytes(model),
                   (2 * 34 * sbh + 8 * 16 * 4 + sbh * 4) * 0.5);
  model.virtual_stages = 2;
  EXPECT_DOUBLE_EQ(MegatronActivationBytes(model),
                   (2 * 34 * sbh + 8 * 16 * 4 + sbh * 4) * (1 + 3.0 / 8));
}

TEST(RuleOfThumb, AHundredMillionParameters) {
  // 0.4 GB + 100 B * 32 + 0.8 GB.
  EXPECT_EQ(RuleOfThumbBytes(100'000'000, 100, 32, 800'000'000), 1'200'003'200);
}

// Pythia-6.9B: 32 layers of 4096, sequences of 2048, batch 8.
class Pythia : public ::testing::Test {
 protected:
  static TransformerSizes Sizes() {
    return {.layers = 32,
            .batch = 8,
            .sequence = 2048,
            .hidden = 4096,
            .heads = 32,
            .vocabulary = 50'432};
  }
  static Configuration Fp16() {
    Configuration c;
    c.batch = 8;
    c.precision = FindPrecision("fp16");
    return c;
  }
  static int64_t Parameters() {
    // 12 h^2 and 4 h a layer, and the embedding twice: not tied.
    return 32 * (12 * int64_t{4096} * 4096 + 4 * 4096) + 2 * 50'432 * 4096;
  }
};

TEST_F(Pythia, TensorParallelDividesGradientsAndOptimizerToo) {
  TransformerEstimate model(Sizes());
  Configuration c = Fp16();
  const StateBytes whole = model.Of(c).worst().states;
  EXPECT_EQ(whole.gradients, 2 * Parameters());
  EXPECT_EQ(whole.optimizer, 8 * Parameters());
  c.tensor_parallel = 8;
  const StateBytes part = model.Of(c).worst().states;
  // Normalisations alone are on every GPU.
  const int64_t norms = 32 * 4 * 4096;
  EXPECT_EQ(part.gradients, 2 * ((Parameters() - norms) / 8 + norms));
  EXPECT_EQ(part.optimizer, 8 * ((Parameters() - norms) / 8 + norms));
}

TEST_F(Pythia, Zero3DividesByDataParallelGpusAndNotByAll) {
  TransformerEstimate model(Sizes());
  Configuration c = Fp16();
  c.tensor_parallel = 8;
  c.data_parallel = 8;
  c.zero = 3;
  // 6.86e9 parameters of 2 bytes over 64 GPUs: 0.20 GiB, and not 0.02.
  EXPECT_EQ(Gib(model.Of(c).worst().states.parameters), 0.20);
}

TEST_F(Pythia, FullCheckpointingKeepsTwoBytesANumberOfTheLayersInput) {
  TransformerEstimate model(Sizes());
  Configuration c = Fp16();
  c.checkpoint = CheckpointKind::kFull;
  const int64_t sbh = int64_t{2048} * 8 * 4096;
  const int64_t layers = 32 * 2 * sbh;
  // And the input of the logits, and the token ids.
  EXPECT_EQ(model.Saved(c), layers + 2 * sbh + 2048 * 8 * 8);
}

TEST_F(Pythia, ActivationsAreDividedByPipelineAndTensorParallel) {
  TransformerEstimate model(Sizes());
  Configuration c = Fp16();
  const int64_t whole = model.Saved(c);
  c.tensor_parallel = 8;
  c.sequence_parallel = true;
  EXPECT_NEAR(static_cast<double>(model.Saved(c)),
              static_cast<double>(whole) / 8,
              0.01 * static_cast<double>(whole));
  c = Fp16();
  c.pipeline_parallel = 4;
  const Estimate stages = model.Of(c);
  ASSERT_EQ(stages.stages.size(), 4U);
  for (const StageEstimate& stage : stages.stages) {
    EXPECT_NEAR(static_cast<double>(stage.saved_bytes),
                static_cast<double>(whole) / 4,
                0.05 * static_cast<double>(whole));
  }
}

TEST_F(Pythia, EarlyStagesOfAPipelineHoldMoreMicroBatches) {
  TransformerEstimate model(Sizes());
  Configuration c = Fp16();
  c.batch = 1;
  c.pipeline_parallel = 4;
  c.micro_batches = 8;
  const Estimate one_forward_one_backward = model.Of(c);
  c.gpipe = true;
  const Estimate gpipe = model.Of(c);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(one_forward_one_backward.stages[i].in_flight,
              static_cast<int64_t>(4 - i));
    EXPECT_EQ(gpipe.stages[i].in_flight, 8);
  }
  EXPECT_LT(one_forward_one_backward.worst().total_bytes,
            gpipe.worst().total_bytes);
}

TEST_F(Pythia, MoreStagesThanLayersAreRefused) {
  TransformerEstimate model(Sizes());
  Configuration c = Fp16();
  c.pipeline_parallel = 200;
  EXPECT_EQ(Evaluate(model.model(), c, {}).status().code(),
            absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace onnx_memopt::estimate
