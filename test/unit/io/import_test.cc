// What the reader makes of names, weights and structure, and what it refuses.

#include "onnx_memopt/io/import.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/status_matchers.h"
#include "unit/io/import_text.h"

namespace onnx_memopt::io {
namespace {

using ::onnx_memopt::testing::Imported;
using ::onnx_memopt::testing::ImportModel;
using ::onnx_memopt::testing::ImportText;
using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::ParseText;
using ::onnx_memopt::testing::StatusIs;
using ::testing::HasSubstr;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

void ExpectRefused(const std::string& text, const std::string& message) {
  EXPECT_THAT(ImportModel(ParseText(text)).status,
              StatusIs(kInvalid, HasSubstr(message)))
      << text;
}

TEST(ImportTest, NamesTheNodeAndTheTensorOfBadNames) {
  ExpectRefused("g (float[1] x) => (float[1] y) { y = Add(x, ghost) }",
                "node \"y\" (Add): input \"ghost\" is not defined anywhere");
  ExpectRefused("g (float[1] x) => (float[1] y) { y = Exp(x) y = Neg(x) }",
                "node \"y\" (Neg): tensor \"y\" is defined twice");
  ExpectRefused("g (float[1] x, float[1] x) => (float[1] y) { y = Exp(x) }",
                "graph input: tensor \"x\" is defined twice");
  ExpectRefused(
      "g (float[1] x) => (float[1] y) <float[1] w = {1}, float[1] w = {1}>"
      "{ y = Add(x, w) }",
      "initializer: tensor \"w\" is defined twice");
  ExpectRefused("g (float[1] x) => (float[1] nobody) { y = Exp(x) }",
                "output \"nobody\" of graph \"g\" is not produced by any node");
}

TEST(ImportTest, SubgraphsSeeOuterNamesAndHideTheirOwn) {
  const Imported m = ImportText(R"(
    g (float[2] x, bool c) => (float[2] y) {
      outer = Exp(x)
      y = If (c) <then_branch = t () => (float[2] a) { a = Neg(outer) },
                  else_branch = e () => (float[2] a) { a = Relu(outer) }>
    })");
  const ir::Node& node =
      m.graph.node(m.graph.block(ir::kMainBlock).nodes.back());
  ASSERT_EQ(node.blocks.size(), 2u);
  EXPECT_EQ(m.graph.block(node.blocks[0]).attribute_name, "then_branch");
  EXPECT_NE(m.graph.block(node.blocks[0]).results[0],
            m.graph.block(node.blocks[1]).results[0]);
  ExpectRefused(R"(
    g (float[2] x, bool c) => (float[2] z) {
      y = If (c) <then_branch = t () => (float[2] a) { a = Neg(x) },
                  else_branch = e () => (float[2] b) { b = Relu(x) }>
      z = Exp(a)
    })",
                "input \"a\" is not defined anywhere");
}

TEST(ImportTest, FunctionsSeeOnlyTheirOwnNames) {
  ExpectRefused(R"(
    g (float[2] x) => (float[2] y) { y = local.f (x) }
    <domain: "local", opset_import: ["" : 18]>
    f (a) => (b) { b = Add(a, x) })",
                "input \"x\" is not defined anywhere");
  ExpectRefused(R"(
    g (float[2] x) => (float[2] y) { y = local.f (x, x) }
    <domain: "local", opset_import: ["" : 18]>
    f (a) => (b) { b = Exp(a) })",
                "has 2 inputs and 1 outputs; function \"f\" takes 1 and gives "
                "1");
  ExpectRefused(R"(
    g (float[2] x) => (float[2] y) { y = local.f (x) }
    <domain: "local", opset_import: ["" : 18, "local" : 1]>
    f (a) => (b) { b = local.f (a) })",
                "function \"f\" calls itself");
  ExpectRefused(R"(
    g (float[2] x) => (float[2] y) { y = local.f (x) }
    <domain: "local", opset_import: ["" : 18]> f (a) => (b) { b = Exp(a) }
    <domain: "local", opset_import: ["" : 18]> f (a) => (b) { b = Neg(a) })",
                "function \"local.f\" is defined twice");
}

TEST(ImportTest, CallsAreInlinedWithTheCallersValues) {
  const Imported m = ImportText(R"(
    g (float[2] x) => (float[2] y, float[2] same) {
      y, same = local.outer (x)
    }
    <domain: "local", opset_import: ["" : 18, "local" : 1]>
    outer (a) => (c, a) { b = local.inner (a) c = Neg(b) }
    <domain: "local", opset_import: ["" : 18]>
    inner (a) => (b) { b = Exp(a) })");
  const ir::Node& call = m.graph.node(m.graph.block(ir::kMainBlock).nodes[0]);
  EXPECT_TRUE(call.is_call);
  const ir::Block& body = m.graph.block(call.blocks[0]);
  EXPECT_EQ(body.kind, ir::BlockKind::kCallBody);
  // inner, Neg, and an Identity for the input that is given back.
  ASSERT_EQ(body.nodes.size(), 3u);
  EXPECT_EQ(m.graph.value(call.results[0]).producer,
            m.graph.block(ir::kMainBlock).nodes[0]);
  EXPECT_THAT(Verify(m.graph), IsOk());
}

TEST(ImportTest, ExpansionOfFunctionsIsBounded) {
  // Each level calls the next ten times: 10^9 nodes from 2 KB.
  std::string text = "g (float[2] x) => (float[2] y) { y = local.f0 (x) }\n";
  for (int i = 0; i < 9; ++i) {
    absl::StrAppend(&text,
                    "<domain: \"local\", opset_import: [\"\" : 18, \"local\" "
                    ": 1]> f",
                    i, " (v0) => (v10) {");
    for (int k = 0; k < 10; ++k) {
      absl::StrAppend(&text, " v", k + 1, " = local.f", i + 1, " (v", k, ")");
    }
    absl::StrAppend(&text, "}\n");
  }
  absl::StrAppend(&text,
                  "<domain: \"local\", opset_import: [\"\" : 18]> f9 (a) => "
                  "(b) { b = Exp(a) }");
  ExpectRefused(text, "the model's functions expand to more than");
}

TEST(ImportTest, GraphsNestedTooDeepAreRefused) {
  std::string nodes = "z0 = Exp(x)\n";
  for (int i = 1; i <= 70; ++i) {
    nodes = absl::StrCat("z", i, " = If (c) <then_branch = t", i,
                         " () => (float[2] z", i - 1, ") {", nodes, "}>\n");
  }
  EXPECT_THAT(ImportModel(ParseText(absl::StrCat(
                              "g (float[2] x, bool c) => (float[2] z70) {",
                              nodes, "}")))
                  .status,
              StatusIs(kInvalid, HasSubstr("nested")));
}

TEST(ImportTest, CallsNestedTooDeepAreRefused) {
  std::string text = "g (float[2] x) => (float[2] y) { y = local.f0 (x) }\n";
  for (int i = 0; i < 70; ++i) {
    absl::StrAppend(&text,
                    "<domain: \"local\", opset_import: [\"\" : 18, \"local\" "
                    ": 1]> f",
                    i, " (a) => (b) { b = local.f", i + 1, " (a) }\n");
  }
  absl::StrAppend(&text,
                  "<domain: \"local\", opset_import: [\"\" : 18]> f70 (a) => "
                  "(b) { b = Exp(a) }");
  ExpectRefused(text, "graphs and calls are nested deeper than 64");
}

TEST(ImportTest, ConstantsOfEveryFormHaveContents) {
  const Imported m = ImportText(R"(
    g () => (int64[2] a) {
      a = Constant <value_ints = [3, 4]> ()
      b = Constant <value_int = 5> ()
      c = Constant <value_floats = [0.5]> ()
      d = Constant <value_float = 2.0> ()
      e = Constant <value = int64[2] {6, 7}> ()
      f = Constant <value_string = "text"> ()
    })");
  EXPECT_EQ(m.Type("a"), "int64[2]");
  EXPECT_EQ(m.Type("b"), "int64[]");
  EXPECT_EQ(m.Type("c"), "float[1]");
  EXPECT_EQ(m.Type("d"), "float[]");
  EXPECT_EQ(m.Type("e"), "int64[2]");
  EXPECT_EQ(m.Type("f"), "string[]");
  const auto contents = m.graph.value(m.Find("a")).contents;
  ASSERT_NE(contents, nullptr);
  EXPECT_EQ(contents->elements[1].integer->constant(), 4);
  EXPECT_NE(m.graph.value(m.Find("e")).weight, ir::kNoWeight);
}

TEST(ImportTest, LeftOutOperandsAndResultsStayLeftOut) {
  const Imported m = ImportText(R"(
    g (float[4] x) => (float[2] b) <float limit = {1}> {
      t = Clip(x, , limit)
      , b = Split <num_outputs = 2> (t)
    })");
  const auto& nodes = m.graph.block(ir::kMainBlock).nodes;
  EXPECT_EQ(m.graph.node(nodes[0]).operands[1], ir::kNoValue);
  EXPECT_EQ(m.graph.node(nodes[1]).results[0], ir::kNoValue);
  EXPECT_EQ(m.Type("b"), "float[2]");
}

}  // namespace
}  // namespace onnx_memopt::io
