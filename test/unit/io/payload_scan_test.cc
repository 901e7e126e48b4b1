#include "onnx_memopt/io/payload_scan.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "io/wire_walk.h"
#include "onnx_memopt/io/payload_splice.h"
#include "onnx_memopt/support/mapped_file.h"
#include "support/status_matchers.h"
#include "support/temp_dir.h"
#include "unit/io/model_builder.h"

namespace onnx_memopt::io {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::onnx_memopt::testing::AddUnknown;
using ::onnx_memopt::testing::AllFields;
using ::onnx_memopt::testing::EmptyModel;
using ::onnx_memopt::testing::FullModel;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::Noise;
using ::onnx_memopt::testing::RawTensor;
using ::onnx_memopt::testing::StatusIs;
using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

std::string Join(const SplicedModel& model) {
  std::string bytes;
  for (absl::string_view segment : model.segments) {
    bytes.append(segment.data(), segment.size());
  }
  EXPECT_EQ(static_cast<int64_t>(bytes.size()), model.size_bytes);
  return bytes;
}

std::string Splice(const onnx::ModelProto& skeleton,
                   const std::vector<Payload>& payloads) {
  const std::string bytes = skeleton.SerializeAsString();
  auto spliced = SplicePayloads(bytes, payloads);
  EXPECT_THAT(spliced, IsOk());
  return spliced.ok() ? Join(*spliced) : "";
}

// One length-delimited field.
std::string Field(uint32_t number, const std::string& value) {
  std::string out;
  AppendTag(number, WireType::kLengthDelimited, &out);
  AppendVarint(value.size(), &out);
  return out + value;
}

TEST(PayloadScanTest, GivesBackWhatProtobufWroteByteForByte) {
  // 2,000 entries are above the limit in each field, 10 below it.
  for (const int count : {10, 2000}) {
    const std::string file = FullModel(count, 2).SerializeAsString();
    auto scanned = ScanPayloads(file);
    ASSERT_THAT(scanned, IsOk());
    if (count == 10) {
      EXPECT_EQ(scanned->payloads.size(), 0u);
      EXPECT_TRUE(scanned->skeleton == file);
    } else {
      // A level has 7 initializers, 2 sparse, t, 7 in a list, 2 * 2 sparse
      // ones: 21. There are 1 + 2 + 4 levels, 2 training graphs; a function has
      // 12 in its node and t: 9 * 21 + 13.
      EXPECT_EQ(scanned->payloads.size(), 202u);
      EXPECT_LT(scanned->skeleton.size(), 60'000u);
    }
    onnx::ModelProto skeleton;
    ASSERT_TRUE(skeleton.ParseFromString(scanned->skeleton));
    EXPECT_TRUE(Splice(skeleton, scanned->payloads) == file);
  }
}

TEST(PayloadScanTest, CutsOnlyAboveTheLimit) {
  for (const size_t size : {1024, 1025}) {
    onnx::ModelProto model = EmptyModel();
    *model.mutable_graph()->add_initializer() =
        RawTensor("w", onnx::TensorProto::UINT8, {static_cast<int64_t>(size)},
                  Noise(size, 1));
    const std::string file = model.SerializeAsString();
    auto scanned = ScanPayloads(file);
    ASSERT_THAT(scanned, IsOk());
    EXPECT_EQ(scanned->payloads.size(), size == 1025 ? 1u : 0u);
  }
}

TEST(PayloadScanTest, LeavesPiecesForProtobufToJoin) {
  const std::string first(1200 * 4, 'a');
  const std::string second(800 * 4, 'b');
  const std::string strings(1500, 's');
  std::string unpacked;
  for (int i = 0; i < 600; ++i) {
    AppendTag(5, WireType::kVarint, &unpacked);
    AppendVarint(static_cast<uint64_t>(i), &unpacked);
  }
  const std::string pieces = Field(4, first) + Field(8, "n") + Field(4, second);
  const std::string raws = Field(9, first) + Field(9, second);
  const std::string split = Field(6, strings) + Field(8, "n") + Field(6, "x");
  for (const std::string& tensor : {pieces, raws, split, unpacked}) {
    const std::string file = Field(7, Field(5, tensor));
    auto scanned = ScanPayloads(file);
    ASSERT_THAT(scanned, IsOk());
    EXPECT_EQ(scanned->payloads.size(), 0u);
    EXPECT_TRUE(scanned->skeleton == file);
  }
}

TEST(PayloadScanTest, FollowsRemovalReorderingAndDuplication) {
  onnx::ModelProto model = FullModel(2000, 1);
  const std::string file = model.SerializeAsString();
  auto scanned = ScanPayloads(file);
  ASSERT_THAT(scanned, IsOk());
  onnx::ModelProto skeleton;
  ASSERT_TRUE(skeleton.ParseFromString(scanned->skeleton));
  for (onnx::ModelProto* edited : {&model, &skeleton}) {
    auto* graph = edited->mutable_graph();
    graph->mutable_initializer()->SwapElements(0, 6);
    graph->mutable_initializer()->DeleteSubrange(2, 2);
    *graph->add_initializer() = graph->initializer(0);
    graph->mutable_initializer(1)->set_doc_string("changed");
    *graph->mutable_node(0)->add_attribute()->mutable_t() =
        graph->initializer(1);
    *graph->add_node() = graph->node(0);
    edited->clear_functions();
  }
  EXPECT_TRUE(Splice(skeleton, scanned->payloads) == model.SerializeAsString());
}

TEST(PayloadScanTest, PagesAreGivenBackWhileAModelOfManyPayloadsIsRead) {
  onnx::ModelProto model = EmptyModel();
  for (uint32_t i = 0; i < 64; ++i) {
    *model.mutable_graph()->add_initializer() = RawTensor(
        absl::StrCat("w", i), onnx::TensorProto::UINT8, {2000}, Noise(2000, i));
  }
  const std::string file = model.SerializeAsString();
  int drops = 0;
  const auto scanned = ScanPayloads(file, [&] { ++drops; });
  ASSERT_THAT(scanned, IsOk());
  EXPECT_EQ(scanned->payloads.size(), 64u);
  // Both when it looks for payloads and when it copies what is between them.
  EXPECT_GE(drops, 8);
  EXPECT_EQ(scanned->skeleton, ScanPayloads(file)->skeleton);
}

TEST(PayloadScanTest, RealModels) {
  const std::vector<std::string> paths = testing::RealModels();
  if (paths.empty()) GTEST_SKIP() << "no real models beside the checkout";
  for (const std::string& path : paths) {
    auto file = MappedFile::Open(path);
    ASSERT_THAT(file, IsOk()) << path;
    onnx::ModelProto original;
    ASSERT_TRUE(original.ParseFromString(std::string(file->bytes())));
    auto scanned = ScanPayloads(file->bytes());
    ASSERT_THAT(scanned, IsOk()) << path;
    onnx::ModelProto skeleton;
    ASSERT_TRUE(skeleton.ParseFromString(scanned->skeleton));
    onnx::ModelProto again;
    ASSERT_TRUE(again.ParseFromString(Splice(skeleton, scanned->payloads)));
    EXPECT_TRUE(MessageDifferencer::Equals(original, again)) << path;
  }
}

TEST(PayloadScanTest, EveryTruncationIsAnErrorOrWhatProtobufReads) {
  // Payloads of 1,100 bytes, so that cuts are in the way of the end.
  onnx::ModelProto model = EmptyModel();
  for (auto& tensor : AllFields(3, "a")) {
    *model.mutable_graph()->add_initializer() = tensor;
  }
  *model.mutable_graph()->add_initializer() =
      RawTensor("w", onnx::TensorProto::UINT8, {1100}, Noise(1100, 1));
  auto* node = model.mutable_graph()->add_node();
  node->set_op_type("If");
  node->add_attribute()->mutable_g()->set_name("inner");
  AddUnknown(&model, "end");
  const std::string file = model.SerializeAsString();
  int accepted = 0;
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    auto scanned = ScanPayloads(cut);
    onnx::ModelProto expected;
    const bool parses = expected.ParseFromString(cut);
    ASSERT_EQ(scanned.ok(), parses) << size;
    if (!parses) continue;
    ++accepted;
    onnx::ModelProto skeleton;
    ASSERT_TRUE(skeleton.ParseFromString(scanned->skeleton));
    ASSERT_TRUE(Splice(skeleton, scanned->payloads) ==
                expected.SerializeAsString());
  }
  // Between the ten top-level fields: ir_version, producer_name, graph,
  // opset_import, and four unknown ones.
  EXPECT_EQ(accepted, 8);
}

TEST(PayloadScanTest, AFlippedByteIsAnErrorOrWhatProtobufReads) {
  const std::string file = FullModel(3, 0).SerializeAsString();
  size_t at = 0;
  for (const int flip : {0x01, 0x02, 0x04, 0x80, 0xff}) {
    // A stride without common factors with the loop over the masks reaches
    // every kind of byte, and takes a second.
    for (at %= file.size(); at < file.size(); at += 29) {
      std::string damaged = file;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      auto scanned = ScanPayloads(damaged);
      if (!scanned.ok()) continue;
      onnx::ModelProto expected;
      ASSERT_TRUE(expected.ParseFromString(damaged)) << at;
      onnx::ModelProto skeleton;
      ASSERT_TRUE(skeleton.ParseFromString(scanned->skeleton)) << at;
      ASSERT_TRUE(Splice(skeleton, scanned->payloads) ==
                  expected.SerializeAsString())
          << at;
    }
  }
}

TEST(PayloadScanTest, ErrorsSayWhatAndWhere) {
  // Byte 0 is graph's tag, 1 its length, 2 initializer's tag, 3 its length.
  EXPECT_THAT(ScanPayloads("\x3a\x05\x2a\x40xyz"),
              StatusIs(kInvalid,
                       "truncated at byte 4: field "
                       "graph.initializer claims 64 bytes, 3 are "
                       "left"));
  EXPECT_THAT(ScanPayloads("\x3a\x64xyz"),
              StatusIs(kInvalid,
                       "truncated at byte 2: field graph claims 100 "
                       "bytes, 3 are left"));
  EXPECT_THAT(ScanPayloads(Field(7, Field(1, "\x0b"))),
              StatusIs(kInvalid,
                       AllOf(HasSubstr("byte 4"), HasSubstr("graph.node.input"),
                             HasSubstr("group"))));
  EXPECT_THAT(ScanPayloads(Field(7, "\x28\x01")),
              StatusIs(kInvalid, AllOf(HasSubstr("byte 2"),
                                       HasSubstr("field graph.initializer has "
                                                 "wire type 0, expected 2"))));
  EXPECT_THAT(ScanPayloads(Field(7, std::string("\x00", 1))),
              StatusIs(kInvalid, HasSubstr("invalid number")));
  EXPECT_THAT(ScanPayloads(Field(7, "\x08\xff")),
              StatusIs(kInvalid, HasSubstr("has wire type 0, expected 2")));
  EXPECT_THAT(ScanPayloads(Field(7, Field(5, "\x10\xff"))),
              StatusIs(kInvalid, HasSubstr("ends inside a number")));
  EXPECT_THAT(ScanPayloads(Field(7, "\xfa\xff\xff\xff\xff\xff")),
              StatusIs(kInvalid, HasSubstr("tag of more than 5 bytes")));
  EXPECT_THAT(ScanPayloads(Field(7, Field(5, Field(4, "12345")))),
              StatusIs(kInvalid, HasSubstr("float_data has 5 bytes")));
  EXPECT_THAT(ScanPayloads(Field(7, "") + Field(7, "")),
              StatusIs(kInvalid, HasSubstr("field graph occurs twice")));
  EXPECT_THAT(ScanPayloads(std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16)),
              StatusIs(kInvalid, HasSubstr("not an ONNX file")));
}

TEST(PayloadScanTest, RefusesTheReservedField) {
  onnx::ModelProto model = EmptyModel();
  auto* tensor = model.mutable_graph()->add_initializer();
  SetMarker(0, tensor);
  EXPECT_THAT(ScanPayloads(model.SerializeAsString()),
              StatusIs(kInvalid, HasSubstr("reserves")));
  ClearMarker(tensor);
  tensor->GetReflection()->MutableUnknownFields(tensor)->AddLengthDelimited(
      static_cast<int>(kMarkerField), "x");
  EXPECT_THAT(ScanPayloads(model.SerializeAsString()),
              StatusIs(kInvalid, HasSubstr("reserves")));
}

TEST(PayloadScanTest, LimitsTheNestingOfSubgraphs) {
  std::string graph = Field(2, "innermost");
  for (int depth = 1; depth <= 10'000; ++depth) {
    // attribute.g of a node of the graph around it
    graph = Field(1, Field(5, Field(6, graph)));
    const std::string file = Field(7, graph);
    if (depth == kMaxNestedGraphs) {
      EXPECT_THAT(ScanPayloads(file), IsOk());
    }
    if (depth == kMaxNestedGraphs + 1 || depth == 10'000) {
      EXPECT_THAT(ScanPayloads(file),
                  StatusIs(kInvalid, HasSubstr("nested more than 32 deep")));
    }
  }
}

TEST(PayloadScanTest, LimitsTheNestingOfTypes) {
  std::string type;
  for (int depth = 0; depth < 2'000; ++depth) type = Field(4, Field(1, type));
  EXPECT_THAT(ScanPayloads(Field(7, Field(11, Field(2, type)))),
              StatusIs(kInvalid, HasSubstr("messages deep")));
}

TEST(PayloadSpliceTest, RefusesAMarkerWithoutPayload) {
  onnx::ModelProto model = EmptyModel();
  SetMarker(3, model.mutable_graph()->add_initializer());
  EXPECT_THAT(SplicePayloads(model.SerializeAsString(), {}), Not(IsOk()));
}

TEST(FindPayloadTest, FindsTheOneOrNone) {
  const std::vector<Payload> payloads = {{9, "a"}, {4, "b"}};
  onnx::TensorProto tensor;
  auto none = FindPayload(tensor, payloads);
  ASSERT_THAT(none, IsOk());
  EXPECT_EQ(*none, nullptr);
  EXPECT_FALSE(HasMarker(tensor));
  SetMarker(1, &tensor);
  EXPECT_TRUE(HasMarker(tensor));
  EXPECT_EQ(*FindPayload(tensor, payloads), &payloads[1]);
  SetMarker(0, &tensor);
  EXPECT_THAT(FindPayload(tensor, payloads),
              StatusIs(_, HasSubstr("several fields")));
  ClearMarker(&tensor);
  SetMarker(2, &tensor);
  EXPECT_THAT(FindPayload(tensor, payloads), StatusIs(_, HasSubstr("source")));
}

}  // namespace
}  // namespace onnx_memopt::io
