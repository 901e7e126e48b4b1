// Operands and attributes that are a shape are bounded; other lists may be
// long.

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/status_matchers.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::io {
namespace {

using ::onnx_memopt::testing::ImportModel;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::ParseText;
using ::onnx_memopt::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// A model in which a list of that many elements, a graph input, is read by
// `call`.
absl::Status ImportWithList(int elements, const std::string& call) {
  return ImportModel(ParseText(absl::StrCat("g (float[4] x, int64[", elements,
                                            "] s, float[", elements,
                                            "] r) => (y) { y = ", call, " }")))
      .status;
}

TEST(CheckTypesTest, ShapeOperandsAreBounded) {
  for (const std::string call :
       {"Reshape(x, s)", "Expand(x, s)", "ConstantOfShape(s)", "Tile(x, s)",
        "Unsqueeze(x, s)", "Resize(x, \"\", r)", "Resize(x, \"\", \"\", s)"}) {
    EXPECT_THAT(
        ImportWithList(1'025, call),
        StatusIs(kInvalid, AllOf(HasSubstr("node \""), HasSubstr("1025 dim"))))
        << call;
    EXPECT_THAT(ImportWithList(4, call), IsOk()) << call;
  }
}

TEST(CheckTypesTest, PadHasTwoElementsForEachDimension) {
  EXPECT_THAT(ImportWithList(2'048, "Pad(x, s)"), IsOk());
  EXPECT_THAT(ImportWithList(2'050, "Pad(x, s)"),
              StatusIs(kInvalid, HasSubstr("1025 dim")));
}

TEST(CheckTypesTest, DataMayBeLong) {
  EXPECT_THAT(ImportWithList(1'000'000, "Gather(x, s)"), IsOk());
  EXPECT_THAT(ImportWithList(1'000'000, "Reshape(s, s)"),
              StatusIs(kInvalid, HasSubstr("tensor \"s\"")));
  // Another domain's Reshape may mean something else.
  EXPECT_THAT(ImportWithList(1'000'000, "local.Reshape(x, s)"), IsOk());
}

TEST(CheckTypesTest, ShapeAttributesAreBounded) {
  onnx::ModelProto model =
      ParseText("g () => (y) { y = RandomNormal <shape = [2]> () }");
  EXPECT_THAT(ImportModel(model).status, IsOk());
  onnx::AttributeProto& shape =
      *model.mutable_graph()->mutable_node(0)->mutable_attribute(0);
  for (int i = 0; i < 1'024; ++i) shape.add_ints(1);
  EXPECT_THAT(ImportModel(model).status,
              StatusIs(kInvalid, HasSubstr("attribute \"shape\" asks for "
                                           "1025 dimensions")));
}

}  // namespace
}  // namespace onnx_memopt::io
