#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/wire_walk.h"
#include "onnx_memopt/io/loaded_model.h"
#include "support/status_matchers.h"
#include "support/temp_dir.h"
#include "unit/io/model_builder.h"

namespace onnx_memopt::io {
namespace {

using ::onnx_memopt::testing::AllFields;
using ::onnx_memopt::testing::EmptyModel;
using ::onnx_memopt::testing::ExternalTensor;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::RawTensor;
using ::onnx_memopt::testing::StatusIs;
using ::onnx_memopt::testing::TempDir;
using ::onnx_memopt::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using T = onnx::TensorProto;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

class ResolveTensorTest : public ::testing::Test {
 protected:
  absl::StatusOr<ir::Weight> Resolve(const T& tensor) {
    onnx::ModelProto model = EmptyModel();
    *model.mutable_graph()->add_initializer() = tensor;
    WriteFile(dir_.Path("m.onnx"), model.SerializeAsString());
    auto loaded = Load(dir_.Path("m.onnx"), {});
    EXPECT_THAT(loaded, IsOk());
    if (!loaded.ok()) return loaded.status();
    models_.push_back(*loaded);
    return ResolveTensor(*models_.back(),
                         models_.back()->proto().graph().initializer(0),
                         tensor.name());
  }
  absl::StatusOr<ir::Weight> ResolveLocation(const std::string& location) {
    return Resolve(ExternalTensor("w", {4}, location));
  }

  TempDir dir_;
  std::vector<std::shared_ptr<const LoadedModel>> models_;
};

TEST_F(ResolveTensorTest, EveryFieldShortAndCut) {
  using S = ir::WeightStorage;
  const S short_storage[] = {S::kRaw, S::kRaw, S::kTyped, S::kRaw,
                             S::kRaw, S::kRaw, S::kRaw};
  const S cut_storage[] = {S::kRaw, S::kTyped, S::kTyped, S::kTyped,
                           S::kRaw, S::kRaw,   S::kTyped};
  const int64_t element_bytes[] = {4, 4, 32, 8, 1, 8, 8};
  for (const int count : {3, 2000}) {
    const std::vector<T> tensors = AllFields(count, "t");
    for (size_t i = 0; i < tensors.size(); ++i) {
      auto weight = Resolve(tensors[i]);
      ASSERT_THAT(weight, IsOk()) << i;
      EXPECT_EQ(weight->storage, count == 3 ? short_storage[i] : cut_storage[i])
          << i;
      EXPECT_EQ(weight->size_bytes, count * element_bytes[i]);
      EXPECT_THAT(weight->dims, ElementsAre(count));
      EXPECT_EQ(weight->name, tensors[i].name());
      if (weight->storage == S::kRaw) {
        EXPECT_EQ(static_cast<int64_t>(weight->bytes.size()),
                  weight->size_bytes);
      }
      T longer = tensors[i];
      longer.set_dims(0, count + 1);
      EXPECT_THAT(Resolve(longer),
                  StatusIs(kInvalid,
                           AllOf(HasSubstr("tensor \"t"), HasSubstr("needs"))));
      T shorter = tensors[i];
      shorter.set_dims(0, count - 1);
      EXPECT_THAT(Resolve(shorter), StatusIs(kInvalid, HasSubstr("needs")));
    }
  }
}

TEST_F(ResolveTensorTest, EqualShortTensorsHaveEqualEncodings) {
  T tensor;
  tensor.set_data_type(T::STRING);
  tensor.add_dims(1);
  tensor.add_string_data("hello");
  auto weight = Resolve(tensor);
  ASSERT_THAT(weight, IsOk());
  EXPECT_EQ(weight->bytes, "\x32\x05hello");
  auto again = ResolveTensor(
      *models_.back(), models_.back()->proto().graph().initializer(0), "");
  EXPECT_EQ(again->bytes.data(), weight->bytes.data());
}

TEST_F(ResolveTensorTest, SizesOfElementTypes) {
  struct Case {
    int32_t type;
    size_t bytes_of_five;
  };
  const Case cases[] = {
      {T::FLOAT, 20},         {T::UINT8, 5},          {T::INT8, 5},
      {T::UINT16, 10},        {T::INT16, 10},         {T::INT32, 20},
      {T::INT64, 40},         {T::BOOL, 5},           {T::FLOAT16, 10},
      {T::DOUBLE, 40},        {T::UINT32, 20},        {T::UINT64, 40},
      {T::COMPLEX64, 40},     {T::COMPLEX128, 80},    {T::BFLOAT16, 10},
      {T::FLOAT8E4M3FN, 5},   {T::FLOAT8E4M3FNUZ, 5}, {T::FLOAT8E5M2, 5},
      {T::FLOAT8E5M2FNUZ, 5}, {T::UINT4, 3},          {T::INT4, 3},
      {T::FLOAT4E2M1, 3},     {T::FLOAT8E8M0, 5},     {T::UINT2, 2},
      {T::INT2, 2},           {T::FLOAT6E2M3, 4},     {T::FLOAT6E3M2, 4}};
  for (const Case& c : cases) {
    EXPECT_THAT(
        Resolve(RawTensor("w", c.type, {5}, std::string(c.bytes_of_five, 'x'))),
        IsOk())
        << c.type;
    EXPECT_THAT(Resolve(RawTensor("w", c.type, {5},
                                  std::string(c.bytes_of_five + 1, 'x'))),
                StatusIs(kInvalid, HasSubstr("raw_data")))
        << c.type;
  }
}

TEST_F(ResolveTensorTest, SubByteAndComplexEntries) {
  const auto check = [&](int32_t type, int64_t elements, int entries) {
    T tensor;
    tensor.set_data_type(type);
    tensor.add_dims(elements);
    for (int i = 0; i < entries; ++i) {
      if (type == T::COMPLEX64) {
        tensor.add_float_data(1);
      } else if (type == T::COMPLEX128) {
        tensor.add_double_data(1);
      } else {
        tensor.add_int32_data(1);
      }
    }
    return Resolve(tensor).ok();
  };
  EXPECT_TRUE(check(T::INT4, 5, 3));
  EXPECT_FALSE(check(T::INT4, 5, 5));
  EXPECT_TRUE(check(T::UINT2, 5, 2));
  EXPECT_TRUE(check(T::FLOAT6E3M2, 5, 5));
  EXPECT_TRUE(check(T::FLOAT8E8M0, 5, 5));
  EXPECT_TRUE(check(T::COMPLEX64, 3, 6));
  EXPECT_TRUE(check(T::COMPLEX128, 3, 6));
  EXPECT_FALSE(check(T::COMPLEX64, 3, 3));
}

TEST_F(ResolveTensorTest, RefusesBadTypesAndDims) {
  EXPECT_THAT(Resolve(RawTensor("w", 0, {1}, "x")),
              StatusIs(kInvalid, "tensor \"w\" has no element type"));
  for (const int32_t type : {-1, 29, 256 + 1, INT32_MAX}) {
    EXPECT_THAT(Resolve(RawTensor("w", type, {1}, "x")),
                StatusIs(kInvalid, HasSubstr("unknown element type")));
  }
  EXPECT_THAT(Resolve(RawTensor("w", T::FLOAT, {2, -1}, "x")),
              StatusIs(kInvalid, HasSubstr("negative dimension in [2, -1]")));
  EXPECT_THAT(Resolve(RawTensor("w", T::INT8, {INT64_MAX, 2}, "x")),
              StatusIs(kInvalid, HasSubstr("too large: shape [922337")));
  EXPECT_THAT(Resolve(RawTensor("w", T::DOUBLE, {INT64_MAX / 8}, "x")),
              StatusIs(kInvalid, HasSubstr("too large: double")));
  EXPECT_THAT(Resolve(RawTensor("w", T::FLOAT, {INT64_MAX, INT64_MAX, 0}, "")),
              IsOk());
  T ranks = RawTensor("w", T::INT8, {}, "x");
  for (int i = 0; i < 1'000'000; ++i) ranks.add_dims(1);
  EXPECT_THAT(Resolve(ranks),
              StatusIs(kInvalid, HasSubstr("has 1000000 dimensions")));
  T segment = RawTensor("w", T::INT8, {1}, "x");
  segment.mutable_segment()->set_begin(0);
  EXPECT_THAT(Resolve(segment), StatusIs(kInvalid, HasSubstr("segment")));
  EXPECT_THAT(Resolve(RawTensor("a\nb", T::INT8, {2}, "x")),
              StatusIs(kInvalid, HasSubstr("tensor \"a\\x0ab\"")));
}

TEST_F(ResolveTensorTest, RefusesDataInTheWrongPlace) {
  T none = RawTensor("w", T::FLOAT, {2}, "");
  EXPECT_THAT(Resolve(none), StatusIs(kInvalid, HasSubstr("has no data")));
  T empty = RawTensor("w", T::FLOAT, {0}, "");
  EXPECT_THAT(Resolve(empty), IsOk());
  T wrong = empty;
  wrong.set_dims(0, 1);
  wrong.add_int32_data(1);
  EXPECT_THAT(Resolve(wrong),
              StatusIs(kInvalid, HasSubstr("type float in int32_data")));
  T both = RawTensor("w", T::FLOAT, {1}, "1234");
  both.add_float_data(1);
  EXPECT_THAT(Resolve(both), StatusIs(kInvalid, HasSubstr("several fields")));
  T both_cut = RawTensor("w", T::FLOAT, {1000}, std::string(4000, 'x'));
  both_cut.add_float_data(1);
  EXPECT_THAT(Resolve(both_cut),
              StatusIs(kInvalid, HasSubstr("several fields")));
  EXPECT_THAT(Resolve(RawTensor("w", T::STRING, {1}, "x")),
              StatusIs(kInvalid, HasSubstr("type string in raw_data")));
}

TEST_F(ResolveTensorTest, RefusesDamagedNumbersInACutPayload) {
  const auto load = [&](const std::string& packed) {
    std::string tensor;
    AppendTag(T::kInt64DataFieldNumber, WireType::kLengthDelimited, &tensor);
    AppendVarint(packed.size(), &tensor);
    tensor += packed;
    const std::string head = "\x08\x01\x10\x07";  // dims 1, INT64
    tensor = head + tensor;
    std::string graph;
    AppendTag(5, WireType::kLengthDelimited, &graph);
    AppendVarint(tensor.size(), &graph);
    graph += tensor;
    std::string file;
    AppendTag(7, WireType::kLengthDelimited, &file);
    AppendVarint(graph.size(), &file);
    WriteFile(dir_.Path("m.onnx"), file + graph);
    auto model = Load(dir_.Path("m.onnx"), {});
    EXPECT_THAT(model, IsOk());
    models_.push_back(*model);
    return ResolveTensor(**model, (*model)->proto().graph().initializer(0),
                         "w");
  };
  EXPECT_THAT(load(std::string(2000, '\x81')),
              StatusIs(kInvalid, HasSubstr("invalid number")));
  EXPECT_THAT(load(std::string(2000, '\x01') + "\x80"),
              StatusIs(kInvalid, HasSubstr("cut off inside a number")));
}

TEST_F(ResolveTensorTest, ExternalData) {
  auto missing = Resolve(ExternalTensor("w", {4}, "sub/data", "4096", "16"));
  ASSERT_THAT(missing, IsOk());
  EXPECT_EQ(missing->storage, ir::WeightStorage::kExternal);
  EXPECT_EQ(missing->external.path, dir_.Path("sub/data"));
  EXPECT_EQ(missing->external.offset_bytes, 4096);
  EXPECT_EQ(missing->external.length_bytes, 16);
  EXPECT_EQ(missing->size_bytes, 16);

  WriteFile(dir_.Path("data"), std::string(100, 'x'));
  EXPECT_THAT(Resolve(ExternalTensor("w", {4}, "data", "84")), IsOk());
  EXPECT_THAT(Resolve(ExternalTensor("w", {4}, "data", "85")),
              StatusIs(kInvalid, AllOf(HasSubstr("ends at byte 101"),
                                       HasSubstr("has 100 bytes"))));
  // data_location may be missing.
  T unmarked = ExternalTensor("w", {4}, "data");
  unmarked.clear_data_location();
  EXPECT_EQ(Resolve(unmarked)->storage, ir::WeightStorage::kExternal);
  // Where it is not, and there is data, runtimes take that.
  unmarked.set_raw_data(std::string(16, 'x'));
  EXPECT_EQ(Resolve(unmarked)->storage, ir::WeightStorage::kRaw);
  unmarked.set_data_location(T::EXTERNAL);
  EXPECT_THAT(Resolve(unmarked), StatusIs(kInvalid, HasSubstr("both")));
}

TEST_F(ResolveTensorTest, RefusesBadExternalNumbers) {
  const auto with = [&](const std::string& offset, const std::string& length) {
    return Resolve(ExternalTensor("w", {4}, "data", offset, length));
  };
  for (const char* bad : {"-1", "+1", " 1", "1 ", "0x10", "1e3", "ten",
                          "9223372036854775808", "99999999999999999999999"}) {
    EXPECT_THAT(with(bad, ""), StatusIs(kInvalid, HasSubstr("offset \"")));
    EXPECT_THAT(with("", bad), StatusIs(kInvalid, HasSubstr("length \"")));
  }
  EXPECT_THAT(with("", "15"),
              StatusIs(kInvalid, AllOf(HasSubstr("length 15"),
                                       HasSubstr("[4] needs 16"))));
  EXPECT_THAT(with("9223372036854775807", ""),
              StatusIs(kInvalid, HasSubstr("too large")));
  T twice = ExternalTensor("w", {4}, "data");
  *twice.add_external_data() = twice.external_data(0);
  EXPECT_THAT(Resolve(twice), StatusIs(kInvalid, HasSubstr("two values")));
  T no_location = ExternalTensor("w", {4}, "");
  EXPECT_THAT(Resolve(no_location),
              StatusIs(kInvalid, HasSubstr("no location")));
  no_location.clear_external_data();
  EXPECT_THAT(Resolve(no_location),
              StatusIs(kInvalid, HasSubstr("no location")));
  T strings = ExternalTensor("w", {4}, "data");
  strings.set_data_type(T::STRING);
  EXPECT_THAT(Resolve(strings), StatusIs(kInvalid, HasSubstr("strings")));
}

TEST_F(ResolveTensorTest, RefusesLocationsThatLeaveTheFolder) {
  EXPECT_THAT(ResolveLocation("/etc/passwd"),
              StatusIs(kInvalid, HasSubstr("absolute")));
  for (const char* location : {"..", "../x", "a/../../x", "a/..", "./../x"}) {
    EXPECT_THAT(ResolveLocation(location),
                StatusIs(kInvalid, HasSubstr("\"..\"")));
  }
  EXPECT_THAT(ResolveLocation("..x/y..z/..."), IsOk());
  EXPECT_THAT(ResolveLocation(std::string("a\0b", 3)),
              StatusIs(kInvalid, HasSubstr("zero byte")));
  EXPECT_THAT(ResolveLocation("."),
              StatusIs(kInvalid, HasSubstr("not a regular file")));
  EXPECT_THAT(ResolveLocation(std::string(5000, 'x')),
              StatusIs(kInvalid, HasSubstr("too long")));
}

TEST_F(ResolveTensorTest, RefusesLinksFoldersAndPipes) {
  WriteFile(dir_.Path("data"), std::string(16, 'x'));
  ASSERT_EQ(symlink("data", dir_.Path("link").c_str()), 0);
  ASSERT_EQ(symlink("nothing", dir_.Path("dangling").c_str()), 0);
  ASSERT_EQ(mkdir(dir_.Path("sub").c_str(), 0700), 0);
  WriteFile(dir_.Path("sub/data"), std::string(16, 'x'));
  ASSERT_EQ(symlink("sub", dir_.Path("sublink").c_str()), 0);
  ASSERT_EQ(mkfifo(dir_.Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(ResolveLocation("sub/data"), IsOk());
  for (const char* location : {"link", "dangling", "sublink/data"}) {
    EXPECT_THAT(ResolveLocation(location),
                StatusIs(kInvalid, HasSubstr("symbolic link")));
  }
  EXPECT_THAT(ResolveLocation("sub"), StatusIs(kInvalid, HasSubstr("regular")));
  EXPECT_THAT(ResolveLocation("pipe"),
              StatusIs(kInvalid, HasSubstr("regular")));
  EXPECT_THAT(ResolveLocation("data/x"),
              StatusIs(kInvalid, HasSubstr("goes through a file")));
}

TEST_F(ResolveTensorTest, SparseTensors) {
  onnx::ModelProto proto = EmptyModel();
  auto loaded = FromProto(proto, dir_.path());
  ASSERT_THAT(loaded, IsOk());
  onnx::SparseTensorProto sparse;
  sparse.add_dims(1000);
  sparse.add_dims(1000);
  const auto resolve = [&] {
    return ResolveSparseTensor(**loaded, sparse, "s");
  };
  EXPECT_THAT(resolve(), StatusIs(kInvalid, HasSubstr("lacks")));
  *sparse.mutable_values() =
      RawTensor("s", T::FLOAT, {3}, std::string(12, 'x'));
  *sparse.mutable_indices() =
      RawTensor("", T::INT64, {3}, std::string(24, '\0'));
  auto weight = resolve();
  ASSERT_THAT(weight, IsOk());
  EXPECT_EQ(weight->storage, ir::WeightStorage::kSparse);
  EXPECT_EQ(weight->size_bytes, 36);
  EXPECT_THAT(weight->dims, ElementsAre(1000, 1000));
  EXPECT_EQ(weight->element, ir::ElementType::kFloat);
  *sparse.mutable_indices() =
      RawTensor("", T::INT64, {3, 2}, std::string(48, '\0'));
  EXPECT_EQ(resolve()->size_bytes, 60);
  *sparse.mutable_indices() =
      RawTensor("", T::INT64, {3, 3}, std::string(72, '\0'));
  EXPECT_THAT(resolve(), StatusIs(kInvalid, HasSubstr("expected int64 [3] or "
                                                      "[3, 2]")));
  *sparse.mutable_indices() =
      RawTensor("", T::INT32, {3}, std::string(12, '\0'));
  EXPECT_THAT(resolve(), StatusIs(kInvalid, HasSubstr("indices int32")));
  *sparse.mutable_values() =
      RawTensor("s", T::FLOAT, {3, 1}, std::string(12, 'x'));
  EXPECT_THAT(resolve(), StatusIs(kInvalid, HasSubstr("values of shape")));
  sparse.set_dims(0, -1);
  EXPECT_THAT(resolve(), StatusIs(kInvalid, HasSubstr("negative")));
}

}  // namespace
}  // namespace onnx_memopt::io
