#include "onnx_memopt/analysis/cost.h"

#include <cstdint>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::analysis {
namespace {

using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportText;

class CostOf {
 public:
  explicit CostOf(const std::string& text,
                  const io::ImportOptions& options = {})
      : imported_(ImportText(text, options)), analyses_(&imported_.graph) {}

  const Cost& cost() { return **analyses_.Get<Cost>(); }
  // Of the node that makes this value.
  NodeCost Node(const std::string& result) {
    const ir::ValueId value = imported_.Find(result);
    return cost().node(imported_.graph.value(value).producer);
  }

 private:
  Imported imported_;
  AnalysisManager analyses_;
};

TEST(CostTest, CountsMultiplyAddsAndBytes) {
  CostOf model(R"(
    g (float[2, 3] x, float[3, 5] w) => (float[10] v) <int64[1] flat = {-1}> {
      y = MatMul(x, w)
      z = Relu(y)
      v = Reshape(z, flat)
    })");
  // 2 rows, 5 columns, 3 multiply-adds each: 2*5*3*2 = 60.
  EXPECT_EQ(model.Node("y").flops, 60);
  // 6 + 15 read and 10 written, of 4 bytes.
  EXPECT_EQ(model.Node("y").traffic_bytes, 124);
  EXPECT_EQ(model.Node("z").flops, 10);
  EXPECT_EQ(model.Node("z").traffic_bytes, 80);
  EXPECT_EQ(model.Node("v").flops, 0);
  EXPECT_EQ(model.Node("v").traffic_bytes, 0);
  EXPECT_EQ(model.cost().total_flops(), 70);
  EXPECT_EQ(model.cost().unknown_nodes(), 0);
}

TEST(CostTest, TakesTheLargestBranch) {
  CostOf model(R"(
    g (float[4] x, bool c) => (float[4] y) {
      y = If (c) <then_branch = t () => (float[4] a) { a = Relu(x) },
                  else_branch = e () => (float[4] b)
                    { p = Relu(x) q = Relu(p) b = Relu(q) }>
    })");
  EXPECT_EQ(model.Node("y").flops, 12);
  EXPECT_EQ(model.cost().total_flops(), 12);
}

TEST(CostTest, LoopsCountTheBodyOncePerTrip) {
  CostOf model(R"(
    g (float[8] x, float[6, 8] xs) => (float[8] last, float[6, 8] all)
    <int64 trips = {5}, bool yes = {1}> {
      looped, rows = Loop (trips, yes, x) <body = b
        (int64 i, bool go, float[8] carried)
          => (bool again, float[8] next, float[8] row)
          { again = Identity(go) next = Relu(carried) row = Identity(next) }>
      last, all = Scan <num_scan_inputs = 1, body = s
        (float[8] state, float[8] slice) => (float[8] sum, float[8] out)
          { sum = Add(state, slice) out = Identity(sum) }> (looped, xs)
    })");
  EXPECT_EQ(model.Node("looped").flops, 5 * 8);
  EXPECT_EQ(model.Node("last").flops, 6 * 8);
}

TEST(CostTest, UnknownStaysUnknown) {
  CostOf model(R"(
    g (float[4] x) => (float[4] y) { t = local.Mystery(x) y = Relu(t) })");
  EXPECT_EQ(model.Node("t").flops, std::nullopt);
  EXPECT_EQ(model.Node("t").traffic_bytes, std::nullopt);
  // The file says what the output is.
  EXPECT_EQ(model.Node("y").flops, 4);
  EXPECT_EQ(model.cost().unknown_nodes(), 1);
  EXPECT_EQ(model.cost().total_flops(), 4);
}

TEST(CostTest, BoundAndAssumedDims) {
  const char* const text =
      "g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }";
  EXPECT_EQ(CostOf(text).Node("y").flops, 4);  // n is taken as 1
  EXPECT_EQ(CostOf(text, {.dims = {{"n", 10}}}).Node("y").flops, 40);
}

}  // namespace
}  // namespace onnx_memopt::analysis
