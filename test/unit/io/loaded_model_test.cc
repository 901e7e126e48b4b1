#include "onnx_memopt/io/loaded_model.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "io/wire_walk.h"
#include "onnx_memopt/io/tensor_walk.h"
#include "support/status_matchers.h"
#include "support/temp_dir.h"
#include "unit/io/model_builder.h"

namespace onnx_memopt::io {
namespace {

using ::onnx_memopt::testing::EmptyModel;
using ::onnx_memopt::testing::FullModel;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::Noise;
using ::onnx_memopt::testing::RawTensor;
using ::onnx_memopt::testing::StatusIs;
using ::onnx_memopt::testing::TempDir;
using ::onnx_memopt::testing::WriteFile;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kText[] = R"(<ir_version: 10, opset_import: ["" : 18]>
g (float[2] x) => (float[2] y)
<float[2] w = {1, 2}>
{
  y = Add(x, w)
}
)";

onnx::ModelProto ModelWithWeight(size_t size) {
  onnx::ModelProto model = EmptyModel();
  *model.mutable_graph()->add_initializer() =
      RawTensor("w", onnx::TensorProto::UINT8, {static_cast<int64_t>(size)},
                Noise(size, 3));
  return model;
}

TEST(LoadTest, ReadsAFile) {
  TempDir dir;
  const std::string file = ModelWithWeight(5000).SerializeAsString();
  WriteFile(dir.Path("m.onnx"), file);
  auto model = Load(dir.Path("m.onnx"), {});
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ((*model)->path(), dir.Path("m.onnx"));
  EXPECT_EQ((*model)->directory(), dir.path());
  EXPECT_EQ((*model)->file_size_bytes(), static_cast<int64_t>(file.size()));
  EXPECT_FALSE((*model)->is_text());
  EXPECT_EQ((*model)->proto().producer_name(), "test");
  EXPECT_EQ((*model)->proto().graph().initializer(0).raw_data(), "");
  auto weight =
      ResolveTensor(**model, (*model)->proto().graph().initializer(0), "w");
  ASSERT_THAT(weight, IsOk());
  EXPECT_TRUE(weight->bytes == Noise(5000, 3));
  auto sha = (*model)->Sha256();
  ASSERT_THAT(sha, IsOk());
  EXPECT_EQ(sha->size(), 64u);
  EXPECT_EQ(*(*model)->Sha256(), *sha);
  auto elsewhere = Load(dir.Path("m.onnx"), {.external_dir = "data"});
  ASSERT_THAT(elsewhere, IsOk());
  EXPECT_EQ((*elsewhere)->directory(), "data");
}

TEST(LoadTest, ReadsStandardInput) {
  TempDir dir;
  WriteFile(dir.Path("m.onnx"), ModelWithWeight(5000).SerializeAsString());
  WriteFile(dir.Path("empty"), "");
  UniqueFd saved(dup(STDIN_FILENO));
  for (const char* name : {"m.onnx", "empty"}) {
    UniqueFd file(open(dir.Path(name).c_str(), O_RDONLY));
    ASSERT_EQ(dup2(file.get(), STDIN_FILENO), STDIN_FILENO);
    auto model = Load("-", {});
    if (std::string(name) == "empty") {
      EXPECT_THAT(model, StatusIs(_, "empty file"));
      continue;
    }
    ASSERT_THAT(model, IsOk());
    EXPECT_EQ((*model)->directory(), ".");
    auto weight =
        ResolveTensor(**model, (*model)->proto().graph().initializer(0), "w");
    ASSERT_THAT(weight, IsOk());
    EXPECT_TRUE(weight->bytes == Noise(5000, 3));
    auto from_file = Load(dir.Path("m.onnx"), {});
    ASSERT_THAT(from_file, IsOk());
    EXPECT_EQ(*(*model)->Sha256(), *(*from_file)->Sha256());
  }
  dup2(saved.get(), STDIN_FILENO);
}

TEST(LoadTest, ReadsText) {
  TempDir dir;
  WriteFile(dir.Path("m.onnxtxt"), kText);
  auto model = Load(dir.Path("m.onnxtxt"), {});
  ASSERT_THAT(model, IsOk());
  EXPECT_TRUE((*model)->is_text());
  EXPECT_EQ((*model)->proto().graph().node_size(), 1);
  EXPECT_EQ((*model)->file_size_bytes(),
            static_cast<int64_t>(sizeof(kText) - 1));
}

TEST(LoadTest, TextErrorsAreOneLineWithAPosition) {
  TempDir dir;
  const auto load = [&](const std::string& text) {
    WriteFile(dir.Path("m.onnxtxt"), text);
    return Load(dir.Path("m.onnxtxt"), {});
  };
  EXPECT_THAT(
      load(absl::StrReplaceAll(kText, {{"Add(", "Add "}})),
      StatusIs(_, AllOf(HasSubstr("line 5, column "), Not(HasSubstr("\n")))));
  EXPECT_THAT(load(std::string(kText) + "trailing"),
              StatusIs(_, HasSubstr("line 7, column 9: ")));
  EXPECT_THAT(
      load(absl::StrReplaceAll(kText, {{"10", "99999999999999999999"}})),
      StatusIs(_, Not(HasSubstr("\n"))));
  std::string deep =
      "<ir_version: 10, opset_import: [\"\" : 18]>\n"
      "g (float x) => (float y) { ";
  for (int i = 0; i < 10'000; ++i) {
    deep += "y = If (c) <then_branch = g () => () { ";
  }
  EXPECT_THAT(load(deep),
              StatusIs(_, AllOf(HasSubstr("line 2: "), HasSubstr("nested"))));
}

TEST(LoadTest, SaysWhatIsNoModel) {
  TempDir dir;
  const auto load = [&](const std::string& bytes) {
    WriteFile(dir.Path("m.onnx"), bytes);
    return Load(dir.Path("m.onnx"), {});
  };
  EXPECT_THAT(load(""), StatusIs(_, "empty file"));
  EXPECT_THAT(load("hello, world\n"),
              StatusIs(_, HasSubstr("not an ONNX file: it is text")));
  EXPECT_THAT(load("version https://git-lfs.github.com/spec/v1\noid x"),
              StatusIs(_, HasSubstr("Git LFS")));
  // A protobuf all right.
  onnx::ModelProto no_graph = EmptyModel();
  no_graph.clear_graph();
  EXPECT_THAT(load(no_graph.SerializeAsString()),
              StatusIs(_, HasSubstr("not an ONNX file: the protobuf has no "
                                    "graph")));
  EXPECT_THAT(load(ModelWithWeight(100).SerializeAsString().substr(0, 60)),
              StatusIs(_, HasSubstr("truncated at byte")));
  EXPECT_THAT(Load(dir.Path("none.onnx"), {}),
              StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(Load(dir.path(), {}), StatusIs(_, "is a directory"));
}

TEST(LoadTest, SaysThatAProtobufEndsAtTwoGigabytes) {
  TempDir dir;
  WriteFile(dir.Path("m.onnx"), "x");
  if (truncate(dir.Path("m.onnx").c_str(), int64_t{1} << 31) != 0) {
    GTEST_SKIP() << "no room for a sparse file";
  }
  EXPECT_THAT(
      Load(dir.Path("m.onnx"), {}),
      StatusIs(_, AllOf(HasSubstr("2 GiB"), HasSubstr("external data"))));
}

TEST(LoadTest, NestingThatTheScanAllowsParses) {
  onnx::ModelProto model = EmptyModel();
  onnx::GraphProto* graph = model.mutable_graph();
  for (int depth = 0; depth < kMaxNestedGraphs; ++depth) {
    graph = graph->add_node()->add_attribute()->mutable_g();
  }
  TempDir dir;
  WriteFile(dir.Path("m.onnx"), model.SerializeAsString());
  auto loaded = Load(dir.Path("m.onnx"), {});
  ASSERT_THAT(loaded, IsOk());
  EXPECT_THAT(FromProto((*loaded)->proto(), ""), IsOk());
  graph->add_node()->add_attribute()->mutable_g();
  EXPECT_THAT(FromProto(model, ""), StatusIs(_, HasSubstr("nested")));
}

TEST(LoadTest, RealModelsLoadInMilliseconds) {
  const std::vector<std::string> paths = testing::RealModels();
  if (paths.empty()) GTEST_SKIP() << "no real models beside the checkout";
  for (const std::string& path : paths) {
    const auto begin = std::chrono::steady_clock::now();
    auto model = Load(path, {});
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    ASSERT_THAT(model, IsOk()) << path;
    int tensors = 0;
    EXPECT_THAT(
        ForEachTensor(
            (*model)->proto(),
            [&](const onnx::TensorProto& tensor, const TensorPlace& place) {
              ++tensors;
              return ResolveTensor(**model, tensor, place.name).status();
            }),
        IsOk())
        << path;
    EXPECT_GT(tensors, 0);
    // Generous: sanitizers and busy machines.
    EXPECT_LT(spent.count(), 2000) << path;
    std::printf("%s: %.1f ms, %d tensors\n", path.c_str(), spent.count(),
                tensors);
  }
}

TEST(FromProtoTest, KeepsLargePayloadsOutOfTheProto) {
  auto model = FromProto(ModelWithWeight(5000), "");
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ((*model)->directory(), ".");
  const onnx::TensorProto& tensor = (*model)->proto().graph().initializer(0);
  EXPECT_FALSE(tensor.has_raw_data());
  auto weight = ResolveTensor(**model, tensor, "w");
  ASSERT_THAT(weight, IsOk());
  EXPECT_TRUE(weight->bytes == Noise(5000, 3));
  EXPECT_THAT((*model)->Sha256(), StatusIs(_, HasSubstr("not read from")));
}

TEST(FromProtoTest, RefusesNoGraphAndMarkers) {
  EXPECT_THAT(FromProto(onnx::ModelProto(), ""),
              StatusIs(_, HasSubstr("no graph")));
  onnx::ModelProto model = ModelWithWeight(10);
  SetMarker(0, model.mutable_graph()->mutable_initializer(0));
  EXPECT_THAT(FromProto(model, ""), StatusIs(_, HasSubstr("reserves")));
}

TEST(TensorWalkTest, VisitsEveryTensorInOrder) {
  onnx::ModelProto model = FullModel(1, 1);
  int count = 0;
  int initializers = 0;
  EXPECT_THAT(
      ForEachTensor(
          model,
          [&](const onnx::TensorProto& tensor, const TensorPlace& place) {
            ++count;
            initializers += place.is_initializer ? 1 : 0;
            EXPECT_EQ(place.name, absl::string_view(tensor.name()));
            return absl::OkStatus();
          }),
      IsOk());
  // 21 a graph (see payload_scan_test), of which 3 + 2; a function's 12 and 1.
  EXPECT_EQ(count, 5 * 21 + 13);
  EXPECT_EQ(initializers, 5 * 7);
}

TEST(TensorWalkTest, ChangesTensorsAndNamesNamelessOnes) {
  onnx::ModelProto model = EmptyModel();
  auto* node = model.mutable_graph()->add_node();
  node->add_output("constant");
  node->add_attribute()->mutable_t()->add_dims(1);
  std::vector<std::string> names;
  EXPECT_THAT(ForEachMutableTensor(
                  &model,
                  [&](onnx::TensorProto* tensor, const TensorPlace& place) {
                    names.emplace_back(place.name);
                    tensor->set_name("named");
                    return absl::OkStatus();
                  }),
              IsOk());
  EXPECT_THAT(names, ElementsAre("constant"));
  EXPECT_EQ(node->attribute(0).t().name(), "named");
  EXPECT_THAT(ForEachTensor(model,
                            [](const onnx::TensorProto&, const TensorPlace&) {
                              return absl::AbortedError("stop");
                            }),
              StatusIs(absl::StatusCode::kAborted, "stop"));
}

}  // namespace
}  // namespace onnx_memopt::io
