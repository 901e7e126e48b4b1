#include "analysis/half_on_cpu.h"

#include <string>

#include "gtest/gtest.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/runtime_model.h"
#include "onnx_memopt/ir/graph.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::analysis {
namespace {

using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportText;

std::string RunsAs(const std::string& text) {
  const Imported imported = ImportText(text, {});
  const HalfOnCpu runs = RunsHalfAs(imported.graph);
  EXPECT_TRUE(ir::Verify(runs.graph).ok()) << ir::Verify(runs.graph);
  return ir::ToString(runs.graph);
}

TEST(HalfOnCpuTest, CastsStandAroundProductsAndMoversOfDataStay) {
  // The Casts of the model vanish: x is there in float32, and so is what the
  // last product makes. Two movers in a row stay in 16 bits.
  EXPECT_EQ(RunsAs(R"(
    g (float[4, 8] x) => (float[8, 8] y)
    <float16[8, 8] w = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
     int64[3] s = {2, 2, 8}, int64[2] t = {4, 8}>
    {
      a = Cast <to = 10> (x)
      h = MatMul (a, w)
      r = Reshape (h, s)
      q = Reshape (r, t)
      z = MatMul (q, w)
      f = Cast <to = 1> (z)
      e = Exp (f)
      p = Transpose (e)
      y = MatMul (p, e)
    })"),
            R"(param %x : float[4, 8]
weight %w : float16[8, 8]
weight %s : int64[3]
weight %t : int64[2]
%w_float = Cast(%w) : float[8, 8]
%h_float = MatMul(%x, %w_float) : float[4, 8]
%h = Cast(%h_float) : float16[4, 8]
%r = Reshape(%h, %s) : float16[2, 2, 8]
%q = Reshape(%r, %t) : float16[4, 8]
%q_float = Cast(%q) : float[4, 8]
%z_float = MatMul(%q_float, %w_float) : float[4, 8]
%e = Exp(%z_float) : float[4, 8]
%p = Transpose(%e) : float[8, 4]
%y = MatMul(%p, %e) : float[8, 8]
return %y
)");
}

TEST(HalfOnCpuTest, AMoverAloneRunsInFloat32) {
  EXPECT_EQ(RunsAs(R"(
    g (float16[4, 8] x) => (float16[8, 4] y)
    {
      h = Exp (x)
      r = Transpose (h)
      y = Exp (r)
    })"),
            R"(param %x : float16[4, 8]
%x_float = Cast(%x) : float[4, 8]
%h_float = Exp(%x_float) : float[4, 8]
%r_float = Transpose(%h_float) : float[8, 4]
%y_float = Exp(%r_float) : float[8, 4]
%y = Cast(%y_float) : float16[8, 4]
return %y
)");
}

TEST(HalfOnCpuTest, AFunctionOfOneOperatorRunsAsThatOperator) {
  EXPECT_EQ(RunsAs(R"(
    g (float16[4, 8] x) => (float[4, 8] y)
    {
      h = Relu (x)
      y = Cast <to = 1> (h)
    })"),
            R"(param %x : float16[4, 8]
%h = Max(%x) : float16[4, 8]
%y = Cast(%h) : float[4, 8]
return %y
)");
}

TEST(HalfOnCpuTest, ThePredictionNamesWhatTheModelHas) {
  const Imported imported = ImportText(R"(
    g (float16[1024, 1024] x) => (float16[1024, 1024] y)
    {
      h = Exp (x)
      y = Exp (h)
    })",
                                       {});
  AnalysisManager analyses(&imported.graph);
  const RuntimePrediction prediction =
      *PredictRuntime(imported.graph, analyses, Bare());
  // Results of 4 MiB each, where 16 bits would take 2.
  EXPECT_GE(prediction.peak_first_bytes, int64_t{8} << 20);
  EXPECT_EQ(prediction.order.size(), 2u);
  for (const LiveBuffer& buffer : prediction.at_peak) {
    EXPECT_LT(Index(buffer.value), imported.graph.num_values());
  }
}

}  // namespace
}  // namespace onnx_memopt::analysis
