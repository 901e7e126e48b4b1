#include "onnx_memopt/io/save.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "support/status_matchers.h"
#include "support/temp_dir.h"
#include "unit/io/model_builder.h"

namespace onnx_memopt::io {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::onnx_memopt::testing::AllFields;
using ::onnx_memopt::testing::EmptyModel;
using ::onnx_memopt::testing::ExternalTensor;
using ::onnx_memopt::testing::FileMode;
using ::onnx_memopt::testing::FullModel;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::Noise;
using ::onnx_memopt::testing::RawTensor;
using ::onnx_memopt::testing::ReadFile;
using ::onnx_memopt::testing::StatusIs;
using ::onnx_memopt::testing::TempDir;
using ::onnx_memopt::testing::WriteFile;
using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using T = onnx::TensorProto;

std::shared_ptr<const LoadedModel> LoadOrDie(const std::string& path) {
  auto model = Load(path, {});
  EXPECT_THAT(model, IsOk());
  return model.ok() ? *model : nullptr;
}

onnx::ModelProto Parse(const std::string& path) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(ReadFile(path)));
  return model;
}

std::string Value(const T& tensor, const std::string& key) {
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == key) return entry.value();
  }
  return "none";
}

// A model in in/ with external data in in/w.data: "a" of 5,000 floats at 100,
// "b" of 4, "c" with the same range as "a", and, in a subgraph, "d" of 4.
class SaveTest : public ::testing::Test {
 protected:
  SaveTest() {
    for (const char* name : {"in", "out"}) {
      mkdir(dir_.Path(name).c_str(), 0755);
    }
    data_ = Noise(30'000, 9);
    WriteFile(In("w.data"), data_);
    model_ = EmptyModel();
    auto* graph = model_.mutable_graph();
    *graph->add_initializer() =
        ExternalTensor("a", {5000}, "w.data", "100", "20000");
    *graph->add_initializer() = ExternalTensor("b", {4}, "w.data");
    *graph->add_initializer() = ExternalTensor("c", {5000}, "w.data", "100");
    auto* checksum = graph->mutable_initializer(0)->add_external_data();
    checksum->set_key("checksum");
    checksum->set_value("0123");
    auto* inner = graph->add_node()->add_attribute()->mutable_g();
    *inner->add_initializer() = ExternalTensor("d", {4}, "w.data", "29984");
    *graph->add_initializer() =
        RawTensor("inline", T::UINT8, {300'000}, Noise(300'000, 4));
    WriteFile(In("m.onnx"), model_.SerializeAsString());
  }

  std::string In(const std::string& name) { return dir_.Path("in/" + name); }
  std::string Out(const std::string& name) { return dir_.Path("out/" + name); }

  // Data of an external tensor of a model in `folder`.
  std::string Range(const std::string& folder, const T& tensor) {
    const std::string file =
        ReadFile(dir_.Path(folder) + "/" + Value(tensor, "location"));
    return file.substr(std::stoul(Value(tensor, "offset")),
                       std::stoul(Value(tensor, "length")));
  }
  void ExpectCopied(const std::string& folder, const std::string& name) {
    const onnx::ModelProto saved = Parse(dir_.Path(folder) + "/" + name);
    const auto& graph = saved.graph();
    EXPECT_TRUE(Range(folder, graph.initializer(0)) ==
                data_.substr(100, 20'000));
    EXPECT_TRUE(Range(folder, graph.initializer(1)) == data_.substr(0, 16));
    EXPECT_TRUE(Range(folder, graph.node(0).attribute(0).g().initializer(0)) ==
                data_.substr(29'984, 16));
    EXPECT_EQ(Value(graph.initializer(0), "location"), name + ".data");
    EXPECT_EQ(Value(graph.initializer(0), "checksum"), "none");
    EXPECT_EQ(Value(graph.initializer(0), "offset"), "0");
    EXPECT_EQ(Value(graph.initializer(2), "offset"), "0");
    EXPECT_EQ(Value(graph.initializer(1), "offset"), "20032");
    // 20,000 bytes, 64-aligned 16, and 16 again: "c" is not copied again.
    EXPECT_EQ(ReadFile(dir_.Path(folder) + "/" + name + ".data").size(),
              20'112u);
  }

  TempDir dir_;
  std::string data_;
  onnx::ModelProto model_;
};

TEST_F(SaveTest, AnUnchangedModelComesBackByteForByte) {
  const std::string file = FullModel(2000, 1).SerializeAsString();
  WriteFile(In("full.onnx"), file);
  auto source = LoadOrDie(In("full.onnx"));
  for (int run = 0; run < 2; ++run) {
    auto saved = Save(source->proto(), *source, Out("full.onnx"), {});
    ASSERT_THAT(saved, IsOk());
    EXPECT_THAT(saved->files, ElementsAre(Out("full.onnx")));
    EXPECT_EQ(saved->model_bytes, static_cast<int64_t>(file.size()));
    EXPECT_EQ(saved->data_bytes, 0);
    EXPECT_TRUE(ReadFile(Out("full.onnx")) == file);
  }
  // Over itself.
  ASSERT_THAT(Save(source->proto(), *source, In("full.onnx"), {}), IsOk());
  EXPECT_TRUE(ReadFile(In("full.onnx")) == file);
}

TEST_F(SaveTest, AutoRefersInTheSameFolderEvenIfTheDataIsMissing) {
  unlink(In("w.data").c_str());
  auto source = LoadOrDie(In("m.onnx"));
  auto saved = Save(source->proto(), *source, In("n.onnx"), {});
  ASSERT_THAT(saved, IsOk());
  EXPECT_THAT(saved->files, ElementsAre(In("n.onnx")));
  EXPECT_TRUE(ReadFile(In("n.onnx")) == ReadFile(In("m.onnx")));
}

TEST_F(SaveTest, AutoCopiesElsewhereAndTwiceIsTheSame) {
  auto source = LoadOrDie(In("m.onnx"));
  std::string first;
  std::string first_data;
  for (int run = 0; run < 2; ++run) {
    if (run == 1) WriteFile(Out("n.onnx.data"), std::string(99'999, 'x'));
    auto saved = Save(source->proto(), *source, Out("n.onnx"), {});
    ASSERT_THAT(saved, IsOk());
    EXPECT_THAT(saved->files, ElementsAre(Out("n.onnx.data"), Out("n.onnx")));
    EXPECT_EQ(saved->data_bytes, 20'112);
    ExpectCopied("out", "n.onnx");
    if (run == 0) {
      first = ReadFile(Out("n.onnx"));
      first_data = ReadFile(Out("n.onnx.data"));
    }
  }
  EXPECT_TRUE(ReadFile(Out("n.onnx")) == first);
  EXPECT_TRUE(ReadFile(Out("n.onnx.data")) == first_data);
  // All but the locations is as it was.
  onnx::ModelProto saved = Parse(Out("n.onnx"));
  EXPECT_TRUE(MessageDifferencer::Equals(saved.graph().initializer(3),
                                         model_.graph().initializer(3)));
  // What was saved can be loaded and saved again.
  auto again = LoadOrDie(Out("n.onnx"));
  ASSERT_THAT(Save(again->proto(), *again, Out("n.onnx"),
                   {.external_data = ExternalData::kCopy}),
              IsOk());
  EXPECT_TRUE(ReadFile(Out("n.onnx")) == first);
  EXPECT_TRUE(ReadFile(Out("n.onnx.data")) == first_data);
}

TEST_F(SaveTest, CopyOverTheSourceAndItsData) {
  // First to a model whose data file is the one that a copy writes.
  auto source = LoadOrDie(In("m.onnx"));
  ASSERT_THAT(Save(source->proto(), *source, In("m.onnx"),
                   {.external_data = ExternalData::kCopy}),
              IsOk());
  ExpectCopied("in", "m.onnx");
  auto in_place = LoadOrDie(In("m.onnx"));
  onnx::ModelProto edited = in_place->proto();
  edited.mutable_graph()->mutable_initializer()->SwapElements(0, 1);
  ASSERT_THAT(Save(edited, *in_place, In("m.onnx"),
                   {.external_data = ExternalData::kCopy}),
              IsOk());
  const onnx::ModelProto saved = Parse(In("m.onnx"));
  EXPECT_EQ(saved.graph().initializer(0).name(), "b");
  EXPECT_EQ(Value(saved.graph().initializer(0), "offset"), "0");
  EXPECT_TRUE(Range("in", saved.graph().initializer(0)) == data_.substr(0, 16));
  EXPECT_TRUE(Range("in", saved.graph().initializer(1)) ==
              data_.substr(100, 20'000));
  // Of 4 KiB and more: on a page.
  EXPECT_EQ(Value(saved.graph().initializer(1), "offset"), "4096");
}

TEST_F(SaveTest, RefusesToReplaceDataThatTheSourceNeeds) {
  WriteFile(In("n.onnx.data"), data_);
  onnx::ModelProto model = EmptyModel();
  *model.mutable_graph()->add_initializer() =
      ExternalTensor("a", {4}, "n.onnx.data");
  WriteFile(In("m.onnx"), model.SerializeAsString());
  auto source = LoadOrDie(In("m.onnx"));
  EXPECT_THAT(Save(source->proto(), *source, In("n.onnx"),
                   {.external_data = ExternalData::kCopy}),
              StatusIs(_, HasSubstr("would replace the source model's")));
  EXPECT_THAT(Save(source->proto(), *source, In("n.onnx.data"), {}),
              StatusIs(_, HasSubstr("is the source model's external data")));
  EXPECT_TRUE(ReadFile(In("n.onnx.data")) == data_);
  rename(In("m.onnx").c_str(), In("x.data").c_str());
  auto odd = LoadOrDie(In("x.data"));
  EXPECT_THAT(
      Save(odd->proto(), *odd, In("x"), {.external_data = ExternalData::kCopy}),
      StatusIs(_, HasSubstr("would replace the source model")));
}

TEST_F(SaveTest, ReferenceFromAbove) {
  auto source = LoadOrDie(In("m.onnx"));
  auto saved = Save(source->proto(), *source, dir_.Path("n.onnx"),
                    {.external_data = ExternalData::kReference});
  ASSERT_THAT(saved, IsOk());
  const onnx::ModelProto model = Parse(dir_.Path("n.onnx"));
  EXPECT_EQ(Value(model.graph().initializer(0), "location"), "in/w.data");
  EXPECT_EQ(Value(model.graph().initializer(0), "checksum"), "0123");
  auto above = LoadOrDie(dir_.Path("n.onnx"));
  EXPECT_THAT(ResolveTensor(*above, above->proto().graph().initializer(0), "a"),
              IsOk());
  EXPECT_THAT(Save(source->proto(), *source, Out("n.onnx"),
                   {.external_data = ExternalData::kReference}),
              StatusIs(_, AllOf(HasSubstr("\"w.data\" is not below"),
                                HasSubstr("copy"))));
  // And down again: the data lies beside the output.
  ASSERT_THAT(Save(above->proto(), *above, In("again.onnx"),
                   {.external_data = ExternalData::kReference}),
              IsOk());
  EXPECT_TRUE(ReadFile(In("again.onnx")) == ReadFile(In("m.onnx")));
}

TEST_F(SaveTest, CopyNamesTheTensorWhoseDataIsMissing) {
  unlink(In("w.data").c_str());
  auto source = LoadOrDie(In("m.onnx"));
  for (const ExternalData mode : {ExternalData::kCopy, ExternalData::kAll}) {
    EXPECT_THAT(
        Save(source->proto(), *source, Out("n.onnx"), {.external_data = mode}),
        StatusIs(
            absl::StatusCode::kNotFound,
            AllOf(HasSubstr("tensor \"a\""), HasSubstr("w.data"),
                  HasSubstr("does not exist"), HasSubstr("--external-dir"))));
  }
  EXPECT_THAT(dir_.Names(), ElementsAre("in", "out"));
  EXPECT_FALSE(std::filesystem::exists(Out("n.onnx")));
  EXPECT_FALSE(std::filesystem::exists(Out("n.onnx.data")));
}

TEST_F(SaveTest, AllMovesInitializersAsRawData) {
  onnx::ModelProto model = EmptyModel();
  for (auto& tensor : AllFields(2000, "t")) {
    *model.mutable_graph()->add_initializer() = tensor;
  }
  *model.mutable_graph()->add_initializer() = AllFields(3, "small")[3];
  T half = RawTensor("half", T::INT16, {2000}, "");
  half.clear_raw_data();
  for (int i = 0; i < 2000; ++i) half.add_int32_data(i - 1000);
  *model.mutable_graph()->add_initializer() = half;
  *model.mutable_graph()->add_node()->add_attribute()->mutable_t() =
      RawTensor("k", T::UINT8, {5000}, Noise(5000, 1));
  WriteFile(In("full.onnx"), model.SerializeAsString());
  auto from_memory = FromProto(model, In(""));
  ASSERT_THAT(from_memory, IsOk());
  for (const auto& source : {LoadOrDie(In("full.onnx")), *from_memory}) {
    ASSERT_THAT(Save(source->proto(), *source, Out("n.onnx"),
                     {.external_data = ExternalData::kAll}),
                IsOk());
    const onnx::ModelProto saved = Parse(Out("n.onnx"));
    const auto& tensors = saved.graph().initializer();
    const auto& before = model.graph().initializer();
    const auto raw = [](const auto& values) {
      return std::string(
          reinterpret_cast<const char*>(values.data()),
          static_cast<size_t>(values.size()) * sizeof(*values.data()));
    };
    EXPECT_TRUE(Range("out", tensors[0]) == raw(before[0].float_data()));
    EXPECT_TRUE(Range("out", tensors[1]) == raw(before[1].int32_data()));
    EXPECT_TRUE(Range("out", tensors[3]) == raw(before[3].int64_data()));
    EXPECT_TRUE(Range("out", tensors[4]) == before[4].raw_data());
    EXPECT_TRUE(Range("out", tensors[5]) == raw(before[5].double_data()));
    EXPECT_TRUE(Range("out", tensors[6]) == raw(before[6].uint64_data()));
    std::string shorts;
    for (int i = 0; i < 2000; ++i) {
      const int16_t value = static_cast<int16_t>(i - 1000);
      shorts.append(reinterpret_cast<const char*>(&value), 2);
    }
    EXPECT_TRUE(Range("out", tensors[8]) == shorts);
    // Strings, small tensors and constants of nodes stay.
    EXPECT_TRUE(MessageDifferencer::Equals(tensors[2], before[2]));
    EXPECT_TRUE(MessageDifferencer::Equals(tensors[7], before[7]));
    EXPECT_TRUE(MessageDifferencer::Equals(saved.graph().node(0),
                                           model.graph().node(0)));
    // What is not data stays too.
    EXPECT_EQ(tensors[0].doc_string(), "after the data");
    EXPECT_EQ(
        tensors[0].GetReflection()->GetUnknownFields(tensors[0]).field_count(),
        4);
    EXPECT_FALSE(tensors[0].has_raw_data());
    EXPECT_EQ(tensors[0].float_data_size(), 0);
  }
}

TEST_F(SaveTest, AutoMovesEverythingWhereTheProtobufWouldBeTooLarge) {
  auto source = LoadOrDie(In("m.onnx"));
  ASSERT_THAT(Save(source->proto(), *source, Out("n.onnx"),
                   {.max_protobuf_bytes = 100'000}),
              IsOk());
  const onnx::ModelProto saved = Parse(Out("n.onnx"));
  EXPECT_TRUE(Range("out", saved.graph().initializer(3)) == Noise(300'000, 4));
  EXPECT_THAT(Save(source->proto(), *source, Out("x.onnx"),
                   {.external_data = ExternalData::kCopy,
                    .max_protobuf_bytes = 100'000}),
              StatusIs(_, HasSubstr("at most 100000")));
  EXPECT_THAT(Save(source->proto(), *source, Out("x.onnx"),
                   {.max_protobuf_bytes = 100}),
              StatusIs(_, HasSubstr("at most 100 ")));
  EXPECT_FALSE(std::filesystem::exists(Out("x.onnx")));
  EXPECT_FALSE(std::filesystem::exists(Out("x.onnx.data")));
}

TEST_F(SaveTest, ModesFollowTheModel) {
  auto source = LoadOrDie(In("m.onnx"));
  const mode_t old_mask = umask(027);
  auto fresh = Save(source->proto(), *source, Out("n.onnx"), {});
  umask(old_mask);
  ASSERT_THAT(fresh, IsOk());
  EXPECT_EQ(FileMode(Out("n.onnx")), 0640u);
  EXPECT_EQ(FileMode(Out("n.onnx.data")), 0640u);
  ASSERT_EQ(chmod(Out("n.onnx").c_str(), 0604), 0);
  ASSERT_THAT(Save(source->proto(), *source, Out("n.onnx"), {}), IsOk());
  EXPECT_EQ(FileMode(Out("n.onnx")), 0604u);
  EXPECT_EQ(FileMode(Out("n.onnx.data")), 0604u);
}

TEST_F(SaveTest, AFailedWriteLeavesWhatWasThere) {
  WriteFile(Out("n.onnx"), "old");
  WriteFile(Out("n.onnx.data"), "old data");
  auto source = LoadOrDie(In("m.onnx"));
  rlimit old_limit;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  auto* old_handler = std::signal(SIGXFSZ, SIG_IGN);
  // Room for the data (20,112 bytes) but not for the model (300,000).
  for (const rlim_t room : {10'000, 100'000}) {
    const rlimit limit = {room, old_limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    auto saved = Save(source->proto(), *source, Out("n.onnx"), {});
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
    EXPECT_THAT(saved, StatusIs(absl::StatusCode::kResourceExhausted, _));
    EXPECT_EQ(ReadFile(Out("n.onnx")), "old");
    EXPECT_EQ(ReadFile(Out("n.onnx.data")), "old data");
    int files = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(dir_.Path("out"))) {
      ++files;
    }
    EXPECT_EQ(files, 2);
  }
  std::signal(SIGXFSZ, old_handler);
}

TEST_F(SaveTest, SaysWhereItCannotWrite) {
  auto source = LoadOrDie(In("m.onnx"));
  EXPECT_THAT(Save(source->proto(), *source, dir_.Path("none/n.onnx"), {}),
              StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(Save(source->proto(), *source, dir_.Path("out"), {}),
              StatusIs(_, HasSubstr("is a directory")));
  mkdir(Out("n.onnx.data").c_str(), 0755);
  EXPECT_THAT(Save(source->proto(), *source, Out("n.onnx"), {}),
              StatusIs(_, AllOf(HasSubstr("n.onnx.data\": "),
                                HasSubstr("is a directory"))));
  EXPECT_FALSE(std::filesystem::exists(Out("n.onnx")));
}

TEST_F(SaveTest, Text) {
  WriteFile(In("t.onnxtxt"), R"(<ir_version: 10, opset_import: ["" : 18]>
g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) })");
  auto source = LoadOrDie(In("t.onnxtxt"));
  ASSERT_THAT(Save(source->proto(), *source, Out("t.onnxtxt"), {}), IsOk());
  auto again = LoadOrDie(Out("t.onnxtxt"));
  EXPECT_TRUE(MessageDifferencer::Equals(source->proto(), again->proto()));
  ASSERT_THAT(Save(source->proto(), *source, Out("t.onnx"), {}), IsOk());
  EXPECT_TRUE(
      MessageDifferencer::Equals(source->proto(), Parse(Out("t.onnx"))));
  auto large = LoadOrDie(In("m.onnx"));
  EXPECT_THAT(
      Save(large->proto(), *large, In("m.onnxtxt"), {}),
      StatusIs(_, AllOf(HasSubstr("tensor \"inline\""), HasSubstr("text"))));
}

TEST_F(SaveTest, StandardOutput) {
  auto source = LoadOrDie(In("m.onnx"));
  fflush(stdout);
  UniqueFd saved(dup(STDOUT_FILENO));
  UniqueFd file(open(Out("piped").c_str(), O_WRONLY | O_CREAT, 0644));
  ASSERT_EQ(dup2(file.get(), STDOUT_FILENO), STDOUT_FILENO);
  auto result = Save(source->proto(), *source, "-", {});
  auto copied = Save(source->proto(), *source, "-",
                     {.external_data = ExternalData::kCopy});
  dup2(saved.get(), STDOUT_FILENO);
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->files, ElementsAre());
  EXPECT_TRUE(ReadFile(Out("piped")) == ReadFile(In("m.onnx")));
  EXPECT_THAT(copied, StatusIs(_, HasSubstr("standard output")));
}

TEST_F(SaveTest, RealModelsComeBackEqual) {
  const std::vector<std::string> paths = testing::RealModels();
  if (paths.empty()) GTEST_SKIP() << "no real models beside the checkout";
  for (const std::string& path : paths) {
    const std::string name = path.substr(path.rfind('/') + 1);
    WriteFile(In(name), ReadFile(path));
    auto source = LoadOrDie(In(name));
    ASSERT_THAT(Save(source->proto(), *source, In("saved.onnx"), {}), IsOk());
    EXPECT_TRUE(
        MessageDifferencer::Equals(Parse(path), Parse(In("saved.onnx"))))
        << path;
  }
}

}  // namespace
}  // namespace onnx_memopt::io
