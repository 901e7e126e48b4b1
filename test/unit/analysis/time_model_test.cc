#include "onnx_memopt/analysis/time_model.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "support/random_graph.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::analysis {
namespace {

using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportText;
using ::onnx_memopt::testing::RandomGraph;
using ::onnx_memopt::testing::Runs;
using ::testing::HasSubstr;

// An initializer of the text syntax.
std::string Zeros(const std::string& type, int count) {
  std::string list = "0";
  for (int i = 1; i < count; ++i) absl::StrAppend(&list, ", 0");
  return absl::StrCat(type, " = {", list, "}");
}

class TimeOf {
 public:
  explicit TimeOf(const std::string& text)
      : imported_(ImportText(text, {})), analyses_(&imported_.graph) {}

  const TimeModel& time() { return **analyses_.Get<TimeModel>(); }
  ir::NodeId Producer(const std::string& result) const {
    return imported_.graph.value(imported_.Find(result)).producer;
  }
  double Seconds(const std::string& result) {
    return time().node_seconds(Producer(result));
  }
  const NodeWork& Work(const std::string& result) {
    return time().work(Producer(result));
  }
  ir::BlockId BlockOf(const std::string& result) const {
    return imported_.graph.node(Producer(result)).block;
  }

 private:
  Imported imported_;
  AnalysisManager analyses_;
};

// A square matrix of 4 MiB of weights, and this many rows.
double ProductSeconds(int rows) {
  return SecondsOf({.kind = KernelKind::kProduct,
                    .flops = 2.0 * rows * 1024 * 1024,
                    .weight_bytes = 4.0 * 1024 * 1024,
                    .data_bytes = 8.0 * rows * 1024});
}

TEST(TimeModelTest, ProductsOfFewRowsTakeLongerForEachRow) {
  // 1024 rows do 512 operations for each byte of weights, 4 rows do 2.
  EXPECT_GT(ProductSeconds(4) / 4, 3 * ProductSeconds(1024) / 1024);
  EXPECT_LT(ProductSeconds(512) / 512, 1.1 * ProductSeconds(1024) / 1024);
}

TEST(TimeModelTest, EachPartReadsTheWeightsAgain) {
  const NodeWork work{.kind = KernelKind::kProduct,
                      .flops = 1e9,
                      .weight_bytes = 4e7,
                      .data_bytes = 1e6};
  const NodeWork part = PartOf(work, 8, /*per_item=*/false);
  EXPECT_EQ(part.flops, work.flops / 8);
  EXPECT_EQ(part.weight_bytes, work.weight_bytes);
  // Seven more reads of 40 MB are milliseconds; calls are microseconds.
  EXPECT_GT(8 * SecondsOf(part), SecondsOf(work) + 1e-3);
  const NodeWork item = PartOf(work, 8, /*per_item=*/true);
  EXPECT_LT(8 * SecondsOf(item), SecondsOf(work) + 1e-3);
}

TEST(TimeModelTest, FewWeightsStayInTheCache) {
  // The next run finds 60 bytes where the last one left them.
  TimeOf few(absl::StrCat("g (float[2, 3] x) => (float[2, 5] y) <",
                          Zeros("float[3, 5] w", 15),
                          "> { y = MatMul(x, w) }"));
  EXPECT_TRUE(few.Work("y").near_weights);
  EXPECT_TRUE(StayInCache(1 << 20));
  EXPECT_FALSE(StayInCache(128 << 20));
  NodeWork work{.kind = KernelKind::kProduct, .weight_bytes = 4e7};
  const double far = SecondsOf(work);
  work.near_weights = true;
  EXPECT_LT(SecondsOf(work), far);
}

TEST(TimeModelTest, EachPartReadsOperandsThatAreNotDivided) {
  const NodeWork work{
      .kind = KernelKind::kBatchedProduct, .flops = 1e9, .data_bytes = 9e6};
  EXPECT_EQ(PartOf(work, 8, /*per_item=*/false, 1e6).data_bytes, 2e6);
  EXPECT_EQ(PartOf(work, 8, /*per_item=*/false, 1e9).data_bytes, 9e6);
}

TEST(TimeModelTest, LargeTensorsCostMoreForEachByte) {
  const auto seconds = [](double bytes) {
    return SecondsOf({.kind = KernelKind::kMove, .data_bytes = bytes});
  };
  EXPECT_GT(seconds(64 << 20), 2 * 64 * seconds(1 << 20));
  EXPECT_EQ(SecondsOf({}), 0);
}

TEST(TimeModelTest, ALoopCostsItsTrips) {
  TimeOf model(R"(
    g (float[8, 1024] x) => (float[8, 1024] y) {
      y = Scan <num_scan_inputs = 1, body = b (float[1024] p)
        => (float[1024] q) { s = Sin(p) q = Exp(s) }> (x)
    })");
  const double body = model.Seconds("s") + model.Seconds("q");
  EXPECT_GT(body, 0);
  EXPECT_DOUBLE_EQ(model.Seconds("y"), LoopSeconds(8) + 8 * body);
  EXPECT_DOUBLE_EQ(model.time().total_seconds(), model.Seconds("y"));
  EXPECT_EQ(model.time().runs(ir::kMainBlock), 1);
  EXPECT_EQ(model.time().runs(model.BlockOf("q")), 8);
}

TEST(TimeModelTest, OtherAxesAreCopied) {
  const auto seconds = [](const std::string& axes) {
    TimeOf model(R"(
    g (float[64, 64] x) => (float[64, 64] y) {
      y = Scan <num_scan_inputs = 1, scan_input_axes = [)" +
                 axes + R"(],
        body = b (float[64] p) => (float[64] q) { q = Exp(p) }> (x)
    })");
    return model.Seconds("y");
  };
  EXPECT_GT(seconds("1"), seconds("0"));
}

TEST(TimeModelTest, WhatIsDoneElsewhereCostsNothing) {
  TimeOf model(R"(
    g (float[1, 4, 8, 8] x, float[1, 4, 8, 8] r) => (float[1, 4, 8, 8] y)
    <)" + Zeros("float[4, 4, 1, 1] u", 16) +
               R"(> {
      k = Exp(u)
      c = Conv <kernel_shape = [1, 1]> (x, k)
      s = Add(c, r)
      a = Relu(s)
      y = Relu(r)
    })");
  // Folded when the model is loaded.
  EXPECT_EQ(model.Work("k").kind, KernelKind::kNone);
  EXPECT_EQ(model.Work("c").kind, KernelKind::kPointwiseConv);
  EXPECT_EQ(model.Work("c").weight_bytes, 4 * 4 * 4);
  // Part of the convolution.
  EXPECT_EQ(model.Seconds("s"), 0);
  EXPECT_EQ(model.Seconds("a"), 0);
  EXPECT_GT(model.Seconds("y"), 0);
}

TEST(TimeModelTest, FiltersFromOutsideABodyAreNotLaidOut) {
  const auto text = [](const std::string& outside, const std::string& inside) {
    return R"(
    g (float[2, 1, 4, 8, 8] x) => (float[2, 1, 4, 8, 8] y) )" +
           outside + R"({
      y = Scan <num_scan_inputs = 1, body = b (float[1, 4, 8, 8] p)
        => (float[1, 4, 8, 8] q) )" +
           inside +
           R"({ q = Conv <kernel_shape = [1, 1]> (p, w) }> (x)
    })";
  };
  const std::string weight =
      absl::StrCat("<", Zeros("float[4, 4, 1, 1] w", 16), ">");
  TimeOf outside(text(weight, ""));
  TimeOf inside(text("", weight));
  EXPECT_TRUE(outside.Work("q").unpacked);
  EXPECT_FALSE(inside.Work("q").unpacked);
  EXPECT_GT(outside.time().total_seconds(), inside.time().total_seconds());
}

TEST(TimeModelTest, PrintHasALineForEachNode) {
  Imported imported = ImportText(R"(
    g (float[2, 3] x) => (float[2, 5] z) <)" +
                                 Zeros("float[3, 5] w", 15) +
                                 R"(> {
      y = MatMul(x, w)
      z = Relu(y)
    })");
  AnalysisManager analyses(&imported.graph);
  std::string text;
  (*analyses.Get<TimeModel>())->Print(imported.graph, &text);
  // 2*2*3*5 operations; 6 elements in, 10 out.
  EXPECT_THAT(text, HasSubstr("MatMul:y: product, 60 flops, 60 bytes of "
                              "weights, 64 of data"));
  EXPECT_THAT(text, HasSubstr("\ntotal "));
}

TEST(TimeModelTest, IsPositiveAndTheSameTwice) {
  for (uint64_t seed = 0; seed < Runs(100); ++seed) {
    SCOPED_TRACE(seed);
    const ir::Graph graph = RandomGraph(seed, {.max_nodes = 30,
                                               .max_depth = 2,
                                               .calls = true,
                                               .unknown_sizes = seed % 4 == 0,
                                               .named_dims = true});
    AnalysisManager analyses(&graph);
    const TimeModel& time = **analyses.Get<TimeModel>();
    double sum = 0;
    for (ir::NodeId id : graph.block(ir::kMainBlock).nodes) {
      EXPECT_GE(time.node_seconds(id), 0);
      sum += time.node_seconds(id);
    }
    // Bodies of calls are steps of their own.
    EXPECT_GE(time.total_seconds(), sum * (1 - 1e-9));
    AnalysisManager again(&graph);
    EXPECT_EQ((*again.Get<TimeModel>())->total_seconds(), time.total_seconds());
  }
}

}  // namespace
}  // namespace onnx_memopt::analysis
