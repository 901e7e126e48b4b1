// What is not changed comes back as it was.

#include "onnx_memopt/io/export.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "onnx_memopt/io/import.h"
#include "support/random_graph.h"
#include "support/status_matchers.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::io {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportModel;
using ::onnx_memopt::testing::ImportText;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::Random;
using ::onnx_memopt::testing::RandomModel;
using ::onnx_memopt::testing::Runs;
using ::onnx_memopt::testing::StatusIs;
using ::testing::HasSubstr;

onnx::ModelProto RoundTrip(const onnx::ModelProto& model) {
  const Imported m = ImportModel(model);
  EXPECT_THAT(m.status, IsOk());
  auto out = Export(*m.model, m.graph);
  EXPECT_THAT(out, IsOk());
  return *std::move(out);
}

TEST(ExportTest, UntouchedRandomModelsComeBackEqual) {
  for (int i = 0; i < Runs(2000); ++i) {
    const onnx::ModelProto model =
        RandomModel(static_cast<uint64_t>(i), {.max_nodes = 12,
                                               .max_depth = 2,
                                               .calls = true,
                                               .unknown_sizes = true,
                                               .named_dims = true});
    const onnx::ModelProto out = RoundTrip(model);
    ASSERT_EQ(out.SerializeAsString(), model.SerializeAsString()) << i;
  }
}

TEST(ExportTest, ShuffledModelsAreStableAfterOneTrip) {
  int moved = 0;
  for (int i = 0; i < Runs(1000); ++i) {
    const auto seed = static_cast<uint64_t>(i);
    onnx::ModelProto model =
        RandomModel(seed, {.max_nodes = 12, .max_depth = 2, .calls = true});
    Random random(seed);
    auto* nodes = model.mutable_graph()->mutable_node();
    for (int k = nodes->size(); k > 1; --k) {
      nodes->SwapElements(k - 1, random.Below(k));
    }
    const onnx::ModelProto once = RoundTrip(model);
    EXPECT_TRUE(MessageDifferencer::Equals(RoundTrip(once), once)) << i;
    moved += MessageDifferencer::Equals(once, model) ? 0 : 1;
  }
  EXPECT_GT(moved, Runs(500));
}

constexpr char kText[] = R"(
  g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] dead = {3, 4}> {
    a = Exp(x)
    b = Neg(a)
    unused = Tanh(b)
    y = Add(b, w)
  })";

TEST(ExportTest, LeavesOutWhatWasErasedAndWhatDescribesIt) {
  onnx::ModelProto model = ::onnx_memopt::testing::ParseText(kText);
  for (const char* name : {"a", "unused"}) {
    model.mutable_graph()->add_value_info()->set_name(name);
    model.mutable_graph()->add_quantization_annotation()->set_tensor_name(name);
  }
  Imported m = ImportModel(model);
  ASSERT_THAT(m.status, IsOk());
  const ir::NodeId unused = m.graph.block(ir::kMainBlock).nodes[2];
  m.graph.EraseNodes(ir::kMainBlock, {unused});
  m.graph.mutable_block(ir::kMainBlock).initializers.pop_back();
  const auto out = Export(*m.model, m.graph);
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ(out->graph().node_size(), 3);
  ASSERT_EQ(out->graph().initializer_size(), 1);
  EXPECT_EQ(out->graph().initializer(0).name(), "w");
  ASSERT_EQ(out->graph().value_info_size(), 1);
  EXPECT_EQ(out->graph().value_info(0).name(), "a");
  EXPECT_EQ(out->graph().quantization_annotation_size(), 1);
}

TEST(ExportTest, WritesNewOrderAndNewOperands) {
  Imported m = ImportText(kText);
  auto& nodes = m.graph.mutable_block(ir::kMainBlock).nodes;
  std::swap(nodes[2], nodes[3]);
  m.graph.ReplaceUses({{m.Find("w"), m.Find("dead")}});
  const auto out = Export(*m.model, m.graph);
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ(out->graph().node(2).op_type(), "Add");
  EXPECT_EQ(out->graph().node(2).input(1), "dead");
  EXPECT_EQ(out->graph().node(3).op_type(), "Tanh");
}

TEST(ExportTest, WritesNodesThatAPassMade) {
  Imported m = ImportText(kText);
  ir::Value value;
  value.name = "made";
  value.block = ir::kMainBlock;
  const ir::ValueId result = m.graph.AddValue(std::move(value));
  ir::Node node;
  node.name = "new";
  node.op_type = "Gemmish";
  node.domain = "com.microsoft";
  node.block = ir::kMainBlock;
  node.operands = {m.Find("x"), ir::kNoValue};
  node.results = {result};
  node.attributes = {{"i", int64_t{3}},
                     {"f", 0.5f},
                     {"s", std::string("text")},
                     {"is", std::vector<int64_t>{1, 2}},
                     {"fs", std::vector<float>{1, 2}},
                     {"ss", std::vector<std::string>{"a"}}};
  const ir::NodeId id = m.graph.AddNode(node);
  m.graph.mutable_block(ir::kMainBlock).nodes.push_back(id);
  const auto out = Export(*m.model, m.graph);
  ASSERT_THAT(out, IsOk());
  const onnx::NodeProto& made = out->graph().node(4);
  EXPECT_EQ(made.name(), "new");
  EXPECT_EQ(made.domain(), "com.microsoft");
  EXPECT_THAT(made.input(), ::testing::ElementsAre("x", ""));
  EXPECT_THAT(made.output(), ::testing::ElementsAre("made"));
  ASSERT_EQ(made.attribute_size(), 6);
  EXPECT_EQ(made.attribute(0).i(), 3);
  EXPECT_EQ(made.attribute(1).f(), 0.5f);
  EXPECT_EQ(made.attribute(2).s(), "text");
  EXPECT_THAT(made.attribute(3).ints(), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(made.attribute(4).floats(), ::testing::ElementsAre(1, 2));
  EXPECT_THAT(made.attribute(5).strings(), ::testing::ElementsAre("a"));
  // What it cannot write is an error, not a loss.
  m.graph.mutable_node(id).attributes = {{"o", ir::OpaqueAttribute{}}};
  EXPECT_THAT(Export(*m.model, m.graph),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("attribute \"o\" of a new node")));
}

TEST(FromBytesTest, IsLoadWithoutAFile) {
  const onnx::ModelProto model = ::onnx_memopt::testing::ParseText(kText);
  const auto loaded = FromBytes(model.SerializeAsString(), "");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_TRUE(MessageDifferencer::Equals((*loaded)->proto(), model));
  EXPECT_THAT(FromBytes("", ""),
              StatusIs(absl::StatusCode::kInvalidArgument, "empty file"));
  EXPECT_THAT(
      FromBytes("some text", ""),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it is text")));
}

}  // namespace
}  // namespace onnx_memopt::io
