// Ranges of tensors, by hand. In each test the region is all nodes of the
// graph, split along the rows of what comes out.
#include "onnx_memopt/rewrite/region_windows.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/rewrite/grow_region.h"
#include "support/status_matchers.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::rewrite {
namespace {

using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportText;
using ::onnx_memopt::testing::IsOk;
using ::testing::ElementsAre;

class RegionWindowsTest : public ::testing::Test {
 protected:
  // The region that grows from the last node along `axis` of its result.
  RegionWindows Find(const std::string& text, int axis) {
    model_ = ImportText(text);
    EXPECT_THAT(model_.status, IsOk());
    const BlockFlow flow(model_.graph, ir::kMainBlock);
    const int last = flow.size() - 1;
    for (const ir::SplitWay& way : flow.ways(last)) {
      if (way.result_axes[0] != axis) continue;
      const auto plan = GrowRegion(flow, last, way, 0, flow.size());
      EXPECT_TRUE(plan.has_value());
      EXPECT_EQ(plan->nodes.size(), static_cast<size_t>(flow.size()));
      auto windows = RegionWindows::Find(model_.graph, *plan);
      EXPECT_THAT(windows, IsOk());
      return *std::move(windows);
    }
    ADD_FAILURE() << "no way along axis " << axis;
    return *RegionWindows::Find(model_.graph, {});
  }

  static std::vector<int64_t> Begins(const RegionWindows& windows, int level) {
    std::vector<int64_t> begins;
    for (int64_t i = 0; i < windows.parts().constant(); ++i) {
      begins.push_back(windows.Begin(level, i));
    }
    return begins;
  }

  int64_t Rows(const RegionWindows& windows, const std::string& value,
               int level) const {
    return windows.full_size(model_.Find(value), 2, level);
  }

  Imported model_;
};

TEST_F(RegionWindowsTest, HalosAddUpAndRangesStopAtTheBorders) {
  RegionWindows windows = Find(R"(
    g (float[1, 4, 32, 8] x, float[4, 4, 3, 3] w) => (float[1, 4, 32, 8] y) {
      a = Conv <pads = [1, 1, 1, 1]> (x, w)
      y = Conv <pads = [1, 1, 1, 1]> (a, w)
    })",
                               2);
  EXPECT_EQ(windows.extent(), ir::Dim(32));
  ASSERT_THAT(windows.SetPart(8), IsOk());
  EXPECT_TRUE(windows.IsExact());
  // One row for each convolution on each side: 8 + 2 + 2.
  EXPECT_EQ(Rows(windows, "x", 0), 12);
  EXPECT_EQ(Rows(windows, "y", 0), 12);
  // 8 - 2, 16 - 2, and 24 - 2 would end at 34: 32 - 12.
  EXPECT_THAT(Begins(windows, 0), ElementsAre(0, 6, 14, 20));
  EXPECT_THAT(Begins(windows, windows.part_level()), ElementsAre(0, 8, 16, 24));
}

TEST_F(RegionWindowsTest, StridesMultiply) {
  RegionWindows windows = Find(R"(
    g (float[1, 4, 32, 8] x, float[4, 4, 7, 7] w) => (float[1, 4, 16, 4] y) {
      y = Conv <pads = [3, 3, 3, 3], strides = [2, 2]> (x, w)
    })",
                               2);
  EXPECT_EQ(windows.extent(), ir::Dim(16));
  EXPECT_EQ(windows.ratio(model_.Find("x"), 2).num, 2);
  ASSERT_THAT(windows.SetPart(4), IsOk());
  // Row o reads [2 o - 3, 2 o + 4): two rows of y before the part cover the 3
  // of x, and one after it the other 2.
  EXPECT_EQ(windows.levels().front().length, 7);
  EXPECT_EQ(Rows(windows, "x", 0), 14);
  EXPECT_THAT(Begins(windows, 0), ElementsAre(0, 2, 6, 9));
}

TEST_F(RegionWindowsTest, AnExtentThatTheStrideDoesNotDivide) {
  RegionWindows windows = Find(R"(
    g (float[1, 4, 31, 8] x, float[4, 4, 3, 3] w) => (float[1, 4, 16, 4] y) {
      y = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w)
    })",
                               2);
  // 2 * 16 - 31.
  EXPECT_EQ(windows.deficit(model_.Find("x"), 2), 1);
  ASSERT_THAT(windows.SetPart(4), IsOk());
  // The last range, from 2 * 10, ends with x.
  EXPECT_THAT(Begins(windows, 0), ElementsAre(0, 3, 7, 10));
  EXPECT_EQ(Rows(windows, "x", 0), 11);
}

TEST_F(RegionWindowsTest, TheLastPartOverlapsWhereNothingDivides) {
  RegionWindows windows =
      Find("g (float[1, 197, 8] x) => (float[1, 197, 8] y) { y = Relu(x) }", 1);
  ASSERT_THAT(windows.SetPart(50), IsOk());
  EXPECT_FALSE(windows.IsExact());
  EXPECT_EQ(windows.parts(), ir::Dim(4));
  EXPECT_THAT(Begins(windows, 0), ElementsAre(0, 50, 100, 147));
  EXPECT_EQ(windows.full_size(model_.Find("x"), 1, 0), 50);
  EXPECT_FALSE(windows.SetPart(0).ok());
  EXPECT_FALSE(windows.SetPart(197).ok());
}

TEST_F(RegionWindowsTest, RangesAreCutWhereTheImageIsEnlarged) {
  RegionWindows windows = Find(R"(
    g (float[1, 4, 16, 16] x, float[16, 4, 3, 3] v, float[2, 4, 5, 5] w) => (float[1, 2, 32, 32] y) {
      a = Conv <pads = [1, 1, 1, 1]> (x, v)
      b = DepthToSpace <blocksize = 2> (a)
      y = Conv <pads = [2, 2, 2, 2]> (b, w)
    })",
                               2);
  EXPECT_EQ(windows.grain(), 2);
  ASSERT_THAT(windows.SetPart(8), IsOk());
  // y needs 2 rows of b around its part, a has one more, x two: 4 rows of y.
  ASSERT_EQ(windows.levels().size(), 3u);
  EXPECT_EQ(windows.levels()[0].length, 16);
  EXPECT_EQ(windows.levels()[1].length, 12);
  EXPECT_EQ(windows.levels()[2].length, 8);
  EXPECT_EQ(Rows(windows, "x", 0), 8);
  EXPECT_EQ(Rows(windows, "b", 0), 16);
  EXPECT_EQ(Rows(windows, "b", 1), 12);
  EXPECT_THAT(Begins(windows, 0), ElementsAre(0, 4, 12, 16));
  EXPECT_THAT(Begins(windows, 1), ElementsAre(0, 6, 14, 20));
  // A part of which a row of x has no half.
  EXPECT_FALSE(windows.SetPart(7).ok());
}

TEST_F(RegionWindowsTest, BothBranchesOfASumHaveOneRange) {
  RegionWindows windows = Find(R"(
    g (float[1, 4, 32, 8] x, float[4, 4, 5, 5] w, float[4, 4, 1, 1] v) => (float[1, 4, 32, 8] y) {
      a = Conv <pads = [1, 2, 3, 2]> (x, w)
      b = Conv (x, v)
      y = Add (a, b)
    })",
                               2);
  ASSERT_THAT(windows.SetPart(8), IsOk());
  EXPECT_EQ(Rows(windows, "x", 0), 12);
  EXPECT_EQ(Rows(windows, "b", 0), 12);
  EXPECT_THAT(Begins(windows, 0), ElementsAre(0, 7, 15, 20));
}

TEST_F(RegionWindowsTest, AnExtentWithANameBoundsRangesInTheRun) {
  RegionWindows windows = Find(R"(
    g (float[1, 4, h, 8] x, float[4, 4, 3, 3] w) => (float[1, 4, h, 8] y) {
      y = Conv <pads = [1, 1, 1, 1]> (x, w)
    })",
                               2);
  ASSERT_THAT(windows.SetPart(8), IsOk());
  EXPECT_EQ(windows.parts().Evaluate({{"h", 17}}), 3);
  const ir::Dim size = windows.size(model_.Find("x"), 2, 0);
  EXPECT_EQ(size.Evaluate({{"h", 100}}), 10);
  EXPECT_EQ(size.Evaluate({{"h", 5}}), 5);
}

TEST_F(RegionWindowsTest, WithoutWhatComesOutThereIsNoRegion) {
  model_ = ImportText("g (float[4] x) => (float[4] y) { y = Relu(x) }");
  EXPECT_FALSE(RegionWindows::Find(model_.graph, {}).ok());
}

}  // namespace
}  // namespace onnx_memopt::rewrite
