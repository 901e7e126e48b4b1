// Compares the op table with the op schemas of the ONNX library that is linked,
// and with docs/ops.md, which lists the table. To write that file anew:
//
//   ONNX_MEMOPT_UPDATE_DOCS=1 build/release/test/op_coverage_test
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx/defs/schema.h"
#include "onnx_memopt/ir/flops.h"
#include "onnx_memopt/ir/flow_rules.h"
#include "onnx_memopt/ir/op_info.h"
#include "onnx_memopt/ir/shape_rules.h"
#include "support/docs_page.h"

namespace onnx_memopt::ir {
namespace {

constexpr char kDocs[] = "docs/ops.md";

using OpName = std::pair<std::string, std::string>;

// Rows of domain "" that ONNX does not define, but ONNX Runtime does.
const std::set<std::string>& RuntimeOps() {
  static const auto& ops =
      *new std::set<std::string>{"Affine",
                                 "ImageScaler",
                                 "MemcpyFromHost",
                                 "MemcpyToHost",
                                 "ParametricSoftplus",
                                 "ScaledTanh",
                                 "SimplifiedLayerNormalization"};
  return ops;
}

std::set<OpName> OnnxOps() {
  std::set<OpName> ops;
  for (const onnx::OpSchema& schema :
       onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
    ops.insert({schema.domain(), schema.Name()});
  }
  return ops;
}

TEST(OpCoverageTest, EachOnnxOpHasARow) {
  const std::set<OpName> ops = OnnxOps();
  EXPECT_GE(ops.size(), 200u) << "the ONNX library registers its schemas";
  for (const auto& [domain, name] : ops) {
    EXPECT_TRUE(IsKnown(FindOpInfo(domain, name)))
        << "no row for " << domain << ":" << name;
  }
}

TEST(OpCoverageTest, EachRowOfOnnxNamesAnOp) {
  const std::set<OpName> ops = OnnxOps();
  for (const OpInfo& row : AllOpInfo()) {
    const OpName name(row.domain, row.name);
    if (name.first.substr(0, 13) == "com.microsoft") continue;
    const bool runtime_op =
        name.first.empty() && RuntimeOps().count(name.second) == 1;
    EXPECT_NE(ops.count(name) == 1, runtime_op)
        << name.first << ":" << name.second;
  }
}

// A fact about operand or result i needs an op that has it.
TEST(OpCoverageTest, MasksFitTheSchemas) {
  const auto bits = [](int count) {
    return count >= 31 ? UINT32_MAX : (uint32_t{1} << count) - 1;
  };
  int num_checked = 0;
  for (const OpInfo& row : AllOpInfo()) {
    const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(
        std::string(row.name), std::string(row.domain));
    if (schema == nullptr) continue;
    ++num_checked;
    // All of them, however many there are.
    const auto fits = [&](uint32_t mask, int count) {
      return mask == UINT32_MAX || (mask & ~bits(count)) == 0;
    };
    EXPECT_TRUE(fits(row.saved.operands, schema->max_input())) << row.name;
    EXPECT_TRUE(fits(row.saved.results, schema->max_output())) << row.name;
    EXPECT_TRUE(fits(row.in_place, schema->max_input())) << row.name;
    EXPECT_LT(row.view_of, schema->max_input()) << row.name;
  }
  EXPECT_GE(num_checked, 200);
}

std::string TensorOf(ElementType element) {
  return absl::StrCat("tensor(", std::string(Name(element)), ")");
}

// Whether a schema takes `half` wherever it takes float32, but for the operands
// and results of the row that are float32 in any case; nullopt where it takes
// no float32.
std::optional<bool> SchemaTakes(const onnx::OpSchema& schema, const OpInfo& row,
                                ElementType half) {
  const std::string single = TensorOf(ElementType::kFloat);
  std::optional<bool> takes;
  const auto check = [&](const auto& parameters, uint32_t kept) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const onnx::DataTypeSet& types = parameters[i].GetTypes();
      const auto has = [&](const std::string& name) {
        return std::any_of(types.begin(), types.end(),
                           [&](const auto* type) { return *type == name; });
      };
      if (!has(single) || (kept >> i & 1U) != 0) continue;
      takes = takes.value_or(true) && has(TensorOf(half));
    }
  };
  check(schema.inputs(), row.float32_operands);
  check(schema.outputs(), row.float32_results);
  return takes;
}

// Ops of ONNX's own domain exactly, in each of their versions; of others no
// more than the schema takes.
TEST(OpCoverageTest, SixteenBitTypesAreThoseOfTheSchemas) {
  int num_checked = 0;
  for (const onnx::OpSchema& schema :
       onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
    const OpInfo& row = FindOpInfo(schema.domain(), schema.Name());
    for (const ElementType half :
         {ElementType::kFloat16, ElementType::kBfloat16}) {
      const std::optional<bool> takes = SchemaTakes(schema, row, half);
      if (!takes) continue;
      ++num_checked;
      const bool claimed = Takes(row, half, schema.since_version());
      EXPECT_TRUE(schema.domain().empty() ? claimed == *takes
                                          : !claimed || *takes)
          << schema.Name() << "-" << schema.since_version() << ", "
          << std::string(Name(half)) << ": the schema "
          << (*takes ? "takes it" : "does not take it");
    }
  }
  EXPECT_GE(num_checked, 900);
}

TEST(OpCoverageTest, OptionalResultsAreThoseOfTheSchemas) {
  int num_checked = 0;
  for (const onnx::OpSchema& schema :
       onnx::OpSchemaRegistry::get_all_schemas()) {
    const OpInfo& row = FindOpInfo(schema.domain(), schema.Name());
    uint32_t optional = 0;
    for (size_t i = 0; i < schema.outputs().size(); ++i) {
      if (schema.outputs()[i].GetOption() == onnx::OpSchema::Optional) {
        optional |= uint32_t{1} << i;
      }
    }
    EXPECT_EQ(row.optional_results, optional) << schema.Name();
    if (optional != 0) ++num_checked;
  }
  EXPECT_GE(num_checked, 10);
}

struct NamedShapeRule {
  ShapeRule rule;
  const char* name;
};
#define SHAPE_RULE(name) {&shape_rules::name, #name}
constexpr NamedShapeRule kShapeRules[] = {
    SHAPE_RULE(SameAsFirst),
    SHAPE_RULE(BroadcastFloat),
    SHAPE_RULE(Arithmetic),
    SHAPE_RULE(Comparison),
    SHAPE_RULE(UnaryArithmetic),
    SHAPE_RULE(Cast),
    SHAPE_RULE(CastLike),
    SHAPE_RULE(Where),
    SHAPE_RULE(BoolLikeFirst),
    SHAPE_RULE(Dropout),
    SHAPE_RULE(QuantizeLinear),
    SHAPE_RULE(DequantizeLinear),
    SHAPE_RULE(RandomLike),
    SHAPE_RULE(DynamicQuantizeLinear),
    SHAPE_RULE(ShapeOf),
    SHAPE_RULE(Size),
    SHAPE_RULE(Gather),
    SHAPE_RULE(GatherElements),
    SHAPE_RULE(GatherNd),
    SHAPE_RULE(Concat),
    SHAPE_RULE(Reshape),
    SHAPE_RULE(Flatten),
    SHAPE_RULE(Squeeze),
    SHAPE_RULE(Unsqueeze),
    SHAPE_RULE(Slice),
    SHAPE_RULE(Split),
    SHAPE_RULE(Transpose),
    SHAPE_RULE(Expand),
    SHAPE_RULE(Tile),
    SHAPE_RULE(Pad),
    SHAPE_RULE(ConstantOfShape),
    SHAPE_RULE(Range),
    SHAPE_RULE(OneHot),
    SHAPE_RULE(EyeLike),
    SHAPE_RULE(DepthToSpace),
    SHAPE_RULE(SpaceToDepth),
    SHAPE_RULE(Resize),
    SHAPE_RULE(MatMul),
    SHAPE_RULE(MatMulInteger),
    SHAPE_RULE(QLinearMatMul),
    SHAPE_RULE(Gemm),
    SHAPE_RULE(Conv),
    SHAPE_RULE(ConvInteger),
    SHAPE_RULE(QLinearConv),
    SHAPE_RULE(ConvTranspose),
    SHAPE_RULE(Pool),
    SHAPE_RULE(GlobalPool),
    SHAPE_RULE(Reduce),
    SHAPE_RULE(ArgReduce),
    SHAPE_RULE(TopK),
    SHAPE_RULE(BatchNormalization),
    SHAPE_RULE(LayerNormalization),
    SHAPE_RULE(Einsum),
    SHAPE_RULE(Recurrent),
    SHAPE_RULE(SequenceEmpty),
    SHAPE_RULE(SequenceLength),
    SHAPE_RULE(Attention),
    SHAPE_RULE(FusedMatMul),
    SHAPE_RULE(SkipLayerNormalization),
    SHAPE_RULE(NchwcReorderInput),
    SHAPE_RULE(NchwcReorderOutput),
    SHAPE_RULE(NchwcUpsample),
};
#undef SHAPE_RULE

std::string ShapeRuleName(ShapeRule rule) {
  if (rule == nullptr) return "";
  for (const NamedShapeRule& named : kShapeRules) {
    if (named.rule == rule) return named.name;
  }
  ADD_FAILURE() << "a shape rule has no name in this test";
  return "?";
}

struct NamedFlowRule {
  FlowRule rule;
  const char* name;
};
#define FLOW_RULE(name) {&flow_rules::name, #name}
constexpr NamedFlowRule kFlowRules[] = {
    FLOW_RULE(Elementwise),
    FLOW_RULE(CastLike),
    FLOW_RULE(Dropout),
    FLOW_RULE(QuantizeLinear),
    FLOW_RULE(MatMul),
    FLOW_RULE(MatMulInteger),
    FLOW_RULE(QLinearMatMul),
    FLOW_RULE(MatMulNBits),
    FLOW_RULE(FusedMatMul),
    FLOW_RULE(Gemm),
    FLOW_RULE(BatchOfMatrices),
    FLOW_RULE(Einsum),
    FLOW_RULE(Transpose),
    FLOW_RULE(Reshape),
    FLOW_RULE(Flatten),
    FLOW_RULE(Expand),
    FLOW_RULE(Tile),
    FLOW_RULE(Concat),
    FLOW_RULE(Split),
    FLOW_RULE(Slice),
    FLOW_RULE(Pad),
    FLOW_RULE(Trilu),
    FLOW_RULE(DepthToSpace),
    FLOW_RULE(Gather),
    FLOW_RULE(GatherElements),
    FLOW_RULE(GatherNd),
    FLOW_RULE(ScatterElements),
    FLOW_RULE(ScatterNd),
    FLOW_RULE(OneHot),
    FLOW_RULE(ReverseSequence),
    FLOW_RULE(GridSample),
    FLOW_RULE(RegionPool),
    FLOW_RULE(Reduce),
    FLOW_RULE(ArgReduce),
    FLOW_RULE(OtherAxes),
    FLOW_RULE(CumSum),
    FLOW_RULE(GlobalPool),
    FLOW_RULE(Softmax),
    FLOW_RULE(LayerNormalization),
    FLOW_RULE(SkipLayerNormalization),
    FLOW_RULE(InstanceNormalization),
    FLOW_RULE(GroupNormalization),
    FLOW_RULE(ChannelsLastGroupNorm),
    FLOW_RULE(BatchNormalization),
    FLOW_RULE(LocalResponse),
    FLOW_RULE(MeanVarianceNormalization),
    FLOW_RULE(Conv),
    FLOW_RULE(FusedConv),
    FLOW_RULE(ConvInteger),
    FLOW_RULE(QLinearConv),
    FLOW_RULE(ConvTranspose),
    FLOW_RULE(Pool),
    FLOW_RULE(Resize),
    FLOW_RULE(Recurrent),
    FLOW_RULE(Attention),
    FLOW_RULE(MultiHeadAttention),
    FLOW_RULE(GroupQueryAttention),
    FLOW_RULE(RotaryEmbedding),
};
#undef FLOW_RULE

std::string FlowRuleName(FlowRule rule) {
  if (rule == nullptr) return "";
  for (const NamedFlowRule& named : kFlowRules) {
    if (named.rule == rule) return named.name;
  }
  ADD_FAILURE() << "a flow rule has no name in this test";
  return "?";
}

struct NamedFlopsRule {
  FlopsRule rule;
  const char* name;
};
#define FLOPS_RULE(name) {&flops::name, #name}
constexpr NamedFlopsRule kFlopsRules[] = {
    FLOPS_RULE(Variadic),
    FLOPS_RULE(Mean),
    FLOPS_RULE(LocalResponse),
    FLOPS_RULE(Interpolation),
    FLOPS_RULE(MatMul),
    FLOPS_RULE(FusedMatMul),
    FLOPS_RULE(Gemm),
    FLOPS_RULE(FusedGemm),
    FLOPS_RULE(MatMulNBits),
    FLOPS_RULE(Inverse),
    FLOPS_RULE(Einsum),
    FLOPS_RULE(MixtureOfExperts),
    FLOPS_RULE(Conv),
    FLOPS_RULE(QLinearConv),
    FLOPS_RULE(FusedConv),
    FLOPS_RULE(ConvTranspose),
    FLOPS_RULE(CausalConv),
    FLOPS_RULE(Pool),
    FLOPS_RULE(Lstm),
    FLOPS_RULE(Gru),
    FLOPS_RULE(Rnn),
    FLOPS_RULE(Attention),
    FLOPS_RULE(ProjectedAttention),
    FLOPS_RULE(QuantizedProjectedAttention),
    FLOPS_RULE(MultiHeadAttention),
    FLOPS_RULE(GroupQueryAttention),
};
#undef FLOPS_RULE

// The rule at `n` if `rule` is PerResult<n> or PerOperand<n> for an n in
// kCounts, as text.
template <int64_t... kCounts>
std::string ScaledRuleName(FlopsRule rule,
                           std::integer_sequence<int64_t, kCounts...>) {
  std::string name;
  ((rule == &flops::PerResult<kCounts>
        ? absl::StrAppend(&name, kCounts, " x result 0")
        : void()),
   ...);
  ((rule == &flops::PerOperand<kCounts>
        ? absl::StrAppend(&name, kCounts, " x operand 0")
        : void()),
   ...);
  ((rule == &flops::PerOperand<kCounts, 1>
        ? absl::StrAppend(&name, kCounts, " x operand 1")
        : void()),
   ...);
  return name;
}

std::string FlopsRuleName(FlopsRule rule) {
  if (rule == nullptr) return "unknown";
  if (rule == &flops::Zero) return "0";
  for (const NamedFlopsRule& named : kFlopsRules) {
    if (named.rule == rule) return named.name;
  }
  const std::string name =
      ScaledRuleName(rule, std::make_integer_sequence<int64_t, 64>());
  EXPECT_NE(name, "") << "a flops rule has no name in this test";
  return name;
}

std::string MaskName(uint32_t mask) {
  if (mask == UINT32_MAX) return "all";
  std::vector<int> indices;
  for (int i = 0; i < 32; ++i) {
    if ((mask >> i & 1u) != 0) indices.push_back(i);
  }
  return absl::StrJoin(indices, " ");
}

std::string SavedName(const SavedForBackward& saved) {
  if (!saved.known) return "unknown";
  std::string name;
  if (saved.operands != 0) {
    absl::StrAppend(&name, "operands ", MaskName(saved.operands));
  }
  if (saved.results != 0) {
    absl::StrAppend(&name, name.empty() ? "" : ", ", "results ",
                    MaskName(saved.results));
  }
  return name;
}

std::string SinceName(int version) {
  return version == 0 ? "" : absl::StrCat(version);
}

std::string Float32Name(const OpInfo& row) {
  std::string name(Name(row.needs_float32));
  if (row.float32_operands != 0) {
    absl::StrAppend(&name, name.empty() ? "" : ", ", "operands ",
                    MaskName(row.float32_operands));
  }
  if (row.float32_results != 0) {
    absl::StrAppend(&name, name.empty() ? "" : ", ", "results ",
                    MaskName(row.float32_results));
  }
  return name;
}

absl::string_view CostName(RecomputeCost cost) {
  switch (cost) {
    case RecomputeCost::kFree:
      return "free";
    case RecomputeCost::kCheap:
      return "cheap";
    case RecomputeCost::kModerate:
      return "moderate";
    case RecomputeCost::kExpensive:
      return "expensive";
    case RecomputeCost::kUnknown:
      break;
  }
  return "unknown";
}

std::string RenderTable() {
  std::string text =
      "# What onnx-memopt knows of each op\n"
      "\n"
      "One row for each row of the op table (`lib/ir/op_info_*.h`). This file "
      "is "
      "made from it by\n"
      "`ONNX_MEMOPT_UPDATE_DOCS=1 build/release/test/op_coverage_test`, run at "
      "the top of the repository.\n"
      "\n"
      "- view: result 0 is the same bytes as this operand.\n"
      "- in place: result 0 may overwrite these operands where it is their "
      "last "
      "use.\n"
      "- recompute: the cost of making a result again; unknown means never.\n"
      "- flops: the rule, as `include/onnx_memopt/ir/flops.h` describes it.\n"
      "- saved: what the gradient needs; empty means nothing.\n"
      "- shape rule: empty means that ONNX's own inference is all there is.\n"
      "- flow: the rule that says how it can be run in parts "
      "(`include/onnx_memopt/ir/flow_rules.h`);\n"
      "  empty means not at all.\n"
      "- float16, bfloat16: the version of the op's domain from which on it "
      "takes these types\n"
      "  wherever it takes float32; empty means never.\n"
      "- float32: why it computes in float32 in a model of 16 bits, or which "
      "operands and results\n"
      "  are float32 in any case.\n"
      "\n"
      "An op that is not listed is handled as one of which nothing is known.\n"
      "\n"
      "| op | domain | view | in place | random | recompute | flops | saved | "
      "shape rule | flow | differentiable | float16 | bfloat16 | float32 |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const OpInfo& row : AllOpInfo()) {
    absl::StrAppend(
        &text, "| ", row.name, " | ",
        row.domain.empty() ? absl::string_view("ai.onnx") : row.domain, " | ",
        row.view_of < 0 ? "" : absl::StrCat(row.view_of), " | ",
        MaskName(row.in_place));
    absl::StrAppend(&text, " | ", row.random ? "yes" : "", " | ",
                    CostName(row.recompute), " | ", FlopsRuleName(row.flops),
                    " | ", SavedName(row.saved));
    absl::StrAppend(&text, " | ", ShapeRuleName(row.shape), " | ",
                    FlowRuleName(row.flow), " | ",
                    row.differentiable ? "yes" : "no", " | ");
    absl::StrAppend(&text, SinceName(row.float16_since), " | ",
                    SinceName(row.bfloat16_since), " | ", Float32Name(row),
                    " |\n");
  }
  return text;
}

TEST(OpCoverageTest, DocsListTheTable) {
  testing::ExpectPage(kDocs, RenderTable());
}

}  // namespace
}  // namespace onnx_memopt::ir
