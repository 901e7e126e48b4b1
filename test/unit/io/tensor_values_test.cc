#include "onnx_memopt/io/tensor_values.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/io/loaded_model.h"
#include "onnx_memopt/ir/contents.h"
#include "support/status_matchers.h"
#include "support/temp_dir.h"
#include "unit/io/model_builder.h"

namespace onnx_memopt::io {
namespace {

using ::onnx_memopt::testing::EmptyModel;
using ::onnx_memopt::testing::ExternalTensor;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::RawTensor;
using ::onnx_memopt::testing::TempDir;
using ::onnx_memopt::testing::WriteFile;
using ::testing::ElementsAre;
using ::testing::Optional;
using T = onnx::TensorProto;

// Resolves one tensor of a model that is kept for the whole test.
class TensorValuesTest : public ::testing::Test {
 protected:
  ir::Weight Resolve(const T& tensor) {
    onnx::ModelProto model = EmptyModel();
    *model.mutable_graph()->add_initializer() = tensor;
    // Through a file, so that large payloads are cut.
    WriteFile(dir_.Path("m.onnx"), model.SerializeAsString());
    auto loaded = Load(dir_.Path("m.onnx"), {});
    EXPECT_THAT(loaded, IsOk());
    models_.push_back(*loaded);
    auto weight = ResolveTensor(
        *models_.back(), models_.back()->proto().graph().initializer(0), "w");
    EXPECT_THAT(weight, IsOk());
    return weight.ok() ? *weight : ir::Weight();
  }

  static T Typed(int32_t type, std::initializer_list<int64_t> dims) {
    T tensor;
    tensor.set_data_type(type);
    for (const int64_t dim : dims) tensor.add_dims(dim);
    return tensor;
  }
  static T Int32s(int32_t type, std::initializer_list<int64_t> dims,
                  std::initializer_list<int32_t> values) {
    T tensor = Typed(type, dims);
    for (const int32_t value : values) tensor.add_int32_data(value);
    return tensor;
  }

  TempDir dir_;
  std::vector<std::shared_ptr<const LoadedModel>> models_;
};

TEST_F(TensorValuesTest, IntegersFromRawData) {
  const auto raw = [&](int32_t type, int64_t count, const std::string& bytes) {
    return IntegerValues(Resolve(RawTensor("w", type, {count}, bytes)));
  };
  EXPECT_THAT(raw(T::INT8, 2, "\xff\x02"), Optional(ElementsAre(-1, 2)));
  EXPECT_THAT(raw(T::UINT8, 2, "\xff\x02"), Optional(ElementsAre(255, 2)));
  EXPECT_THAT(raw(T::BOOL, 1, "\x01"), Optional(ElementsAre(1)));
  EXPECT_THAT(raw(T::INT16, 1, "\xfe\xff"), Optional(ElementsAre(-2)));
  EXPECT_THAT(raw(T::UINT16, 1, "\xfe\xff"), Optional(ElementsAre(65534)));
  EXPECT_THAT(raw(T::INT32, 1, "\xff\xff\xff\xff"), Optional(ElementsAre(-1)));
  EXPECT_THAT(raw(T::UINT32, 1, "\xff\xff\xff\xff"),
              Optional(ElementsAre(4294967295)));
  EXPECT_THAT(raw(T::INT64, 1, std::string(8, '\xff')),
              Optional(ElementsAre(-1)));
  EXPECT_EQ(raw(T::UINT64, 1, std::string(8, '\xff')), std::nullopt);
  // The first element is in the low bits; three need two bytes.
  EXPECT_THAT(raw(T::INT4, 3, "\xf1\x08"), Optional(ElementsAre(1, -1, -8)));
  EXPECT_THAT(raw(T::UINT4, 3, "\xf1\x08"), Optional(ElementsAre(1, 15, 8)));
  EXPECT_THAT(raw(T::INT2, 4, "\xe4"), Optional(ElementsAre(0, 1, -2, -1)));
  EXPECT_THAT(raw(T::UINT2, 4, "\xe4"), Optional(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(raw(T::INT64, 0, ""), Optional(ElementsAre()));
}

TEST_F(TensorValuesTest, IntegersFromTypedFields) {
  EXPECT_THAT(IntegerValues(Resolve(Int32s(T::INT32, {2}, {-5, 7}))),
              Optional(ElementsAre(-5, 7)));
  EXPECT_THAT(IntegerValues(Resolve(Int32s(T::INT8, {2}, {-5, 7}))),
              Optional(ElementsAre(-5, 7)));
  EXPECT_THAT(IntegerValues(Resolve(Int32s(T::UINT16, {1}, {65535}))),
              Optional(ElementsAre(65535)));
  EXPECT_THAT(IntegerValues(Resolve(Int32s(T::BOOL, {2}, {1, 0}))),
              Optional(ElementsAre(1, 0)));
  EXPECT_THAT(IntegerValues(Resolve(Int32s(T::INT4, {3}, {0xf1, 0x08}))),
              Optional(ElementsAre(1, -1, -8)));
  T scalar = Typed(T::INT64, {});
  scalar.add_int64_data(-9);
  EXPECT_THAT(IntegerValues(Resolve(scalar)), Optional(ElementsAre(-9)));
  T unsigned32 = Typed(T::UINT32, {1});
  unsigned32.add_uint64_data(4294967295);
  EXPECT_THAT(IntegerValues(Resolve(unsigned32)),
              Optional(ElementsAre(4294967295)));
}

TEST_F(TensorValuesTest, ATypedPayloadThatWasCut) {
  T tensor = Typed(T::INT64, {ir::kMaxContentsElements});
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < ir::kMaxContentsElements; ++i) {
    expected.push_back(-i * i);
    tensor.add_int64_data(-i * i);
  }
  const ir::Weight weight = Resolve(tensor);
  EXPECT_EQ(weight.storage, ir::WeightStorage::kTyped);
  EXPECT_THAT(IntegerValues(weight), Optional(expected));
  tensor.set_dims(0, ir::kMaxContentsElements + 1);
  tensor.add_int64_data(0);
  EXPECT_EQ(IntegerValues(Resolve(tensor)), std::nullopt);
}

TEST_F(TensorValuesTest, Reals) {
  T floats = Typed(T::FLOAT, {2});
  floats.add_float_data(0.5f);
  floats.add_float_data(-3);
  EXPECT_THAT(RealValues(Resolve(floats)), Optional(ElementsAre(0.5, -3)));
  T doubles = Typed(T::DOUBLE, {1});
  doubles.add_double_data(0.1);
  EXPECT_THAT(RealValues(Resolve(doubles)), Optional(ElementsAre(0.1)));
  // 1, -2, the smallest subnormal, the largest number, infinity.
  EXPECT_THAT(
      RealValues(Resolve(
          Int32s(T::FLOAT16, {5}, {0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00}))),
      Optional(ElementsAre(1, -2, std::ldexp(1, -24), 65504, HUGE_VAL)));
  EXPECT_THAT(RealValues(Resolve(RawTensor(
                  "w", T::BFLOAT16, {2}, std::string("\x80\x3f\x40\xc0", 4)))),
              Optional(ElementsAre(1, -3)));
  auto nan = RealValues(Resolve(Int32s(T::FLOAT16, {1}, {0x7e00})));
  ASSERT_TRUE(nan.has_value());
  EXPECT_TRUE(std::isnan((*nan)[0]));
}

TEST_F(TensorValuesTest, OtherKindsHaveNone) {
  EXPECT_EQ(IntegerValues(Resolve(ExternalTensor("w", {1}, "f"))),
            std::nullopt);
  EXPECT_EQ(RealValues(Resolve(ExternalTensor("w", {1}, "f"))), std::nullopt);
  T strings = Typed(T::STRING, {1});
  strings.add_string_data("x");
  EXPECT_EQ(IntegerValues(Resolve(strings)), std::nullopt);
  EXPECT_FALSE(HasRawForm(Resolve(strings)));
  EXPECT_EQ(RealValues(Resolve(Int32s(T::INT32, {1}, {1}))), std::nullopt);
  EXPECT_EQ(IntegerValues(Resolve(RawTensor("w", T::FLOAT, {1}, "1234"))),
            std::nullopt);
}

TEST_F(TensorValuesTest, SixBitElementsArePackedAsRawData) {
  // Four elements in three bytes, the first in the lowest bits.
  const ir::Weight weight =
      Resolve(Int32s(T::FLOAT6E2M3, {5}, {0x3f, 0, 0x15, 0x01, 0x02}));
  std::string raw;
  ASSERT_THAT(VisitRawBytes(weight,
                            [&](absl::string_view bytes) {
                              raw.append(bytes.data(), bytes.size());
                              return absl::OkStatus();
                            }),
              IsOk());
  EXPECT_EQ(raw, std::string("\x3f\x50\x05\x02", 4));
  EXPECT_EQ(weight.size_bytes, 4);
}

}  // namespace
}  // namespace onnx_memopt::io
