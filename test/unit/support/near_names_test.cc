#include "onnx_memopt/support/near_names.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace onnx_memopt {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NearNamesTest, PartsComeFirstThenWhatDiffersLeast) {
  const std::vector<std::string> names = {"decoder", "encodex", "encoder.0",
                                          "x"};
  EXPECT_THAT(NearNames("encoder", names, 3), ElementsAre(2, 1, 0));
  EXPECT_THAT(NearNames("encoder.0.out", names, 1), ElementsAre(2));
}

TEST(NearNamesTest, EqualOnesKeepTheirOrder) {
  using Names = std::vector<std::string>;
  EXPECT_THAT(NearNames("q", Names{"a", "b", "c"}, 9), ElementsAre(0, 1, 2));
  EXPECT_THAT(NearNames("", Names{"ab", "a"}, 1), ElementsAre(1));
  EXPECT_THAT(NearNames("q", Names{}, 9), IsEmpty());
}

TEST(NearNamesTest, TheBeginningOfLongNamesIsCompared) {
  const std::string long_name(1'000'000, 'a');
  const std::vector<std::string> names = {"b", long_name + "c"};
  EXPECT_THAT(NearNames(long_name, names, 1), ElementsAre(1));
}

}  // namespace
}  // namespace onnx_memopt
