#include "onnx_memopt/analysis/runtime_model.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/memory_profile.h"
#include "support/random_graph.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::analysis {
namespace {

using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportText;
using ::onnx_memopt::testing::RandomGraph;
using ::onnx_memopt::testing::Runs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kKib = 1024;
constexpr int64_t kMib = 1024 * kKib;

class Runtime {
 public:
  explicit Runtime(const std::string& text)
      : imported_(ImportText(text, {})), analyses_(&imported_.graph) {}

  RuntimePrediction Predict(const RuntimeOptions& options) {
    return *PredictRuntime(imported_.graph, analyses_, options);
  }
  int64_t Bare(const RuntimeOptions& options = {}) {
    return *PredictBarePeak(imported_.graph, analyses_, options);
  }
  // First results of the nodes, in the order in which they run.
  std::vector<std::string> Order(ExecutionOrder order) {
    std::vector<std::string> names;
    for (ir::NodeId id : Predict({.execution_order = order}).order) {
      const ir::Graph& graph = imported_.graph;
      names.push_back(graph.value(graph.node(id).results[0]).name);
    }
    return names;
  }

 private:
  Imported imported_;
  AnalysisManager analyses_;
};

// What a run takes beside its tensors is a constant.
int64_t Above(int64_t peak_bytes, int64_t tensors_bytes) {
  return peak_bytes - tensors_bytes;
}

TEST(RuntimeOrderTest, OfAJoinTheLaterProducerRunsFirst) {
  Runtime runtime(R"(
    g (float[4] x) => (float[4] y) {
      a = Sin(x)
      b = Cos(x)
      c = Exp(a)
      y = Add(c, b)
    })");
  EXPECT_THAT(runtime.Order(ExecutionOrder::kDefault),
              ElementsAre("a", "c", "b", "y"));
  EXPECT_THAT(runtime.Order(ExecutionOrder::kPriorityBased),
              ElementsAre("a", "b", "c", "y"));
}

TEST(RuntimeOrderTest, OfTwoLeavesTheLaterOnesConeRunsFirst) {
  Runtime runtime(R"(
    g (float[4] x) => (float[4] y, float[4] z) {
      a = Sin(x)
      y = Cos(a)
      b = Exp(x)
      z = Abs(b)
    })");
  EXPECT_THAT(runtime.Order(ExecutionOrder::kDefault),
              ElementsAre("b", "z", "a", "y"));
}

TEST(RuntimeOrderTest, ShapesRunAsSoonAsTheyCan) {
  Runtime runtime(R"(
    g (float[4] x) => (float[4] y) {
      a = Sin(x)
      b = Cos(a)
      s = Shape(a)
      y = Reshape(b, s)
    })");
  EXPECT_THAT(runtime.Order(ExecutionOrder::kPriorityBased),
              ElementsAre("a", "s", "b", "y"));
}

TEST(RuntimeOrderTest, RanksStandForPositionsInTheFile) {
  Imported imported = ImportText(R"(
    g (float[4] x) => (float[4] y) {
      a = Sin(x)
      b = Cos(x)
      y = Add(a, b)
    })",
                                 {});
  AnalysisManager analyses(&imported.graph);
  const RuntimeBlock block =
      *BuildRuntimeBlock(imported.graph, analyses, ir::kMainBlock, {});
  EXPECT_THAT(RunOrder(block, ExecutionOrder::kDefault), ElementsAre(1, 0, 2));
  EXPECT_THAT(RunOrder(block, ExecutionOrder::kDefault, {1, 0, 2}),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(RunOrder(block, ExecutionOrder::kFile, {1, 0, 2}),
              ElementsAre(1, 0, 2));
}

TEST(RuntimeBuffersTest, ActivationsRunInPlaceAndSumsDoNot) {
  // a in a buffer of its own, r over it, y new: 16 + 16 bytes.
  Runtime relu(R"(
    g (float[4] x) => (float[4] y) { a = Sin(x) r = Relu(a) y = Exp(r) })");
  EXPECT_EQ(relu.Bare(), 32);
  // While s is computed, a, b and s are there.
  Runtime add(R"(
    g (float[4] x) => (float[2] y) <int64[1] axes = {0}> {
      a = Sin(x) b = Cos(x) s = Add(a, b) y = ReduceMax(s, axes)
    })");
  EXPECT_EQ(add.Bare(), 48);
}

// "a" dies when m is made, and is inherited by "d", so that it is held while
// "c", which is larger, is there.
constexpr char kHeld[] = R"(
  g (float[1024, 64] x, float[1024, 96] w) => (float[1, 1] y) {
    a = Sin(x)
    m = ReduceMax(a)
    b = Add(w, m)
    n = ReduceMax(b)
    d = Add(x, n)
    y = ReduceMax(d)
  })";

TEST(RuntimeBuffersTest, ADeadBufferIsHeldForTheNextOfItsShape) {
  Runtime runtime(kHeld);
  const int64_t a = 1024 * 64 * 4;
  const int64_t b = 1024 * 96 * 4;
  EXPECT_EQ(runtime.Bare({.reuse = true}), a + b + 4);  // and m
  EXPECT_EQ(runtime.Bare({.reuse = false}), b + 4);
}

TEST(RuntimeBuffersTest, OutputsNeverInherit) {
  // y could have a's buffer, which is free, but outputs are always new.
  Runtime runtime(R"(
    g (float[1024] x) => (float[1024] y) {
      a = Sin(x)
      b = Exp(a)
      y = Abs(b)
    })");
  EXPECT_EQ(runtime.Bare(), 2 * 4 * kKib);
  // c is in a's buffer, which is free by then, and y in a new one beside it.
  Runtime longer(R"(
    g (float[1024] x) => (float[1024] y) {
      a = Sin(x)
      b = Exp(a)
      c = Sin(b)
      y = Abs(c)
    })");
  EXPECT_EQ(longer.Bare(), 2 * 4 * kKib);
  EXPECT_EQ(longer.Bare({.reuse = false}), 2 * 4 * kKib);
}

constexpr char kChain[] = R"(
  g (float[1024, 4096] x) => (float[1024, 4096] y) {
    a = Sin(x)
    b = Sin(a)
    c = Sin(b)
    y = Sin(c)
  })";

TEST(RuntimeMemoryTest, TheSteadyStateHasTheArenaAndTheBlock) {
  Runtime runtime(kChain);
  // 16 MiB each: c lies in a's buffer, beside b and then beside y.
  const RuntimePrediction bare = runtime.Predict(Bare());
  const int64_t overhead = Above(bare.peak_first_bytes, 32 * kMib);
  EXPECT_GE(overhead, 0);
  EXPECT_LE(overhead, kMib);
  // Two tensors in one block.
  const RuntimePrediction stock = runtime.Predict({});
  EXPECT_EQ(stock.pattern_bytes, 32 * kMib);
  // Two regions of 16 MiB in the first run, each with a table; then one for the
  // block, which is larger than what any of these has free.
  EXPECT_GT(stock.peak_first_bytes, bare.peak_first_bytes);
  EXPECT_GT(stock.peak_steady_bytes, stock.peak_first_bytes + 15 * kMib);
  const RuntimePrediction no_pattern =
      runtime.Predict({.arena = true, .pattern = false});
  EXPECT_LT(no_pattern.peak_steady_bytes, stock.peak_first_bytes + kMib);
}

// "d" fits in a's place, where 1 MiB would be left over, and exactly in c's,
// behind "b". It goes there, and "e" fits in a's place:
//
//   a  a  b  c        .  .  b  d        e  e  b  d
TEST(RuntimeMemoryTest, TheEndOfTheBlockIsAGapToo) {
  Runtime runtime(R"(
    g (float[256, 1024] x) => (float[1, 1] y, float[1, 1] s, float[1, 1] t) {
      a = Concat<axis = 0>(x, x)
      b = Sin(x)
      c = Cos(b)
      s = ReduceMax(a)
      t = ReduceMax(c)
      d = Sum(b, s, t)
      e = Concat<axis = 0>(d, b)
      y = ReduceMax(e)
    })");
  EXPECT_EQ(runtime
                .Predict({.execution_order = ExecutionOrder::kPriorityBased,
                          .reuse = false})
                .pattern_bytes,
            4 * kMib);
}

TEST(RuntimeMemoryTest, ConvolutionsUnfoldInPieces) {
  Runtime runtime(R"(
    g (float[1, 8, 64, 64] x, float[8, 8, 3, 3] w)
      => (float[1, 8, 62, 62] y) { y = Conv(x, w) })");
  const RuntimePrediction one = runtime.Predict(Bare({.threads = 1}));
  const RuntimePrediction two = runtime.Predict(Bare({.threads = 2}));
  EXPECT_EQ(one.scratch_at_peak_bytes, 64 * kKib);
  EXPECT_EQ(two.scratch_at_peak_bytes, 128 * kKib);
}

// At the default level an image of 2 MiB is copied into blocks of channels
// before it is pooled, unless a convolution with constant filters has made it.
TEST(RuntimeMemoryTest, PoolingCopiesAnImageThatIsNotInBlocks) {
  const RuntimeOptions at_default = {.folding = true};
  for (const char* text :
       {"g (float[1, 8, 256, 256] x) => (float[1, 8, 1, 1] y) "
        "{ y = GlobalAveragePool(x) }",
        "g (float[1, 8, 256, 256] x, float[8, 8, 1, 1] w) "
        "=> (float[1, 8, 1, 1] y) "
        "{ c = Conv(x, w) a = Relu(c) y = GlobalAveragePool(a) }"}) {
    Runtime runtime(text);
    EXPECT_EQ(runtime.Predict(at_default).scratch_at_peak_bytes, 2 * kMib);
    EXPECT_EQ(runtime.Predict({}).scratch_at_peak_bytes, 0);
  }
  Runtime constant(R"(
    g (float[1, 8, 256, 256] x) => (float[1, 8, 1, 1] y)
    <float[1, 1, 1, 1] one = {1.0}, int64[4] shape = {8, 8, 1, 1}> {
      w = Expand(one, shape)
      c = Conv(x, w)
      a = Relu(c)
      y = GlobalAveragePool(a)
    })");
  EXPECT_EQ(constant.Predict(at_default).scratch_at_peak_bytes, 0);
  // A pooling that returns positions stays as it is.
  Runtime positions(R"(
    g (float[1, 8, 256, 256] x)
      => (float[1, 8, 128, 128] y, int64[1, 8, 128, 128] at) {
      y, at = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)
    })");
  EXPECT_EQ(positions.Predict(at_default).scratch_at_peak_bytes, 0);
}

// 8 bytes for each index, or each list of them.
TEST(RuntimeMemoryTest, ScatteringKeepsPositions) {
  Runtime elements(R"(
    g (float[1024, 256] x, int64[1024, 256] at) => (float[1024, 256] y) {
      y = ScatterElements(x, at, x)
    })");
  EXPECT_EQ(elements.Predict({}).scratch_at_peak_bytes, 2 * kMib);
  Runtime lists(R"(
    g (float[1024, 256] x, int64[262144, 2] at, float[262144] v)
      => (float[1024, 256] y) { y = ScatterND(x, at, v) })");
  EXPECT_EQ(lists.Predict({}).scratch_at_peak_bytes, 2 * kMib);
}

TEST(RuntimeMemoryTest, FoldedConstantsAreNotPartOfARun) {
  // The table is 4 MiB, the sum another 4 MiB, the result 4 KiB.
  Runtime runtime(R"(
    g (float[1024, 1] x) => (float[1024, 1] y)
    <float[1, 1] one = {1.0}, int64[2] shape = {1024, 1024},
     int64[1] last = {1}> {
      table = Expand(one, shape)
      sum = Add(table, x)
      y = ReduceMax(sum, last)
    })");
  const int64_t whole = runtime.Bare();
  const int64_t folded = runtime.Bare({.folding = true});
  EXPECT_GE(whole, 8 * kMib);
  EXPECT_GE(folded, 4 * kMib);
  EXPECT_LT(folded, 5 * kMib);
  EXPECT_EQ(runtime.Predict({.folding = true}).order.size(), 2);
}

// The image is 1 MiB. With a step for each node three of them are there when n
// or y is made; a convolution that has taken in all behind it writes over t.
TEST(RuntimeMemoryTest, AConvolutionRunsWithWhatIsFoldedIntoItAndItsSum) {
  constexpr char kText[] = R"(
    g (float[1, 16, 128, 128] x) => (float[1, 16, 1, 1] z)
    <float[1, 1, 1, 1] one = {1.0}, int64[4] square = {16, 16, 1, 1},
     int64[1] channels = {16}, float[1] ones = {1.0}, int64[3] factors = {16, 1, 1}> {
      w = Expand(one, square)
      v = Expand(ones, channels)
      f = Expand(ones, factors)
      s = Conv(x, w)
      t = Conv(x, w)
      c = Conv(s, w)
      n = BatchNormalization(c, v, v, v, v)
      m = Mul(n, f)
      %s
    })";
  const auto graph = [&](const char* rest) {
    return absl::StrReplaceAll(kText, {{"%s", rest}});
  };
  const RuntimeOptions apart = {.folding = true};
  const RuntimeOptions together = {.folding = true, .fusion = true};
  constexpr char kSum[] = "y = Add(m, t) z = GlobalAveragePool(y)";
  EXPECT_EQ(Runtime(graph(kSum)).Bare(apart), 3 * kMib);
  EXPECT_EQ(Runtime(graph(kSum)).Bare(together), 2 * kMib);
  EXPECT_EQ(Runtime(graph(kSum)).Predict(together).order.size(), 4);
  // Another reader of c needs c itself; then t is made with the sum.
  constexpr char kAlsoRead[] =
      "y = Add(m, t) p = GlobalAveragePool(c) q = GlobalAveragePool(y) "
      "z = Add(p, q)";
  EXPECT_EQ(Runtime(graph(kAlsoRead)).Predict(together).order.size(), 8);
  // So is a factor that is no constant, and a sum with an image that is not in
  // the runtime's own layout.
  constexpr char kComputed[] =
      "a = GlobalAveragePool(x) y = Mul(m, a) z = GlobalAveragePool(y)";
  EXPECT_EQ(Runtime(graph(kComputed)).Predict(together).order.size(), 6);
  constexpr char kPlain[] = "y = Add(m, x) z = GlobalAveragePool(y)";
  EXPECT_EQ(Runtime(graph(kPlain)).Predict(together).order.size(), 5);
}

TEST(RuntimeMemoryTest, AProductWithItsSigmoidIsOneStep) {
  Runtime runtime(R"(
    g (float[1024, 256] x) => (float[1024, 1] y) <int64[1] last = {1}> {
      a = Sin(x)
      s = Sigmoid(a)
      p = Mul(a, s)
      y = ReduceMax(p, last)
    })");
  EXPECT_EQ(runtime.Bare({.folding = true}), 3 * kMib);
  EXPECT_EQ(runtime.Bare({.folding = true, .fusion = true}), 2 * kMib);
}

// What works on blocks of channels is made anew, in the order of the walk, so a
// shortcut, which was walked first, runs last: behind b, before c.
TEST(RuntimeMemoryTest, FusedConvolutionsAreNumberedAnew) {
  Runtime runtime(R"(
    g (float[1, 16, 64, 64] x) => (float[1, 16, 1, 1] z)
    <float[1, 1, 1, 1] one = {1.0}, int64[4] square = {16, 16, 1, 1}> {
      w = Expand(one, square)
      p = Conv(x, w)
      a = Conv(p, w)
      b = Conv(a, w)
      c = Conv(b, w)
      t = Conv(p, w)
      y = Add(c, t)
      z = GlobalAveragePool(y)
    })");
  const auto order = [&](bool fusion) {
    std::vector<size_t> nodes;
    for (ir::NodeId id :
         runtime.Predict({.folding = true, .fusion = fusion}).order) {
      nodes.push_back(ir::Index(id));
    }
    return nodes;
  };
  EXPECT_THAT(order(false), ElementsAre(1, 5, 2, 3, 4, 6, 7));
  EXPECT_THAT(order(true), ElementsAre(1, 2, 3, 5, 4, 7));
}

TEST(RuntimeMemoryTest, AScanTakesItsResultAndOneStep) {
  // 8 steps of 4 KiB: the result, and s and c of one step at a time.
  Runtime runtime(R"(
    g (float[8, 1024] x) => (float[8, 1024] y) {
      y = Scan <num_scan_inputs = 1, body = b (float[1024] p)
        => (float[1024] q) { s = Sin(p) c = Cos(s) q = Exp(c) }> (x)
    })");
  EXPECT_EQ(runtime.Bare(), (32 + 8) * kKib);
}

TEST(RuntimeMemoryTest, PrintNamesOrderAndPeaks) {
  Imported imported = ImportText(kHeld, {});
  AnalysisManager analyses(&imported.graph);
  std::string text;
  (*analyses.Get<RuntimeModel>())->Print(imported.graph, &text);
  EXPECT_THAT(text, HasSubstr("bare peak at step"));
  EXPECT_THAT(text, HasSubstr("order PRIORITY_BASED"));
}

TEST(RuntimePropertyTest, HoldsOnRandomGraphs) {
  for (uint64_t seed = 0; seed < Runs(500); ++seed) {
    SCOPED_TRACE(seed);
    const ir::Graph graph = RandomGraph(seed, {.max_nodes = 30,
                                               .max_depth = 2,
                                               .calls = true,
                                               .unknown_sizes = seed % 4 == 0,
                                               .named_dims = true});
    AnalysisManager analyses(&graph);
    for (const ExecutionOrder order :
         {ExecutionOrder::kDefault, ExecutionOrder::kPriorityBased}) {
      RuntimeOptions options = Bare();
      options.execution_order = order;
      const RuntimeBlock block =
          *BuildRuntimeBlock(graph, analyses, ir::kMainBlock, options);
      const std::vector<int32_t> steps = RunOrder(block, order);
      ASSERT_EQ(steps.size(), block.steps.size());
      std::vector<bool> done(steps.size());
      for (int32_t step : steps) {
        const RuntimeStep& s = block.steps[static_cast<size_t>(step)];
        for (int32_t before : s.after) {
          EXPECT_TRUE(done[static_cast<size_t>(before)]);
        }
        EXPECT_FALSE(done[static_cast<size_t>(step)]);
        done[static_cast<size_t>(step)] = true;
      }
      // The quick sum is the peak of the trace.
      const RuntimePrediction bare = *PredictRuntime(graph, analyses, options);
      const int64_t quick = *PredictBarePeak(graph, analyses, options);
      EXPECT_LE(quick, bare.peak_first_bytes);
      if (!steps.empty()) {
        EXPECT_GE(quick + kMib, bare.peak_first_bytes);
      }
      options.arena = options.pattern = true;
      const RuntimePrediction stock = *PredictRuntime(graph, analyses, options);
      EXPECT_GE(stock.peak_steady_bytes, stock.pattern_bytes);
    }
  }
}

TEST(RuntimePropertyTest, IdealIsPureLiveness) {
  int compared = 0;
  for (uint64_t seed = 0; seed < Runs(500); ++seed) {
    SCOPED_TRACE(seed);
    const ir::Graph graph = RandomGraph(seed, {.max_nodes = 30});
    AnalysisManager analyses(&graph);
    const MemoryProfile& profile = **analyses.Get<MemoryProfile>();
    const int64_t ideal =
        *PredictBarePeak(graph, analyses, {.target = RuntimeTarget::kIdeal});
    EXPECT_EQ(ideal, profile.main().peak_bytes);
    compared += ideal > 0 ? 1 : 0;
  }
  EXPECT_GT(compared, Runs(400));
}

}  // namespace
}  // namespace onnx_memopt::analysis
