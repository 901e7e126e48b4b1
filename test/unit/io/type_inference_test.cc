// Types through control flow, functions and chains of shape arithmetic.

#include <cstdint>
#include <functional>
#include <memory>
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(TypeInferenceTest, IfJoinsItsBranches) {
  const Imported m = ImportText(R"(
    g (float[2, n] x, bool c) => (float[2, n] same, float[2, m] differs) {
      same, differs = If (c) <
        then_branch = t () => (float[2, n] a, float[2, n] b)
          { a = Relu(x) b = Neg(x) },
        else_branch = e () => (float[2, n] p, float[2, k] q)
          { p = Exp(x) q = Concat <axis = 1> (x, x) }>
    })");
  EXPECT_EQ(m.Type("same"), "float[2, n]");
  EXPECT_EQ(m.Type("q"), "float[2, 2*n]");
  EXPECT_EQ(m.Type("differs"), "float[2, ?]");
}

TEST(TypeInferenceTest, IfWithAKnownConditionIsTheBranchThatRuns) {
  // The branches differ in rank, and in contents that a Reshape reads.
  const auto text = [](int condition) {
    return absl::StrCat(R"(
    g (float[2, n] x) => (float[a] y, float[b] z)
    <bool c = {)",
                        condition, R"(}> {
      y, target = If (c) <
        then_branch = t () => (float[p] flat, int64[1] one) {
          one = Constant <value = int64[1] {-1}> ()
          flat = Reshape(x, one)
        },
        else_branch = e () => (float[2, n] same, int64[2] two) {
          two = Constant <value = int64[2] {1, -1}> ()
          same = Relu(x)
        }>
      z = Reshape(x, target)
    })");
  };
  const Imported taken = ImportText(text(1));
  EXPECT_EQ(taken.Type("y"), "float[2*n]");
  EXPECT_EQ(taken.Type("z"), "float[2*n]");
  EXPECT_EQ(taken.Type("same"), "float[2, n]");
  const Imported other = ImportText(text(0));
  EXPECT_EQ(other.Type("y"), "float[2, n]");
  EXPECT_EQ(other.Type("z"), "float[1, 2*n]");
  EXPECT_EQ(other.Type("flat"), "float[2*n]");
}

TEST(TypeInferenceTest, LoopWithAKnownTripCountStacksItsRows) {
  const Imported m = ImportText(R"(
    g (float[4] x) => (float[4] last, float[t, 4] rows)
    <int64 trips = {7}, bool yes = {1}> {
      last, rows = Loop (trips, yes, x) <body = b
        (int64 i, bool go, float[4] carried)
          => (bool again, float[4] next, float[4] row) {
          again = Identity(go)
          next = Relu(carried)
          row = Neg(next)
        }>
    })");
  EXPECT_EQ(m.Type("last"), "float[4]");
  EXPECT_EQ(m.Type("rows"), "float[7, 4]");
  EXPECT_EQ(m.Type("i"), "int64[]");
  EXPECT_EQ(m.Type("go"), "bool[]");
}

TEST(TypeInferenceTest, LoopThatMayStopEarlyHasUnknownRows) {
  const Imported m = ImportText(R"(
    g (float[4] x) => (float[4] last, float[t, 4] rows)
    <int64 trips = {7}, bool yes = {1}> {
      last, rows = Loop (trips, yes, x) <body = b
        (int64 i, bool go, float[4] carried)
          => (bool again, float[4] next, float[4] row) {
          limit = Constant <value = int64 {3}> ()
          again = Less(i, limit)
          next = Relu(carried)
          row = Neg(next)
        }>
    })");
  EXPECT_EQ(m.Type("rows"), "float[?, 4]");
}

TEST(TypeInferenceTest, CarriedShapeThatChangesBecomesUnknown) {
  const Imported m = ImportText(R"(
    g (float[2, 3] x, int64 trips) => (float[a, b] grown, float[2, 3] kept)
    <bool yes = {1}> {
      grown, kept = Loop (trips, yes, x, x) <body = b
        (int64 i, bool go, float[] grows, float[] stays)
          => (bool again, float[] longer, float[] same) {
          again = Identity(go)
          longer = Concat <axis = 0> (grows, x)
          same = Relu(stays)
        }>
    })");
  EXPECT_EQ(m.Type("kept"), "float[2, 3]");
  EXPECT_EQ(m.Type("grown"), "float[?, 3]");
  EXPECT_EQ(m.Type("longer"), "float[?, 3]");
}

// The change reaches "a" only in the sixth trip, after the rounds that are
// walked: nothing may be claimed of it, in the body either.
TEST(TypeInferenceTest, ShapesThatTakeLongToSettleAreGivenUp) {
  const Imported m = ImportText(R"(
    g (float[2] x, int64 trips) => (float[n] last) <bool yes = {1}> {
      last, l2, l3, l4, l5, l6 = Loop (trips, yes, x, x, x, x, x, x)
        <body = body
        (int64 i, bool go, float[] a, float[] b, float[] c, float[] d,
         float[] e, float[] f)
          => (bool again, float[] a2, float[] b2, float[] c2, float[] d2,
              float[] e2, float[] f2) {
          again = Identity(go)
          a2 = Relu(b)
          b2 = Relu(c)
          c2 = Relu(d)
          d2 = Relu(e)
          e2 = Relu(f)
          f2 = Concat <axis = 0> (f, x)
        }>
    })");
  for (const char* name : {"last", "a", "a2", "b", "f2"}) {
    EXPECT_THAT(m.Type(name), ::testing::AnyOf("float[?]", "float[...]"))
        << name;
  }
}

TEST(TypeInferenceTest, ScanTakesAndStacksAlongItsAxes) {
  const Imported m = ImportText(R"(
    g (float[8] init, float[3, t, 8] xs) => (float[8] last, float[8, s, 3] all)
    <int64[1] axis = {0}> {
      last, all = Scan <num_scan_inputs = 1, scan_input_axes = [1],
        scan_output_axes = [-2], body = step
        (float[8] state, float[3, 8] slice)
          => (float[8] new_state, float[8, 3] out) {
          out = Transpose <perm = [1, 0]> (slice)
          sum = ReduceSum <keepdims = 0> (slice, axis)
          new_state = Add(state, sum)
        }> (init, xs)
    })");
  EXPECT_EQ(m.Type("slice"), "float[3, 8]");
  EXPECT_EQ(m.Type("new_state"), "float[8]");
  EXPECT_EQ(m.Type("last"), "float[8]");
  EXPECT_EQ(m.Type("all"), "float[8, t, 3]");
}

TEST(TypeInferenceTest, SequenceMapGivesASequence) {
  const Imported m = ImportText(R"(
    g (float[2, 3] x) => (seq(float[]) ys) {
      s = SequenceConstruct(x, x)
      ys = SequenceMap (s) <body = b (float[] e) => (float[] r)
        { r = Transpose <perm = [1, 0]> (e) }>
    })");
  EXPECT_EQ(m.Type("e"), "float[2, 3]");
  EXPECT_EQ(m.Type("r"), "float[3, 2]");
  EXPECT_EQ(m.Type("ys"), "seq(float[3, 2])");
}

TEST(TypeInferenceTest, ShapeGatherConcatReshape) {
  const char* const text = R"(
    g (float[batch, seq, 8] x) => (float[batch, heads, seq, 4] q)
    <int64[2] tail = {2, 4}, int64[1] axis = {0}> {
      shape = Shape(x)
      zero = Constant <value = int64 {0}> ()
      one = Constant <value = int64 {1}> ()
      b = Gather(shape, zero)
      s = Gather(shape, one)
      bu = Unsqueeze(b, axis)
      su = Unsqueeze(s, axis)
      target = Concat <axis = 0> (bu, su, tail)
      r = Reshape(x, target)
      q = Transpose <perm = [0, 2, 1, 3]> (r)
    })";
  const Imported symbolic = ImportText(text);
  EXPECT_EQ(symbolic.Type("r"), "float[batch, seq, 2, 4]");
  EXPECT_EQ(symbolic.Type("q"), "float[batch, 2, seq, 4]");
  EXPECT_THAT(symbolic.graph.symbols, ElementsAre("batch", "seq"));
  const Imported bound = ImportText(text, {.dims = {{"batch", 3}}});
  EXPECT_EQ(bound.Type("q"), "float[3, 2, seq, 4]");
  EXPECT_THAT(bound.graph.symbols, ElementsAre("seq"));
}

TEST(TypeInferenceTest, FunctionBodiesHaveTypesPerCall) {
  const Imported m = ImportText(R"(
    g (float[2] x, int64[5] i) => (float[4] y, int64[10] j) {
      y = local.twice (x)
      j = local.twice (i)
    }
    <domain: "local", opset_import: ["" : 18]>
    twice (a) => (b) { b = Concat <axis = 0> (a, a) })");
  EXPECT_EQ(m.Type("y"), "float[4]");
  EXPECT_EQ(m.Type("j"), "int64[10]");
}

TEST(TypeInferenceTest, AttributeReferencesTakeTheCallersValue) {
  const Imported m = ImportText(R"(
    g (float[2, 3] x) => (float[3, 2] y, float[2, 3] z) {
      y = local.turn <order = [1, 0]> (x)
      z = local.turn <order = [0, 1]> (x)
    }
    <domain: "local", opset_import: ["" : 18]>
    turn <order> (a) => (b) { b = Transpose <perm: ints = @order> (a) })");
  EXPECT_EQ(m.Type("y"), "float[3, 2]");
  EXPECT_EQ(m.Type("z"), "float[2, 3]");
}

TEST(TypeInferenceTest, ValueInfoThatLiesIsNotBelieved) {
  onnx::ModelProto model = ParseText(R"(
    g (float[2, n] x) => (float[2, n] y) { t = Relu(x) y = Exp(t) })");
  auto* info = model.mutable_graph()->add_value_info();
  info->set_name("t");
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_value(9);
  type->mutable_shape()->add_dim()->set_dim_value(9);
  const Imported m = ImportModel(model);
  ASSERT_THAT(m.status, IsOk());
  EXPECT_EQ(m.Type("t"), "float[2, n]");
  EXPECT_THAT(m.graph.warnings,
              ElementsAre("the file says that \"t\" is float[9, 9], but "
                          "float[2, n] follows"));
}

TEST(TypeInferenceTest, ValueInfoFillsWhatCannotBeInferred) {
  onnx::ModelProto model = ParseText(R"(
    g (float[2, n] x) => (float[2, n] y) { t = local.Mystery(x) y = Exp(t) })");
  auto* info = model.mutable_graph()->add_value_info();
  info->set_name("t");
  auto* type = info->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_param("n");
  type->mutable_shape()->add_dim()->set_dim_param("of nobody");
  const Imported m = ImportModel(model);
  ASSERT_THAT(m.status, IsOk());
  // A name that no input has cannot be bound: it is unknown.
  EXPECT_EQ(m.Type("t"), "float[n, ?]");
  EXPECT_THAT(m.graph.warnings, IsEmpty());
}

onnx::ModelProto ModelWithInputDims(
    const std::function<void(onnx::TensorShapeProto*)>& set) {
  onnx::ModelProto model =
      ParseText("g (float[1] x) => (float[1] y) { y = Relu(x) }");
  for (auto* infos : {model.mutable_graph()->mutable_input(),
                      model.mutable_graph()->mutable_output()}) {
    infos->Mutable(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  }
  set(model.mutable_graph()
          ->mutable_input(0)
          ->mutable_type()
          ->mutable_tensor_type()
          ->mutable_shape());
  return model;
}

TEST(TypeInferenceTest, UnnamedInputDimsGetANameOfTheirOwn) {
  const onnx::ModelProto model = ModelWithInputDims([](auto* shape) {
    shape->add_dim();
    shape->add_dim()->set_dim_value(3);
    shape->add_dim();
  });
  const Imported m = ImportModel(model);
  EXPECT_EQ(m.Type("y"), "float[x[0], 3, x[2]]");
  EXPECT_THAT(m.graph.symbols, ElementsAre("x[0]", "x[2]"));
  EXPECT_EQ(ImportModel(model, {.dims = {{"x[0]", 5}}}).Type("y"),
            "float[5, 3, x[2]]");
  EXPECT_EQ(ImportModel(model, {.input_shapes = {{"x", {1, 2, 3}}}}).Type("y"),
            "float[1, 2, 3]");
}

TEST(TypeInferenceTest, SizesOfZeroAndMinusOneAreDynamic) {
  const Imported m = ImportModel(ModelWithInputDims([](auto* shape) {
    shape->add_dim()->set_dim_value(0);
    shape->add_dim()->set_dim_value(-1);
  }));
  EXPECT_EQ(m.Type("y"), "float[x[0], x[1]]");
  EXPECT_THAT(m.graph.warnings,
              ElementsAre("input \"x\": dimension 0 is stored as 0; read as "
                          "dynamic",
                          "input \"x\": dimension 1 is stored as -1; read as "
                          "dynamic"));
}

TEST(TypeInferenceTest, RefusesNegativeAndHugeSizes) {
  EXPECT_THAT(
      ImportModel(ModelWithInputDims([](auto* shape) {
        shape->add_dim()->set_dim_value(-7);
      })).status,
      StatusIs(kInvalid, HasSubstr("input \"x\": dimension 0 is -7; expected a "
                                   "positive size")));
  EXPECT_THAT(ImportModel(ModelWithInputDims([](auto* shape) {
                shape->add_dim()->set_dim_value(INT64_MAX);
                shape->add_dim()->set_dim_value(8);
              })).status,
              StatusIs(kInvalid, HasSubstr("has more than 2^63 bytes")));
}

TEST(TypeInferenceTest, OldModelsListInitializersAsInputs) {
  onnx::ModelProto model = ParseText(R"(
    g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}>
      { y = Add(x, w) })");
  // They had to be listed before version 4; from then on a caller may replace
  // those that are.
  for (const int version : {3, 4}) {
    SCOPED_TRACE(version);
    model.set_ir_version(version);
    const Imported m = ImportModel(model);
    ASSERT_THAT(m.status, IsOk());
    const ir::Block& main = m.graph.block(ir::kMainBlock);
    EXPECT_EQ(main.params.size(), 1u);
    ASSERT_EQ(main.initializers.size(), 1u);
    const ir::Value& weight = m.graph.value(main.initializers[0]);
    EXPECT_EQ(weight.overridable, version >= 4);
    EXPECT_EQ(weight.kind, ir::ValueKind::kInitializer);
    EXPECT_EQ(m.Type("y"), "float[2]");
  }
}

TEST(NameInputShapeTest, ANamelessShapeIsThatOfTheOnlyInput) {
  // An initializer among the inputs is none.
  const Imported one = ImportText(
      "g (float[n] x, float[2] w) => (float[n] y) <float[2] w = {1, 2}>"
      "{ y = Mul(x, w) }");
  ImportOptions options = {.input_shapes = {{"", {5}}}};
  EXPECT_THAT(NameInputShape(*one.model, &options), IsOk());
  EXPECT_EQ(options.input_shapes.size(), 1u);
  EXPECT_THAT(options.input_shapes["x"], ElementsAre(5));
  // With its name alone there is nothing to do.
  EXPECT_THAT(NameInputShape(*one.model, &options), IsOk());
  EXPECT_THAT(options.input_shapes["x"], ElementsAre(5));
  options.input_shapes[""] = {6};
  EXPECT_THAT(NameInputShape(*one.model, &options),
              StatusIs(kInvalid, HasSubstr("two shapes are given for input "
                                           "\"x\"")));
}

TEST(NameInputShapeTest, WithSeveralInputsOrNoneItIsAnError) {
  const Imported two = ImportText(
      "g (float[n] x, float[n] z) => (float[n] y) { y = Mul(x, z) }");
  ImportOptions options = {.input_shapes = {{"", {5}}}};
  EXPECT_THAT(NameInputShape(*two.model, &options),
              StatusIs(kInvalid, HasSubstr("it has x, z")));
  const Imported none = ImportText(
      "g () => (float[2] y) { y = Constant <value = float[2] {1, 2}>"
      " () }");
  EXPECT_THAT(NameInputShape(*none.model, &options),
              StatusIs(kInvalid, HasSubstr("it has none")));
}

TEST(CheckImportOptionsTest, NamesWhatExists) {
  const Imported m = ImportText(
      "g (float[batch, 3] x, float[seq] s) => (float[batch, 3] y)"
      "{ y = Relu(x) }");
  const auto check = [&](const ImportOptions& options) {
    return CheckImportOptions(*m.model, options);
  };
  EXPECT_THAT(check({.dims = {{"batch", 2}}}), IsOk());
  EXPECT_THAT(check({.dims = {{"width", 2}}}),
              StatusIs(kInvalid, HasSubstr("no dimension \"width\"; it has "
                                           "batch, seq")));
  EXPECT_THAT(check({.dims = {{"batch", 0}}}),
              StatusIs(kInvalid, HasSubstr("at least 1, not 0")));
  EXPECT_THAT(check({.input_shapes = {{"z", {1}}}}),
              StatusIs(kInvalid, HasSubstr("no input \"z\"; it has x, s")));
  EXPECT_THAT(check({.input_shapes = {{"x", {1}}}}),
              StatusIs(kInvalid, HasSubstr("has 2 dimensions, not 1")));
  EXPECT_THAT(check({.input_shapes = {{"x", {1, -3}}}}),
              StatusIs(kInvalid, HasSubstr("at least 1, not -3")));
}

// ONNX's own inference does not survive such equations.
TEST(TypeInferenceTest, EinsumWithLabelsThatAreNoLetters) {
  onnx::ModelProto model = ParseText(R"(
    g (float[5, 2, 3] x, float[5, 3, 4] w) => (float[5, 2, 4] y)
      { y = Einsum <equation = "bij,bjk -> bik"> (x, w) })");
  EXPECT_EQ(ImportModel(model).Type("y"), "float[5, 2, 4]");
  auto* node = model.mutable_graph()->mutable_node(0);
  for (const char* equation :
       {"bij,\xb1"
        "bjk -> bik",
        "\xff,\x01->\x80", "..", "->", "a....,b->...", "{}|~,@[->z"}) {
    node->mutable_attribute(0)->set_s(equation);
    EXPECT_THAT(ImportModel(model).status, IsOk());
  }
}

// Each level's carried values take a few rounds to settle, and each round walks
// all levels below: without a bound that is 5^depth walks.
TEST(TypeInferenceTest, DeeplyNestedLoopsTakeNoLongTime) {
  constexpr int kDepth = 25;
  std::string nodes = "z0 = Concat <axis = 0> (c0, c0)\n";
  for (int i = 1; i <= kDepth; ++i) {
    nodes = absl::StrCat("z", i, " = Loop (trips, yes, c", i, ") <body = b", i,
                         " (int64 i", i, ", bool g", i, ", float[] c", i - 1,
                         ") => (bool a", i, ", float[] z", i - 1, ") { a", i,
                         " = Identity(g", i, ")\n", nodes, "}>\n");
  }
  const Imported m = ImportText(
      absl::StrCat("g (float[2] c", kDepth, ", int64 trips) => (float[] z",
                   kDepth, ") <bool yes = {1}> {", nodes, "}"));
  EXPECT_THAT(m.Type(absl::StrCat("z", kDepth)),
              ::testing::AnyOf("float[?]", "?", "float[...]"));
}

}  // namespace
}  // namespace onnx_memopt::io
