#include "onnx_memopt/estimate/states.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "onnx_memopt/estimate/gpus.h"

namespace onnx_memopt::estimate {
namespace {

int64_t State(const char* optimizer, const char* precision,
              std::initializer_list<int64_t> dims) {
  return OptimizerStateBytes(*FindOptimizer(optimizer),
                             *FindPrecision(precision), dims);
}

TEST(OptimizerState, OfEachKind) {
  // A matrix of 128 x 64: 8192 numbers.
  EXPECT_EQ(State("sgd", "fp32", {128, 64}), 0);
  EXPECT_EQ(State("momentum", "fp32", {128, 64}), 4 * 8192);
  EXPECT_EQ(State("adam", "fp32", {128, 64}), 8 * 8192);
  EXPECT_EQ(State("adamw", "fp16", {128, 64}), 8 * 8192);
  EXPECT_EQ(State("adam", "bf16-pure", {128, 64}), 4 * 8192);
  EXPECT_EQ(State("lion", "fp32", {128, 64}), 4 * 8192);
  // A row and a column.
  EXPECT_EQ(State("adafactor", "fp32", {128, 64}), 4 * (128 + 64));
  EXPECT_EQ(State("adafactor", "fp32", {3, 128, 64}), 3 * 4 * (128 + 64));
  // A vector has no factors.
  EXPECT_EQ(State("adafactor", "fp32", {128}), 4 * 128);
  // Two bytes each, and two scales for each 256.
  EXPECT_EQ(State("adam8bit", "fp32", {128, 64}), 2 * (8192 + 4 * 32));
  // Small tensors stay in float32.
  EXPECT_EQ(State("adam8bit", "fp32", {64}), 8 * 64);
}

TEST(OptimizerState, HugeDimsSaturate) {
  EXPECT_EQ(State("adam", "fp32", {int64_t{1} << 40, int64_t{1} << 40}),
            INT64_MAX);
  EXPECT_EQ(FindOptimizer("nothing"), nullptr);
  EXPECT_EQ(FindPrecision("fp64"), nullptr);
}

// 100 parameters in 16 bits with Adam: 200, 200, 400 and 800 bytes.
constexpr StateBytes kWhole = {
    .parameters = 200, .gradients = 200, .master = 400, .optimizer = 800};

TEST(Zero, EachLevelDividesMore) {
  const StateBytes one = Partition(kWhole, {.level = 1, .ranks = 4});
  EXPECT_EQ(one.optimizer, 200);
  EXPECT_EQ(one.master, 100);
  EXPECT_EQ(one.gradients, 200);
  const StateBytes two = Partition(kWhole, {.level = 2, .ranks = 4});
  EXPECT_EQ(two.gradients, 50);
  EXPECT_EQ(two.parameters, 200);
  const StateBytes three = Partition(kWhole, {.level = 3, .ranks = 4});
  EXPECT_EQ(three.parameters, 50);
  EXPECT_EQ(Partition(kWhole, {.level = 3, .ranks = 1}).parameters, 200);
}

TEST(Zero, OffloadMovesBytesToTheHost) {
  const ZeroOptions zero{.level = 2, .ranks = 4, .offload_optimizer = true};
  const StateBytes part = Partition(kWhole, zero);
  EXPECT_EQ(part.parameters, 200);
  EXPECT_EQ(part.gradients + part.master + part.optimizer, 0);
  EXPECT_EQ(OffloadedBytes(kWhole, zero), 50 + 100 + 200);
}

TEST(Gpus, AreFoundByNameInAnyForm) {
  ASSERT_NE(FindGpu("a100 80gb"), nullptr);
  EXPECT_EQ(FindGpu("a100 80gb")->memory_bytes, int64_t{80} << 30);
  EXPECT_EQ(FindGpu("A1000"), nullptr);
  EXPECT_EQ(NearGpuNames("h100", 2)[0].substr(0, 4), "H100");
  EXPECT_GE(AllGpus().size(), 25U);
  for (const Gpu& gpu : AllGpus()) {
    EXPECT_GT(gpu.memory_bytes, 0) << gpu.name;
    EXPECT_GT(gpu.bandwidth_gbs, 0) << gpu.name;
    EXPECT_FALSE(gpu.source.empty()) << gpu.name;
  }
}

}  // namespace
}  // namespace onnx_memopt::estimate
