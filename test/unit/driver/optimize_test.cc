// The whole flow through the public API: what is reported, what is written, and
// that nothing is where something went wrong.

#include "onnx_memopt/optimize.h"

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx/defs/parser.h"
#include "onnx/onnx_pb.h"
#include "support/status_matchers.h"
#include "support/temp_dir.h"

namespace onnx_memopt {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::ReadFile;
using ::onnx_memopt::testing::StatusIs;
using ::onnx_memopt::testing::TempDir;
using ::onnx_memopt::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr auto kBadModel = absl::StatusCode::kInvalidArgument;
constexpr auto kBadOption = absl::StatusCode::kOutOfRange;

// Two branches: `a` takes 40 bytes and leaves 20, `b` takes 12*seq and leaves
// 12; `y` has 32. With seq = 9 it is better to begin with `b`, and with seq = 1
// as in the file. `dead` is for no one.
constexpr char kBranches[] = R"(
    g (float[2, 5] x, float[seq, 3] z) => (float[8] y)
    <int64[1] first = {0}> {
      dead = Sin(x)
      a = Exp(x)
      small_a = ReduceSum <keepdims = 0> (a, first)
      b = Exp(z)
      small_b = ReduceSum <keepdims = 0> (b, first)
      y = Concat <axis = 0> (small_a, small_b)
    })";

class OptimizeTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return dir_.Path(name); }

  // Writes a graph in text syntax as a binary model.
  std::string Model(const std::string& text) const {
    const std::string full =
        absl::StrCat("<ir_version: 9, opset_import: [\"\" : 18]>\n", text);
    onnx::ModelProto model;
    onnx::OnnxParser parser(full.c_str());
    const auto status = parser.Parse(model);
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
    WriteFile(Path("m.onnx"), model.SerializeAsString());
    return Path("m.onnx");
  }

  std::vector<std::string> NodesOf(const std::string& path) const {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(ReadFile(path)));
    std::vector<std::string> names;
    for (const onnx::NodeProto& node : model.graph().node()) {
      names.push_back(node.output(0));
    }
    return names;
  }

  TempDir dir_;
};

TEST_F(OptimizeTest, ReportsAndWrites) {
  const std::string path = Model(kBranches);
  std::vector<std::string> phases;
  const auto report = Optimize(
      path, {.dims = {{"seq", {9}}},
             .passes = "drop-dead,share-initializers,reorder{target=ideal},"
                       "split,no-pattern",
             .output = Path("small.onnx"),
             .progress = [&](const std::string& p) { phases.push_back(p); }});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->model.path, path);
  EXPECT_EQ(report->model.nodes, 6);
  EXPECT_TRUE(report->complete);
  EXPECT_EQ(report->inputs_bytes, 40 + 108);
  // small_a, b and small_b: 20 + 108 + 12.
  EXPECT_EQ(report->before.live_peak_bytes, 140);
  ASSERT_TRUE(report->after.has_value());
  // b and small_b.
  EXPECT_EQ(report->after->live_peak_bytes, 120);
  ASSERT_EQ(report->passes.size(), 5u);
  EXPECT_EQ(report->passes[0].name, "drop-dead");
  EXPECT_TRUE(report->passes[0].changed);
  EXPECT_FALSE(report->passes[1].changed);
  EXPECT_TRUE(report->passes[2].changed);
  EXPECT_THAT(report->outputs, ElementsAre(Path("small.onnx")));
  EXPECT_THAT(NodesOf(Path("small.onnx")),
              ElementsAre("b", "small_b", "a", "small_a", "y"));
  EXPECT_THAT(phases, ::testing::Contains("writing"));
  EXPECT_EQ(phases.front(), "reading");
}

TEST_F(OptimizeTest, AnalysisAloneRunsNoPassAndWritesNothing) {
  const auto report =
      Optimize(Model(kBranches), {.dims = {{"seq", {9}}}, .rewrite = false});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->before.live_peak_bytes, 140);
  EXPECT_FALSE(report->after.has_value());
  EXPECT_THAT(report->passes, IsEmpty());
  EXPECT_THAT(report->outputs, IsEmpty());
  EXPECT_EQ(report->nodes.size(), 6u);
  EXPECT_THAT(dir_.Names(), UnorderedElementsAre("m.onnx"));
}

TEST_F(OptimizeTest, WithoutAnOutputThePassesRunAndNothingIsWritten) {
  const auto report =
      Optimize(Model(kBranches),
               {.dims = {{"seq", {9}}}, .passes = "reorder{target=ideal}"});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->after->live_peak_bytes, 120);
  EXPECT_THAT(report->outputs, IsEmpty());
  EXPECT_THAT(dir_.Names(), UnorderedElementsAre("m.onnx"));
}

TEST_F(OptimizeTest, ASweepHasEveryCombinationAndPlansForTheWorst) {
  const auto report =
      Optimize(Model(kBranches),
               {.dims = {{"seq", {1, 9}}}, .passes = "reorder{target=ideal}"});
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->sweep.size(), 2u);
  const ReportSweepPoint& one = report->sweep[0];
  EXPECT_THAT(one.dims, ElementsAre(Pair("seq", 1)));
  // small_a, small_b and y: 20 + 12 + 32. After: small_b, a and small_a.
  EXPECT_EQ(one.before.live_peak_bytes, 64);
  EXPECT_EQ(one.after->live_peak_bytes, 72);
  EXPECT_EQ(report->sweep[1].before.live_peak_bytes, 140);
  EXPECT_EQ(report->sweep[1].after->live_peak_bytes, 120);
  // The report's main part is about the worst point.
  EXPECT_EQ(report->before.live_peak_bytes, 140);
  EXPECT_EQ(report->after->live_peak_bytes, 120);
  ASSERT_EQ(report->dims.size(), 1u);
  EXPECT_EQ(report->dims[0].name, "seq");
  EXPECT_EQ(report->dims[0].value, 9);
  EXPECT_FALSE(report->dims[0].assumed);
}

TEST_F(OptimizeTest, ANameWithoutASizeIsAssumedToBeOne) {
  const auto report = Optimize(Model(kBranches), {.rewrite = false});
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->dims.size(), 1u);
  EXPECT_EQ(report->dims[0].value, 1);
  EXPECT_TRUE(report->dims[0].assumed);
}

TEST_F(OptimizeTest, OptionsThatDoNotFitAreToldApart) {
  const std::string path = Model(kBranches);
  const auto error = [&](Options options) {
    options.output = Path("out.onnx");
    return Optimize(path, options).status();
  };
  EXPECT_THAT(error({.dims = {{"width", {2}}}}),
              StatusIs(kBadOption, HasSubstr("it has seq")));
  EXPECT_THAT(error({.dims = {{"seq", {}}}}),
              StatusIs(kBadOption, HasSubstr("\"seq\" has no size")));
  EXPECT_THAT(error({.dims = {{"seq", {3, 0}}}}),
              StatusIs(kBadOption, HasSubstr("at least 1")));
  EXPECT_THAT(error({.input_shapes = {{"z", {2}}}}),
              StatusIs(kBadOption, HasSubstr("2 dimensions")));
  EXPECT_THAT(error({.input_shapes = {{"", {2, 5}}}}),
              StatusIs(kBadOption, HasSubstr("it has x, z")));
  EXPECT_THAT(error({.passes = "polish"}),
              StatusIs(kBadOption, HasSubstr("polish")));
  std::vector<int64_t> many(257);
  for (size_t i = 0; i < many.size(); ++i) {
    many[i] = static_cast<int64_t>(i) + 1;
  }
  EXPECT_THAT(error({.dims = {{"seq", many}}}),
              StatusIs(kBadOption, HasSubstr("256 combinations")));
  EXPECT_THAT(dir_.Names(), UnorderedElementsAre("m.onnx"));
}

TEST_F(OptimizeTest, ErrorsBeginWithThePath) {
  const std::string missing = Path("missing.onnx");
  EXPECT_THAT(
      Optimize(missing, {}).status(),
      StatusIs(absl::StatusCode::kNotFound, StartsWith(missing + ": ")));
  const std::string cycle =
      Model("g (float[4] x) => (float[4] y) { a = Add(x, y) y = Relu(a) }");
  EXPECT_THAT(
      Optimize(cycle, {.output = Path("out.onnx")}).status(),
      StatusIs(kBadModel, AllOf(StartsWith(cycle + ": "), HasSubstr("cycle"))));
  WriteFile(Path("m.onnx"), ReadFile(cycle).substr(0, 40));
  EXPECT_THAT(
      Optimize(cycle, {.output = Path("out.onnx")}).status(),
      StatusIs(kBadModel, AllOf(StartsWith(cycle + ": "), HasSubstr("byte"))));
  EXPECT_THAT(dir_.Names(), UnorderedElementsAre("m.onnx"));
}

TEST_F(OptimizeTest, WhatCannotBeWrittenNamesTheOutput) {
  const std::string output = Path("nowhere/out.onnx");
  const auto report = Optimize(Model(kBranches), {.output = output});
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(std::string(report.status().message()),
              StartsWith(output + ": "));
  EXPECT_THAT(dir_.Names(), UnorderedElementsAre("m.onnx"));
}

// Data that is missing when it is to be copied is found out before the model is
// there.
TEST_F(OptimizeTest, ACopyThatFailsLeavesNothingBehind) {
  onnx::ModelProto model;
  model.set_ir_version(9);
  model.add_opset_import()->set_version(18);
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type("Relu");
  node.add_input("w");
  node.add_output("y");
  graph.add_output()->set_name("y");
  onnx::TensorProto& weight = *graph.add_initializer();
  weight.set_name("w");
  weight.set_data_type(onnx::TensorProto::FLOAT);
  weight.add_dims(4);
  weight.set_data_location(onnx::TensorProto::EXTERNAL);
  onnx::StringStringEntryProto& location = *weight.add_external_data();
  location.set_key("location");
  location.set_value("w.bin");
  WriteFile(Path("m.onnx"), model.SerializeAsString());
  ASSERT_EQ(mkdir(Path("out").c_str(), 0755), 0);

  EXPECT_THAT(Optimize(Path("m.onnx"), {.rewrite = false}), IsOk());
  const auto failed =
      Optimize(Path("m.onnx"), {.output = Path("out/out.onnx")});
  EXPECT_FALSE(failed.ok());
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("w.bin"));
  EXPECT_THAT(dir_.Names(), UnorderedElementsAre("m.onnx", "out"));

  WriteFile(Path("w.bin"), std::string(16, 'w'));
  const auto copied =
      Optimize(Path("m.onnx"), {.output = Path("out/out.onnx")});
  ASSERT_THAT(copied, IsOk());
  EXPECT_THAT(copied->outputs, UnorderedElementsAre(Path("out/out.onnx"),
                                                    Path("out/out.onnx.data")));
  EXPECT_EQ(ReadFile(Path("out/out.onnx.data")).substr(0, 16),
            std::string(16, 'w'));
}

TEST_F(OptimizeTest, TwoRunsWriteTheSame) {
  const std::string path = Model(kBranches);
  const Options options = {.dims = {{"seq", {9}}}, .output = Path("out.onnx")};
  ASSERT_THAT(Optimize(path, options), IsOk());
  const std::string first = ReadFile(Path("out.onnx"));
  ASSERT_THAT(Optimize(path, options), IsOk());
  EXPECT_EQ(ReadFile(Path("out.onnx")), first);
  // What it wrote is as good as it gets.
  const auto again = Optimize(
      Path("out.onnx"), {.dims = {{"seq", {9}}}, .output = Path("again.onnx")});
  ASSERT_THAT(again, IsOk());
  for (const ReportPass& pass : again->passes) {
    EXPECT_FALSE(pass.changed) << pass.name;
  }
  EXPECT_EQ(ReadFile(Path("again.onnx")), first);
}

TEST_F(OptimizeTest, AModelInMemoryComesBackAsItsFileWould) {
  const std::string path = Model(kBranches);
  const Options options{.dims = {{"seq", {9}}}, .output = Path("out.onnx")};
  const auto of_file = Optimize(path, options);
  ASSERT_THAT(of_file, IsOk());
  const std::string bytes = ReadFile(path);
  std::string output;
  const auto report = OptimizeBytes(bytes, {.dims = {{"seq", {9}}}}, &output);
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(output, ReadFile(Path("out.onnx")));
  EXPECT_EQ(report->model.path, "<memory>");
  EXPECT_EQ(report->model.sha256, of_file->model.sha256);
  EXPECT_EQ(report->model.size_bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_THAT(report->outputs, IsEmpty());
}

TEST_F(OptimizeTest, BrokenBytesInMemoryAreAnError) {
  std::string output = "as it was";
  EXPECT_THAT(OptimizeBytes("no model", {}, &output),
              StatusIs(kBadModel, StartsWith("<memory>: ")));
  EXPECT_EQ(output, "as it was");
}

}  // namespace
}  // namespace onnx_memopt
