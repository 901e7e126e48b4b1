#include "onnx_memopt/analysis/equal_weights.h"

#include <unistd.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/status_matchers.h"
#include "support/temp_dir.h"

namespace onnx_memopt::analysis {
namespace {

using ir::ElementType;
using ir::Weight;
using ir::WeightId;
using ir::WeightStorage;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::TempDir;
using ::onnx_memopt::testing::WriteFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::string Noise(size_t size, uint32_t state) {
  std::string bytes(size, '\0');
  for (char& c : bytes) {
    state = state * 1664525u + 1013904223u;
    c = static_cast<char>(state >> 24);
  }
  return bytes;
}

class EqualWeightsTest : public ::testing::Test {
 protected:
  WeightId Add(std::initializer_list<int64_t> dims, std::string bytes,
               ElementType element = ElementType::kFloat) {
    Weight weight;
    weight.element = element;
    weight.dims.assign(dims.begin(), dims.end());
    weight.size_bytes = static_cast<int64_t>(bytes.size());
    weight.bytes = kept_.emplace_back(std::move(bytes));
    return AddWeight(std::move(weight));
  }

  WeightId AddExternal(std::initializer_list<int64_t> dims,
                       const std::string& path, int64_t offset_bytes) {
    Weight weight;
    weight.element = ElementType::kFloat;
    weight.dims.assign(dims.begin(), dims.end());
    weight.size_bytes = 4;
    for (int64_t dim : dims) weight.size_bytes *= dim;
    weight.storage = WeightStorage::kExternal;
    weight.external = {path, offset_bytes, weight.size_bytes};
    return AddWeight(std::move(weight));
  }

  WeightId AddWeight(Weight weight) {
    ids_.push_back(graph_.AddWeight(std::move(weight)));
    return ids_.back();
  }

  EqualWeights Find(EqualWeightsOptions options = {}) {
    auto equal = FindEqualWeights(graph_, ids_, options);
    EXPECT_THAT(equal, IsOk());
    return *std::move(equal);
  }

  ir::Graph graph_;
  std::vector<WeightId> ids_;
  std::deque<std::string> kept_;
};

TEST_F(EqualWeightsTest, GroupsEqualBytesOfOneTypeAndShape) {
  const std::string bytes = Noise(64, 1);
  const WeightId a = Add({4, 4}, bytes);
  const WeightId b = Add({4, 4}, bytes);
  Add({2, 8}, bytes);
  Add({4, 4}, bytes, ElementType::kInt32);
  Add({4, 4}, Noise(64, 2));
  const WeightId c = Add({4, 4}, bytes);
  const EqualWeights equal = Find();
  EXPECT_THAT(equal.groups, ElementsAre(ElementsAre(a, b, c)));
  EXPECT_THAT(equal.unread, IsEmpty());
}

// Only the first, the middle and the last 4 KiB are sampled.
TEST_F(EqualWeightsTest, OneByteBetweenTheSamplesTellsThemApart) {
  std::string bytes = Noise(1 << 20, 1);
  const WeightId a = Add({1 << 18}, bytes);
  const WeightId b = Add({1 << 18}, bytes);
  bytes[100'000] = static_cast<char>(bytes[100'000] ^ 1);
  Add({1 << 18}, bytes);
  EXPECT_THAT(Find().groups, ElementsAre(ElementsAre(a, b)));
}

TEST_F(EqualWeightsTest, LargerThanOneChunk) {
  std::string bytes = Noise((3 << 20) + 4, 1);
  const WeightId a = Add({786'433}, bytes);
  const WeightId b = Add({786'433}, bytes);
  bytes[2 << 20] = static_cast<char>(bytes[2 << 20] ^ 1);
  Add({786'433}, bytes);
  EXPECT_THAT(Find().groups, ElementsAre(ElementsAre(a, b)));
}

TEST_F(EqualWeightsTest, SmallAndEmptyOnesAreLeftOut) {
  Add({0}, "");
  Add({0}, "");
  Add({1}, Noise(4, 1));
  Add({1}, Noise(4, 1));
  const WeightId a = Add({2}, Noise(8, 1));
  const WeightId b = Add({2}, Noise(8, 1));
  EXPECT_THAT(Find({.min_size_bytes = 5}).groups,
              ElementsAre(ElementsAre(a, b)));
}

TEST_F(EqualWeightsTest, TypedFieldsAreNotComparedWithRawBytes) {
  const WeightId raw = Add({2}, Noise(8, 1));
  const WeightId typed = Add({2}, Noise(8, 1));
  Weight weight = graph_.weight(typed);
  weight.storage = WeightStorage::kTyped;
  const WeightId t1 = AddWeight(weight);
  const WeightId t2 = AddWeight(weight);
  EXPECT_THAT(Find().groups,
              ElementsAre(ElementsAre(raw, typed), ElementsAre(t1, t2)));
}

TEST_F(EqualWeightsTest, SparseOnesAreNeverEqual) {
  Weight weight;
  weight.element = ElementType::kFloat;
  weight.dims = {4};
  weight.size_bytes = 16;
  weight.storage = WeightStorage::kSparse;
  AddWeight(weight);
  AddWeight(weight);
  EXPECT_THAT(Find().groups, IsEmpty());
}

std::string Transposed(const std::string& bytes, size_t rows, size_t columns) {
  std::string out(bytes.size(), '\0');
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) {
      for (size_t k = 0; k < 4; ++k) {
        out[(j * rows + i) * 4 + k] = bytes[(i * columns + j) * 4 + k];
      }
    }
  }
  return out;
}

TEST_F(EqualWeightsTest, FindsTransposedSquareAndOther) {
  const std::string square = Noise(300 * 300 * 4, 1);
  const std::string wide = Noise(7 * 520 * 4, 2);
  const WeightId a = Add({300, 300}, square);
  const WeightId b = Add({7, 520}, wide);
  const WeightId at = Add({300, 300}, Transposed(square, 300, 300));
  const WeightId bt = Add({520, 7}, Transposed(wide, 7, 520));
  Add({520, 7}, wide);
  EXPECT_THAT(Find().transposed,
              UnorderedElementsAre(Pair(a, at), Pair(b, bt)));
}

TEST_F(EqualWeightsTest, NearlyTransposedIsNot) {
  const std::string bytes = Noise(300 * 300 * 4, 1);
  std::string other = Transposed(bytes, 300, 300);
  other[(299 * 300 + 7) * 4] ^= 1;
  Add({300, 300}, bytes);
  Add({300, 300}, other);
  EXPECT_THAT(Find().transposed, IsEmpty());
}

// A third matrix with the same diagonal stands between the two.
TEST_F(EqualWeightsTest, FindsTransposedAmongOthersOfTheSameDiagonal) {
  std::string bytes(4 * 4 * 4, '\0');
  bytes[1 * 4] = 1;  // row 0, column 1
  std::string decoy(4 * 4 * 4, '\0');
  decoy[2 * 4] = 1;
  const WeightId a = Add({4, 4}, bytes);
  Add({4, 4}, decoy);
  const WeightId c = Add({4, 4}, Transposed(bytes, 4, 4));
  EXPECT_THAT(Find().transposed, ElementsAre(Pair(a, c)));
}

TEST_F(EqualWeightsTest, ExternalRangesAreComparedByPlaceUnlessRead) {
  TempDir dir;
  const std::string bytes = Noise(64, 1);
  WriteFile(dir.Path("data"), bytes + bytes);
  const WeightId a = AddExternal({16}, dir.Path("data"), 0);
  const WeightId again = AddExternal({16}, dir.Path("data"), 0);
  const WeightId copy = AddExternal({16}, dir.Path("data"), 64);
  const WeightId inside = Add({16}, bytes);
  EXPECT_THAT(Find().groups, ElementsAre(ElementsAre(a, again)));
  EXPECT_THAT(Find({.read_external = true}).groups,
              ElementsAre(ElementsAre(a, again, copy, inside)));
}

TEST_F(EqualWeightsTest, FilesThatCannotBeReadAreNamedOnce) {
  TempDir dir;
  WriteFile(dir.Path("short"), "abc");
  AddExternal({16}, dir.Path("missing"), 0);
  AddExternal({16}, dir.Path("missing"), 64);
  AddExternal({16}, dir.Path("short"), 0);
  const EqualWeights equal = Find({.read_external = true});
  EXPECT_THAT(equal.groups, IsEmpty());
  EXPECT_THAT(equal.unread, ElementsAre(HasSubstr("missing: No such file"),
                                        HasSubstr("short: ends at byte 3")));
}

TEST_F(EqualWeightsTest, HolesReadAsZeros) {
  TempDir dir;
  constexpr int64_t kBytes = 8 << 20;
  WriteFile(dir.Path("sparse"), "");
  ASSERT_EQ(truncate(dir.Path("sparse").c_str(), kBytes), 0);
  const WeightId hole = AddExternal({kBytes / 4}, dir.Path("sparse"), 0);
  const WeightId zeros = Add({kBytes / 4}, std::string(kBytes, '\0'));
  std::string other(kBytes, '\0');
  other[kBytes / 3] = 1;
  Add({kBytes / 4}, other);
  EXPECT_THAT(Find({.read_external = true}).groups,
              ElementsAre(ElementsAre(hole, zeros)));
}

}  // namespace
}  // namespace onnx_memopt::analysis
