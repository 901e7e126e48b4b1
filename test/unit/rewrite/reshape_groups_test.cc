#include "rewrite/reshape_groups.h"

#include <cstddef>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Dim;
using ir::Shape;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::vector<size_t>> Groups(const Shape& from, const Shape& to) {
  std::vector<std::vector<size_t>> sides;
  for (const ReshapeGroup& group : GroupReshape(from, to)) {
    sides.push_back(group.from);
    sides.push_back(group.to);
  }
  return sides;
}

Dim Batch() { return Dim::Symbol("batch"); }
Dim Length() { return Dim::Symbol("length"); }

TEST(ReshapeGroupsTest, HeadsAreFactorsOfAWidth) {
  EXPECT_THAT(Groups({Batch(), Length(), Dim(768)},
                     {Batch(), Length(), Dim(12), Dim(64)}),
              ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(1),
                          ElementsAre(1), ElementsAre(2), ElementsAre(2, 3)));
  EXPECT_THAT(Groups({Dim(12), Dim(64)}, {Dim(768)}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0)));
}

TEST(ReshapeGroupsTest, OnesAreInNoGroup) {
  EXPECT_THAT(Groups({Dim(1), Dim(4), Dim(1)}, {Dim(4)}),
              ElementsAre(ElementsAre(1), ElementsAre(0)));
  EXPECT_THAT(Groups({Dim(1)}, {Dim(1), Dim(1)}), IsEmpty());
}

TEST(ReshapeGroupsTest, WhatIsOpenIsLeftOut) {
  // batch * length on one side: matched from the right alone.
  EXPECT_THAT(Groups({Batch(), Length(), Dim(8)}, {std::nullopt, Dim(8)}),
              ElementsAre(ElementsAre(2), ElementsAre(1)));
  EXPECT_THAT(Groups({Batch()}, {Length()}), IsEmpty());
}

TEST(ReshapeGroupsTest, SeveralAxesOnBothSides) {
  EXPECT_THAT(Groups({Dim(6), Dim(4), Dim(5)}, {Dim(8), Dim(3), Dim(5)}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1), ElementsAre(2),
                          ElementsAre(2)));
}

}  // namespace
}  // namespace onnx_memopt::rewrite
