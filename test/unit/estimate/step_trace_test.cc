// Small models whose bytes are counted by hand.
#include "onnx_memopt/estimate/step_trace.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/estimate/model_facts.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::estimate {
namespace {

using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportText;

ModelFacts Facts(const std::string& text, const FactOptions& options = {}) {
  const Imported imported = ImportText(text);
  EXPECT_TRUE(imported.status.ok()) << imported.status;
  auto facts = ExtractFacts(imported.graph, options);
  EXPECT_TRUE(facts.ok()) << facts.status();
  return facts.ok() ? *std::move(facts) : ModelFacts{};
}

int64_t Saved(const ModelFacts& facts, int64_t batch) {
  return SavedBytes(facts, {.batch = batch});
}

constexpr char kTwoLayers[] = R"(
  g (float[1, 4] x) => (float[1, 2] y)
  <float[4, 8] w1 = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8,
                     1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8},
   float[8, 2] w2 = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8}> {
    h = MatMul(x, w1)
    r = Relu(h)
    y = MatMul(r, w2)
  })";

TEST(Facts, ProductsKeepWhatTheirWeightsGradientNeeds) {
  const ModelFacts facts = Facts(kTwoLayers);
  EXPECT_EQ(facts.num_parameters(), 48);
  // x (4 numbers) and r (8), which Relu keeps too; h is not kept.
  EXPECT_EQ(Saved(facts, 1), 4 * (4 + 8));
  EXPECT_EQ(Saved(facts, 10), 10 * 4 * (4 + 8));
}

TEST(Facts, AutocastKeepsCopiesOfWhatProductsTake) {
  const ModelFacts facts = Facts(kTwoLayers, {.autocast = true});
  const TraceOptions options{.batch = 1, .activation_bytes = 2};
  // x is float32, and kept as a copy of 4 numbers; r has 8, and w2 a copy of
  // 16. w1 has nobody to give its copy to: x has no gradient.
  EXPECT_EQ(SavedBytes(facts, options), 2 * (4 + 8 + 16));
  // The copy of w2 is one for the batch.
  EXPECT_EQ(SavedBytes(facts, {.batch = 10, .activation_bytes = 2}),
            2 * (40 + 80 + 16));
}

TEST(Facts, AutocastComputesSoftmaxAndNormsInFloat32) {
  const ModelFacts facts = Facts(R"(
    g (float[1, 4] x) => (float[1, 2] y)
    <float[4, 4] w1 = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8},
     float[4, 2] w2 = {1, 2, 3, 4, 5, 6, 7, 8}> {
      h = MatMul(x, w1)
      s = Softmax(h)
      y = MatMul(s, w2)
    })",
                                 {.autocast = true});
  // Copies of x and of s in 16 bits, s itself, a copy of w2.
  EXPECT_EQ(SavedBytes(facts, {.batch = 1, .activation_bytes = 2}),
            2 * 4 + 2 * 4 + 4 * 4 + 2 * 8);
}

TEST(Facts, HalfPrecisionHalvesActivationsButNotIndices) {
  const ModelFacts facts = Facts(R"(
    g (float[1, 2, 4, 4] x) => (float[1, 3, 1, 1] y)
    <float[3, 2, 1, 1] w = {1, 2, 3, 4, 5, 6}> {
      c = Conv(x, w)
      y = MaxPool <kernel_shape = [4, 4]> (c)
    })");
  // x, c, and an int64 index for each of 3 results.
  EXPECT_EQ(SavedBytes(facts, {.batch = 1}), 4 * (32 + 48) + 24);
  EXPECT_EQ(SavedBytes(facts, {.batch = 1, .activation_bytes = 2}),
            2 * (32 + 48) + 24);
}

TEST(Facts, ActivationsThatWereWrittenOutAreOneOperator) {
  const ModelFacts facts = Facts(R"(
    g (float[1, 4] x) => (float[1, 4] y)
    <float[4, 4] w = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4},
     float root = {1.41421}, float one = {1.0}, float half = {0.5}> {
      h = MatMul(x, w)
      d = Div(h, root)
      e = Erf(d)
      p = Add(e, one)
      m = Mul(h, p)
      g1 = Mul(m, half)
      s = Sigmoid(g1)
      y = Mul(g1, s)
    })");
  ASSERT_EQ(facts.units.size(), 3U);
  EXPECT_EQ(facts.units[1].op, "Gelu");
  EXPECT_EQ(facts.units[2].op, "Silu");
  // x, the operand of each activation.
  EXPECT_EQ(Saved(facts, 1), 4 * (4 + 4 + 4));
}

TEST(Facts, ConstantsThatAreNoWeightsAreNotTrained) {
  const ModelFacts facts = Facts(R"(
    g (float[1, 2, 2] x) => (float[1, 2, 2] y)
    <float[2, 2] w = {1, 2, 3, 4}, float[2, 2] mask = {0, -9, 0, 0},
     float low = {0.0}, float high = {6.0}> {
      s = MatMul(x, w)
      m = Add(s, mask)
      p = Softmax(m)
      y = Clip(p, low, high)
    })");
  EXPECT_EQ(facts.num_parameters(), 4);
  EXPECT_EQ(facts.constant_bytes(), 16 + 4 + 4);
}

TEST(Trace, PeakIsCountedByHand) {
  const ModelFacts facts = Facts(kTwoLayers);
  const StepTrace trace =
      TraceStep(facts, {.batch = 1, .loss = LossKind::kNone});
  const TraceProfile profile = Replay(trace);
  // Forward: x 16, h 32, r 32, y 8. The highest is in the last backward of the
  // three: x 16, y 8, the gradient of w2 (64), of h (32), of w1 (128).
  EXPECT_EQ(profile.peak_bytes, 16 + 8 + 64 + 32 + 128);
  EXPECT_EQ(trace.points[profile.peak_point].phase, Phase::kBackward);
  EXPECT_EQ(trace.points[profile.peak_point].unit, 0);
  EXPECT_EQ(profile.at_peak[static_cast<size_t>(Category::kGradients)], 192);
}

TEST(Trace, EverythingButStatesIsFreedAtTheEnd) {
  const ModelFacts facts = Facts(kTwoLayers);
  const StepTrace trace = TraceStep(
      facts,
      {.batch = 3,
       .persistent = {{.category = Category::kParameters, .bytes = 192}}});
  int64_t live = 0;
  for (const TraceEvent& event : trace.events) {
    const int64_t bytes = trace.blocks[event.block].bytes;
    live += event.allocate ? bytes : -bytes;
  }
  // Parameters and their gradients; inputs (3 x 16) and outputs (3 x 8) are the
  // caller's.
  EXPECT_EQ(live, 192 + 192 + 48 + 24);
}

TEST(Trace, AnAdditionPassesItsGradientOn) {
  const ModelFacts facts = Facts(R"(
    g (float[1, 4] x) => (float[1, 4] y)
    <float[4, 4] w = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}> {
      a = MatMul(x, w)
      b = Tanh(a)
      y = Add(a, b)
    })");
  ASSERT_EQ(facts.units.size(), 3U);
  EXPECT_TRUE(facts.units[2].passes_gradient);
  const StepTrace trace =
      TraceStep(facts, {.batch = 1, .loss = LossKind::kNone});
  int gradients = 0;
  for (const TraceBlock& block : trace.blocks) gradients += block.is_gradient;
  // Of y, which a and b share; what Tanh adds to a's; and their sum, since a's
  // is somebody else's too.
  EXPECT_LE(gradients, 3);
}

TEST(Trace, ServingKeepsNothing) {
  const ModelFacts facts = Facts(kTwoLayers);
  const TraceProfile profile =
      Replay(TraceStep(facts, {.batch = 1, .training = false}));
  // x 16, h 32 and r 32.
  EXPECT_EQ(profile.peak_bytes, 16 + 32 + 32);
}

}  // namespace
}  // namespace onnx_memopt::estimate
