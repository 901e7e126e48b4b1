#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "unit/ir/shape_rule_harness.h"

namespace onnx_memopt::ir {
namespace {

using namespace shape_rules;  // NOLINT: the subject of this test
using testing::ContentsPtr;
using testing::Dims;
using testing::Ints;
using testing::Reals;
using testing::RealScalar;
using testing::Rule;
using testing::Scalar;

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();

TEST(ShapeOfTest, TypesAndContents) {
  EXPECT_EQ(Rule(ShapeOf, "Shape").In("float[b, ?, 3]").Values(), "{b, ?, 3}");
  EXPECT_EQ(Rule(ShapeOf, "Shape").In("float[b, 2, 3]").Types(), "int64[3]");
  EXPECT_EQ(Rule(ShapeOf, "Shape").In("float[...]").Types(), "int64[?]");
  EXPECT_EQ(
      Rule(ShapeOf, "Shape").In("float[b, 2, 3]").Attr("start", -2).Values(),
      "{2, 3}");
  EXPECT_EQ(Rule(ShapeOf, "Shape")
                .In("float[b, 2, 3]")
                .Attr("start", 1)
                .Attr("end", -1)
                .Values(),
            "{2}");
  EXPECT_EQ(Rule(ShapeOf, "Shape")
                .In("float[b, 2]")
                .Attr("start", 5)
                .Attr("end", -9)
                .Types(),
            "int64[0]");
  EXPECT_EQ(Rule(Size, "Size").In("float[b, 2, s]").Values(), "{2*b*s}");
  EXPECT_EQ(Rule(Size, "Size").In("float[?]").Types(), "int64[]");
}

std::string ReshapeTypes(absl::string_view data, const ContentsPtr& target) {
  return Rule(Reshape, "Reshape").In(data).In(target).Types();
}

TEST(ReshapeTest, Targets) {
  EXPECT_EQ(ReshapeTypes("float[2, 6]", Ints({3, -1})), "float[3, 4]");
  EXPECT_EQ(ReshapeTypes("float[b, s, 768]", Ints({0, 0, 12, 64})),
            "float[b, s, 12, 64]");
  EXPECT_EQ(ReshapeTypes("float[b, s, 768]", Ints({0, -1, 12, 64})),
            "float[b, s, 12, 64]");
  EXPECT_EQ(ReshapeTypes("float[b, s, 768]", Ints({0, 0, -1, 64})),
            "float[b, s, 12, 64]");
  EXPECT_EQ(ReshapeTypes("float[b, s, 768]", Dims({"b", "s", "12", "-1"})),
            "float[b, s, 12, 64]");
  EXPECT_EQ(ReshapeTypes("float[b, s, 768]", Ints({-1, 768})),
            "float[b*s, 768]");
  EXPECT_EQ(ReshapeTypes("float[b, s]", Ints({-1, 4})),
            "float[floor(b*s/4), 4]");
  // A single unknown element is as good as -1.
  EXPECT_EQ(ReshapeTypes("float[b, 6]", Dims({"b", "2", "?"})),
            "float[b, 2, 3]");
  EXPECT_EQ(ReshapeTypes("float[b, 6]", Dims({"b", "?", "?"})),
            "float[b, ?, ?]");
  // An unknown dim that is copied cancels.
  EXPECT_EQ(ReshapeTypes("float[?, 6]", Ints({0, 2, -1})), "float[?, 2, 3]");
  EXPECT_EQ(ReshapeTypes("float[?, 6]", Ints({-1, 6})), "float[?, 6]");
  EXPECT_EQ(ReshapeTypes("float[6]", Ints({4, -1})), "float[4, ?]");
  EXPECT_EQ(ReshapeTypes("float[6]", Ints({-1, -1})), "float[...]");
  EXPECT_EQ(ReshapeTypes("float[6]", Ints({0, 0})), "float[...]");
  EXPECT_EQ(ReshapeTypes("float[6]", Ints({-2})), "float[...]");
  EXPECT_EQ(ReshapeTypes("float[0, 3]", Ints({-1, 0})), "float[0, 3]");
  EXPECT_EQ(ReshapeTypes("float[0, 3]", Ints({0, -1})), "float[0, ?]");
  EXPECT_EQ(ReshapeTypes("float[1]", Ints({})), "float[]");
  EXPECT_EQ(Rule(Reshape, "Reshape").In("float[b, 2]").In("int64[1]").Types(),
            "float[2*b]");
  EXPECT_EQ(Rule(Reshape, "Reshape").In("float[b, 2]").In("int64[2]").Types(),
            "float[?, ?]");
  EXPECT_EQ(Rule(Reshape, "Reshape").In("float[b, 2]").In("int64[?]").Types(),
            "float[...]");
  EXPECT_EQ(Rule(Reshape, "Reshape")
                .In("float[0, 4]")
                .In(Ints({4, 0}))
                .Attr("allowzero", 1)
                .Types(),
            "float[4, 0]");
  EXPECT_EQ(Rule(Reshape, "Reshape", 1)
                .In("float[b, 2, 3]")
                .List("shape", {0, -1})
                .Types(),
            "float[b, 6]");
}

// x.view(x.shape[0], x.shape[1], 12, -1) as an exporter writes it.
TEST(ChainTest, ShapeGatherUnsqueezeConcatReshape) {
  const Type x = testing::ParseType("float[batch, seq, 768]");
  Rule shape = Rule(ShapeOf, "Shape").In(x, nullptr).Run();
  std::vector<Rule> parts;
  for (const char* index : {"0", "1"}) {
    Rule gather = Rule(Gather, "Gather")
                      .In(shape.type(0), shape.contents(0))
                      .In("int64[]", Scalar(index))
                      .Run();
    EXPECT_TRUE(gather.complete());
    parts.push_back(Rule(Unsqueeze, "Unsqueeze", 11)
                        .In(gather.type(0), gather.contents(0))
                        .List("axes", {0})
                        .Run());
  }
  Rule concat = Rule(Concat, "Concat")
                    .In(parts[0].type(0), parts[0].contents(0))
                    .In(parts[1].type(0), parts[1].contents(0))
                    .In(Ints({12}))
                    .In(Ints({-1}))
                    .Attr("axis", 0)
                    .Run();
  EXPECT_EQ(testing::ToText(concat.contents(0).get()), "{batch, seq, 12, -1}");
  Rule reshape = Rule(Reshape, "Reshape")
                     .In(x, nullptr)
                     .In(concat.type(0), concat.contents(0));
  EXPECT_EQ(reshape.Types(), "float[batch, seq, 12, 64]");
  EXPECT_TRUE(reshape.complete());
}

TEST(ViewTest, FlattenSqueezeUnsqueezeTranspose) {
  EXPECT_EQ(Rule(Flatten, "Flatten").In("float[b, 2, s]").Types(),
            "float[b, 2*s]");
  EXPECT_EQ(Rule(Flatten, "Flatten").In("float[b, 2]").Attr("axis", 0).Types(),
            "float[1, 2*b]");
  EXPECT_EQ(
      Rule(Flatten, "Flatten").In("float[b, 2, s]").Attr("axis", -1).Types(),
      "float[2*b, s]");
  EXPECT_EQ(Rule(Squeeze, "Squeeze", 11)
                .In("float[1, b, 1]")
                .List("axes", {0, -1})
                .Types(),
            "float[b]");
  EXPECT_EQ(Rule(Squeeze, "Squeeze").In("float[1, b]").In(Ints({0})).Types(),
            "float[b]");
  EXPECT_EQ(Rule(Squeeze, "Squeeze").In("float[1, 3, 1]").Types(), "float[3]");
  EXPECT_EQ(Rule(Squeeze, "Squeeze").In("float[1, b]").Types(), "float[...]");
  EXPECT_EQ(Rule(Squeeze, "Squeeze").In("float[1, b+1]").Types(),
            "float[b + 1]");
  EXPECT_EQ(Rule(Squeeze, "Squeeze").In("float[2]").In(Ints({0})).Types(),
            "float[...]");
  EXPECT_EQ(Rule(Squeeze, "Squeeze").In("float[1, b]").In("int64[1]").Types(),
            "float[?]");
  EXPECT_EQ(Rule(Squeeze, "Squeeze").In("float[1]").In(Ints({0, 0})).Types(),
            "float[...]");
  EXPECT_EQ(
      Rule(Unsqueeze, "Unsqueeze").In("float[b, 2]").In(Ints({0, -1})).Types(),
      "float[1, b, 2, 1]");
  EXPECT_EQ(Rule(Unsqueeze, "Unsqueeze").In("float[b]").In("int64[2]").Types(),
            "float[?, ?, ?]");
  EXPECT_EQ(Rule(Transpose, "Transpose").In("float[b, 2, s]").Types(),
            "float[s, 2, b]");
  EXPECT_EQ(Rule(Transpose, "Transpose")
                .In("float[b, 2, s]")
                .List("perm", {0, 2, 1})
                .Types(),
            "float[b, s, 2]");
  EXPECT_EQ(Rule(Transpose, "Transpose")
                .In("float[b, 2]")
                .List("perm", {0, 0})
                .Types(),
            "float[...]");
  const ContentsPtr matrix = std::make_shared<const Contents>(
      Contents{{2, 3}, Ints({0, 1, 2, 3, 4, 5})->elements});
  EXPECT_EQ(Rule(Transpose, "Transpose").In("int64[2, 3]", matrix).Values(),
            "{0, 3, 1, 4, 2, 5}");
  EXPECT_EQ(Rule(DepthToSpace, "DepthToSpace")
                .In("float[b, 8, h, 3]")
                .Attr("blocksize", 2)
                .Types(),
            "float[b, 2, 2*h, 6]");
  EXPECT_EQ(Rule(SpaceToDepth, "SpaceToDepth")
                .In("float[b, 2, h, 6]")
                .Attr("blocksize", 2)
                .Types(),
            "float[b, 8, floor(h/2), 3]");
}

TEST(GatherTest, TypesAndContents) {
  EXPECT_EQ(
      Rule(Gather, "Gather").In("float[30522, 768]").In("int64[b, s]").Types(),
      "float[b, s, 768]");
  EXPECT_EQ(Rule(Gather, "Gather")
                .In("float[b, s, 3]")
                .In("int64[]")
                .Attr("axis", -1)
                .Types(),
            "float[b, s]");
  EXPECT_EQ(Rule(Gather, "Gather")
                .In(Dims({"b", "s", "3"}))
                .In(Dims({"-1", "0", "?"}))
                .Values(),
            "{3, b, ?}");
  EXPECT_EQ(Rule(Gather, "Gather").In(Ints({1})).In(Ints({7})).Values(),
            "none");
  const ContentsPtr matrix = std::make_shared<const Contents>(
      Contents{{2, 3}, Ints({0, 1, 2, 3, 4, 5})->elements});
  EXPECT_EQ(Rule(Gather, "Gather")
                .In("int64[2, 3]", matrix)
                .In(Ints({2, 0}))
                .Attr("axis", 1)
                .Values(),
            "{2, 0, 5, 3}");
  EXPECT_EQ(Rule(GatherElements, "GatherElements")
                .In("float[b, 3]")
                .In("int64[b, 2]")
                .Types(),
            "float[b, 2]");
  EXPECT_EQ(Rule(GatherNd, "GatherND")
                .In("float[b, 3, 4]")
                .In("int64[b, s, 1]")
                .Attr("batch_dims", 1)
                .Types(),
            "float[b, s, 4]");
  EXPECT_EQ(
      Rule(GatherNd, "GatherND").In("float[3, 4]").In("int64[s, 3]").Types(),
      "float[...]");
}

TEST(ConcatTest, TypesAndContents) {
  EXPECT_EQ(Rule(Concat, "Concat")
                .In("float[b, 2, 4]")
                .In("float[?, s, 4]")
                .Attr("axis", 1)
                .Types(),
            "float[b, s + 2, 4]");
  EXPECT_EQ(Rule(Concat, "Concat")
                .In("float[2, 4]")
                .In("float[2, 5]")
                .Attr("axis", 0)
                .Types(),
            "float[...]");
  EXPECT_EQ(Rule(Concat, "Concat")
                .In(Dims({"b"}))
                .In("int64[2]")
                .In(Ints({-1}))
                .Attr("axis", 0)
                .Values(),
            "{b, ?, ?, -1}");
  const ContentsPtr column = std::make_shared<const Contents>(
      Contents{{2, 1}, Ints({1, 2})->elements});
  EXPECT_EQ(Rule(Concat, "Concat")
                .In("int64[2, 1]", column)
                .In("int64[2, 1]", column)
                .Attr("axis", 1)
                .Values(),
            "{1, 1, 2, 2}");
}

std::string SliceTypes(absl::string_view data, std::vector<int64_t> starts,
                       std::vector<int64_t> ends, std::vector<int64_t> axes,
                       std::vector<int64_t> steps) {
  return Rule(Slice, "Slice")
      .In(data)
      .In(Ints(starts))
      .In(Ints(ends))
      .In(Ints(axes))
      .In(Ints(steps))
      .Types();
}

TEST(SliceTest, Numbers) {
  EXPECT_EQ(SliceTypes("float[10]", {2}, {8}, {0}, {1}), "float[6]");
  EXPECT_EQ(SliceTypes("float[10]", {-3}, {kMaxInt}, {0}, {1}), "float[3]");
  EXPECT_EQ(SliceTypes("float[10]", {0}, {10}, {0}, {3}), "float[4]");
  EXPECT_EQ(SliceTypes("float[10]", {8}, {2}, {0}, {1}), "float[0]");
  EXPECT_EQ(SliceTypes("float[10]", {-1}, {kMinInt}, {0}, {-1}), "float[10]");
  EXPECT_EQ(SliceTypes("float[10]", {100}, {-100}, {0}, {-4}), "float[3]");
  EXPECT_EQ(SliceTypes("float[10]", {9}, {0}, {0}, {kMinInt}), "float[1]");
  EXPECT_EQ(SliceTypes("float[0]", {0}, {1}, {0}, {-1}), "float[0]");
  EXPECT_EQ(SliceTypes("float[4]", {0}, {1}, {0}, {0}), "float[?]");
  EXPECT_EQ(SliceTypes("float[4, 5]", {1, 0}, {3, 2}, {-1, 0}, {1, 1}),
            "float[2, 2]");
  EXPECT_EQ(SliceTypes("float[4, 5]", {1, 0}, {3, 2}, {0, 0}, {1, 1}),
            "float[...]");
}

TEST(SliceTest, Symbols) {
  EXPECT_EQ(SliceTypes("float[s]", {0}, {-1}, {0}, {1}), "float[s - 1]");
  EXPECT_EQ(SliceTypes("float[s]", {1}, {kMaxInt}, {0}, {1}), "float[s - 1]");
  EXPECT_EQ(SliceTypes("float[s]", {-1}, {kMaxInt}, {0}, {1}), "float[1]");
  EXPECT_EQ(SliceTypes("float[s]", {0}, {1}, {0}, {1}), "float[1]");
  EXPECT_EQ(SliceTypes("float[s]", {0}, {5}, {0}, {1}), "float[min(s, 5)]");
  EXPECT_EQ(SliceTypes("float[s]", {0}, {2147483647}, {0}, {2}),
            "float[floor((s + 1)/2)]");
  EXPECT_EQ(SliceTypes("float[s]", {-1}, {kMinInt}, {0}, {-1}), "float[s]");
  EXPECT_EQ(SliceTypes("float[s]", {3}, {kMaxInt}, {0}, {1}),
            "float[s - min(s, 3)]");
  EXPECT_EQ(SliceTypes("float[?, 4]", {0}, {2}, {0}, {1}), "float[?, 4]");
  // mask[:, past : past + s]
  EXPECT_EQ(Rule(Slice, "Slice")
                .In("float[past+s]")
                .In(Dims({"past"}))
                .In(Dims({"past+s"}))
                .Types(),
            "float[s]");
  EXPECT_EQ(Rule(Slice, "Slice")
                .In("float[1, 1024]")
                .In(Ints({0}))
                .In(Dims({"s"}))
                .In(Ints({1}))
                .Types(),
            "float[1, min(s, 1024)]");
  EXPECT_EQ(Rule(Slice, "Slice")
                .In("float[b, 4]")
                .In("int64[1]")
                .In("int64[1]")
                .In(Ints({0}))
                .Types(),
            "float[?, 4]");
  EXPECT_EQ(Rule(Slice, "Slice", 9)
                .In("float[b, 4]")
                .List("starts", {1})
                .List("ends", {3})
                .List("axes", {1})
                .Types(),
            "float[b, 2]");
}

TEST(SliceTest, Contents) {
  EXPECT_EQ(Rule(Slice, "Slice")
                .In(Dims({"b", "s", "3", "4"}))
                .In(Ints({-1}))
                .In(Ints({kMinInt}))
                .In(Ints({0}))
                .In(Ints({-2}))
                .Values(),
            "{4, s}");
  EXPECT_EQ(Rule(Slice, "Slice")
                .In(Dims({"b", "s", "3"}))
                .In(Ints({2}))
                .In(Ints({3}))
                .In(Ints({0}))
                .In(Ints({kMaxInt}))
                .Values(),
            "{3}");
  const ContentsPtr matrix = std::make_shared<const Contents>(
      Contents{{2, 3}, Ints({0, 1, 2, 3, 4, 5})->elements});
  EXPECT_EQ(Rule(Slice, "Slice", 1)
                .In("int64[2, 3]", matrix)
                .List("starts", {1})
                .List("ends", {3})
                .List("axes", {1})
                .Values(),
            "{1, 2, 4, 5}");
}

TEST(SplitTest, Parts) {
  EXPECT_EQ(Rule(Split, "Split", 13)
                .In("float[b, 6]")
                .Attr("axis", 1)
                .Results(2)
                .Types(),
            "float[b, 3], float[b, 3]");
  EXPECT_EQ(Rule(Split, "Split", 11)
                .In("float[b, 6]")
                .Attr("axis", 1)
                .List("split", {2, 4})
                .Results(2)
                .Types(),
            "float[b, 2], float[b, 4]");
  EXPECT_EQ(Rule(Split, "Split")
                .In("float[7]")
                .Attr("num_outputs", 3)
                .Results(3)
                .Types(),
            "float[3], float[3], float[1]");
  EXPECT_EQ(Rule(Split, "Split")
                .In("float[s]")
                .Attr("num_outputs", 2)
                .Results(2)
                .Types(),
            "float[floor((s + 1)/2)], float[s - floor((s + 1)/2)]");
  EXPECT_EQ(Rule(Split, "Split", 13).In("float[7]").Results(2).Types(),
            "float[?], float[?]");
  EXPECT_EQ(Rule(Split, "Split")
                .In("float[s+1]")
                .In(Dims({"s", "1"}))
                .Results(2)
                .Types(),
            "float[s], float[1]");
  Rule parts = Rule(Split, "Split")
                   .In(Dims({"b", "s", "3"}))
                   .In(Ints({1, 2}))
                   .Results(2)
                   .Run();
  EXPECT_EQ(testing::ToText(parts.contents(0).get()), "{b}");
  EXPECT_EQ(testing::ToText(parts.contents(1).get()), "{s, 3}");
}

TEST(FillTest, ExpandTilePadConstantRange) {
  EXPECT_EQ(Rule(Expand, "Expand")
                .In("float[b, 1]")
                .In(Dims({"2", "1", "s"}))
                .Types(),
            "float[2, b, s]");
  EXPECT_EQ(Rule(Expand, "Expand").In(Dims({"b"})).In(Ints({3})).Values(),
            "{b, b, b}");
  EXPECT_EQ(Rule(Tile, "Tile").In("float[b, 2]").In(Dims({"3", "s"})).Types(),
            "float[3*b, 2*s]");
  EXPECT_EQ(Rule(Tile, "Tile").In(Dims({"b", "2"})).In(Ints({2})).Values(),
            "{b, 2, b, 2}");
  EXPECT_EQ(Rule(Tile, "Tile").In("float[b]").In(Ints({kMaxInt})).Types(),
            "float[9223372036854775807*b]");
  EXPECT_EQ(Rule(Tile, "Tile").In("float[2]").In(Ints({kMaxInt})).Types(),
            "float[?]");
  EXPECT_EQ(Rule(Pad, "Pad").In("float[b, 5]").In(Ints({0, 1, 0, 2})).Types(),
            "float[b, 8]");
  EXPECT_EQ(Rule(Pad, "Pad")
                .In("float[b, 5]")
                .In(Dims({"s", "-1"}))
                .Out()
                .In(Ints({-1}))
                .Types(),
            "float[b, s + 4]");
  EXPECT_EQ(Rule(Pad, "Pad", 2).In("float[5]").List("pads", {-2, -2}).Types(),
            "float[1]");
  EXPECT_EQ(Rule(Pad, "Pad", 2).In("float[5]").List("pads", {-4, -4}).Types(),
            "float[?]");
  EXPECT_EQ(
      Rule(ConstantOfShape, "ConstantOfShape").In(Dims({"b", "2"})).Types(),
      "float[b, 2]");
  EXPECT_EQ(Rule(ConstantOfShape, "ConstantOfShape").In(Ints({2})).Values(),
            "{0, 0}");
  EXPECT_EQ(Rule(ConstantOfShape, "ConstantOfShape")
                .In(Dims({"b", "2"}))
                .Attr("value", AttributeValue(WeightId{0}))
                .Types(),
            "?[b, 2]");
  EXPECT_EQ(Rule(ConstantOfShape, "ConstantOfShape")
                .In(Ints({2}))
                .In("int64[1]", Ints({-1}))
                .Attr("value", AttributeValue(WeightId{0}))
                .Values(),
            "{-1, -1}");
  const auto range = [](absl::string_view start, absl::string_view limit,
                        absl::string_view delta) {
    return Rule(shape_rules::Range, "Range")
        .In("int64[]", Scalar(start))
        .In("int64[]", Scalar(limit))
        .In("int64[]", Scalar(delta));
  };
  EXPECT_EQ(range("0", "s", "1").Types(), "int64[s]");
  EXPECT_EQ(range("0", "s", "2").Types(), "int64[floor((s + 1)/2)]");
  EXPECT_EQ(range("past", "past+s", "1").Types(), "int64[s]");
  EXPECT_EQ(range("5", "s", "1").Types(), "int64[max(s - 5, 0)]");
  EXPECT_EQ(range("5", "0", "-2").Values(), "{5, 3, 1}");
  EXPECT_EQ(range("5", "0", "1").Types(), "int64[0]");
  EXPECT_EQ(range("0", "5", "0").Types(), "int64[?]");
  EXPECT_EQ(Rule(shape_rules::Range, "Range")
                .In("float[]", RealScalar(0))
                .In("float[]", RealScalar(1))
                .In("float[]", RealScalar(0.3))
                .Types(),
            "float[4]");
  EXPECT_EQ(Rule(OneHot, "OneHot")
                .In("int64[b, s]")
                .In("int64[]", Scalar("10"))
                .In("float[2]")
                .Types(),
            "float[b, s, 10]");
}

TEST(ResizeTest, EveryOpset) {
  EXPECT_EQ(Rule(Resize, "Resize", 10)
                .In("float[1, 3, h, 5]")
                .In("float[4]", Reals({1, 1, 2, 0.5}))
                .Types(),
            "float[1, 3, 2*h, 2]");
  EXPECT_EQ(Rule(Resize, "Resize", 11)
                .In("float[1, 3, h, 5]")
                .Out()
                .In("float[4]", Reals({1, 1, 0.5, 1.5}))
                .Types(),
            "float[1, 3, floor(h/2), 7]");
  EXPECT_EQ(Rule(Resize, "Resize", 13)
                .In("float[1, 3, h, w]")
                .In("float[0]")
                .In("float[0]")
                .In(Dims({"1", "3", "a", "7"}))
                .Types(),
            "float[1, 3, a, 7]");
  // An empty list of sizes is none.
  EXPECT_EQ(Rule(Resize, "Resize", 13)
                .In("float[2]")
                .Out()
                .In("float[1]", Reals({3}))
                .In("int64[0]", Ints({}))
                .Types(),
            "float[6]");
  EXPECT_EQ(Rule(Resize, "Resize", 18)
                .In("float[1, 3, h, w]")
                .Out()
                .Out()
                .In(Ints({8, 9}))
                .List("axes", {2, 3})
                .Types(),
            "float[1, 3, 8, 9]");
  const auto keep = [](const char* policy) {
    return Rule(Resize, "Resize", 18)
        .In("float[10, 20]")
        .Out()
        .Out()
        .In(Ints({5, 8}))
        .Attr("keep_aspect_ratio_policy", policy)
        .Types();
  };
  EXPECT_EQ(keep("not_larger"), "float[4, 8]");
  EXPECT_EQ(keep("not_smaller"), "float[5, 10]");
  EXPECT_EQ(keep("stretch"), "float[5, 8]");
  EXPECT_EQ(Rule(Resize, "Upsample", 7)
                .In("float[1, 3, h, w]")
                .Attr("scales", AttributeValue(std::vector<float>{1, 1, 2, 2}))
                .Types(),
            "float[1, 3, 2*h, 2*w]");
  EXPECT_EQ(Rule(Resize, "Upsample", 9)
                .In("float[1, h]")
                .In("float[2]", Reals({1, 3}))
                .Types(),
            "float[1, 3*h]");
  // In double this is 6, in float 7.
  EXPECT_EQ(Rule(Resize, "Resize", 13)
                .In("float[10]")
                .Out()
                .In("float[1]", Reals({static_cast<double>(0.7F)}))
                .Types(),
            "float[?]");
  EXPECT_EQ(
      Rule(Resize, "Resize", 13).In("float[b, h]").Out().In("float[2]").Types(),
      "float[?, ?]");
}

}  // namespace
}  // namespace onnx_memopt::ir
