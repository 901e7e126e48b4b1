// Compares the table of gradient rules with the op table, and with
// docs/gradients.md, which lists it. To write that file anew:
//
//   ONNX_MEMOPT_UPDATE_DOCS=1 build/release/test/gradient_rules_test
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "onnx_memopt/grad/rules.h"
#include "onnx_memopt/ir/op_info.h"
#include "support/docs_page.h"

namespace onnx_memopt::grad {
namespace {

constexpr char kDocs[] = "docs/gradients.md";

TEST(GradientRulesTest, EveryRuleIsOfAnOpOfTheOpTable) {
  for (const RuleRow& row : AllRules()) {
    const ir::OpInfo& info = ir::FindOpInfo(row.domain, row.op);
    EXPECT_TRUE(ir::IsKnown(info)) << row.op;
    EXPECT_TRUE(info.differentiable) << row.op;
    EXPECT_TRUE(info.saved.known) << row.op;
    EXPECT_NE(row.rule, nullptr) << row.op;
    EXPECT_EQ(FindRule(row.domain, row.op), &row) << row.op;
  }
}

TEST(GradientRulesTest, OpsWithoutAGradientHaveNoRule) {
  for (const ir::OpInfo& info : ir::AllOpInfo()) {
    if (!info.differentiable) {
      EXPECT_EQ(FindRule(info.domain, info.name), nullptr) << info.name;
    }
  }
  EXPECT_EQ(FindRule("", "NoSuchOp"), nullptr);
  EXPECT_EQ(FindRule("com.example", "Relu"), nullptr);
}

TEST(GradientRulesTest, TheDomainOfOnnxHasTwoNames) {
  EXPECT_EQ(FindRule("ai.onnx", "Relu"), FindRule("", "Relu"));
  EXPECT_NE(FindRule("", "Relu"), nullptr);
}

std::string Masked(uint32_t mask) {
  if (mask == UINT32_MAX) return "all";
  std::vector<int> bits;
  for (int i = 0; i < 31; ++i) {
    if (((mask >> i) & 1U) != 0) bits.push_back(i);
  }
  return absl::StrJoin(bits, " ");
}

std::string Saved(const RuleRow& row) {
  const ir::SavedForBackward& saved = ir::FindOpInfo(row.domain, row.op).saved;
  std::vector<std::string> parts;
  if (saved.operands != 0) {
    parts.push_back(
        absl::StrCat("operands ", Masked(saved.operands),
                     row.reads == Reads::kOthers ? " (for the others)" : ""));
  }
  if (saved.results != 0) {
    parts.push_back(absl::StrCat("results ", Masked(saved.results)));
  }
  return absl::StrJoin(parts, ", ");
}

std::string RenderTable() {
  std::string text =
      "# Ops through which gradients flow\n"
      "\n"
      "One row for each rule of `lib/grad`. This file is made from the table "
      "by\n"
      "`ONNX_MEMOPT_UPDATE_DOCS=1 build/release/test/gradient_rules_test`, run "
      "at the top of the\n"
      "repository. `onnx-memopt train` ([training.md](training.md)) refuses a "
      "model in which a gradient\n"
      "reaches another op; ops of which [ops.md](ops.md) says that they are "
      "not differentiable (shapes,\n"
      "comparisons, integers) just stop it.\n"
      "\n"
      "- saved: what the backward pass reads of the forward pass; empty means "
      "nothing. An operand of\n"
      "  a product is needed only if the other one has a gradient.\n"
      "- limits: what the rule refuses, or has to know before the run.\n"
      "\n"
      "| op | saved | limits |\n"
      "|---|---|---|\n";
  for (const RuleRow& row : AllRules()) {
    absl::StrAppend(&text, "| ", row.op, " | ", Saved(row), " | ", row.limits,
                    " |\n");
  }
  return text;
}

TEST(GradientRulesTest, DocsListTheTable) {
  testing::ExpectPage(kDocs, RenderTable());
}

}  // namespace
}  // namespace onnx_memopt::grad
