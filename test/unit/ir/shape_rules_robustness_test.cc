// Throws random operands and attributes at every rule. A rule must come back,
// soon, with no more results than it was given room for, and may claim to be
// complete only where it is.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "unit/ir/random_node.h"

namespace onnx_memopt::ir {
namespace {

using testing::AllRules;
using testing::NamedRule;
using testing::RandomNode;

bool IsKnown(const Type& type) {
  if (type.kind == TypeKind::kSequence || type.kind == TypeKind::kOptional) {
    return type.nested != nullptr;
  }
  if (!type.is_tensor() || type.element == ElementType::kUndefined ||
      !type.shape) {
    return false;
  }
  for (const std::optional<Dim>& dim : *type.shape) {
    if (!dim || (dim->is_constant() && dim->constant() < 0)) return false;
  }
  return true;
}

void RunOnce(const NamedRule& named, RandomNode* random) {
  Node node;
  node.op_type = named.ops[static_cast<size_t>(
      random->Number(0, static_cast<int64_t>(named.ops.size()) - 1))];
  node.opset = static_cast<int>(random->Number(0, 26));
  random->AddAttributes(&node);
  std::list<Type> types;
  std::vector<const Type*> operand_types;
  std::vector<std::shared_ptr<const Contents>> operand_contents;
  const int64_t operands = random->Number(0, 8);
  for (int64_t i = 0; i < operands; ++i) {
    types.push_back(random->RandomType());
    std::shared_ptr<const Contents> contents;
    if (random->Chance(70)) contents = random->RandomContents(&types.back());
    operand_types.push_back(random->Chance(10) ? nullptr : &types.back());
    operand_contents.push_back(std::move(contents));
  }
  // Now and then the contents are not even as many as the operands.
  if (random->Chance(3)) operand_contents.resize(1);
  const auto results = static_cast<size_t>(random->Number(0, 5));
  for (size_t i = 0; i < results; ++i) {
    node.results.push_back(ValueId{static_cast<uint32_t>(i)});
  }
  ShapeContext context{node, operand_types, operand_contents,
                       std::vector<Type>(results),
                       std::vector<std::shared_ptr<const Contents>>(results)};
  const bool complete = named.rule(context);
  ASSERT_EQ(context.result_types.size(), results);
  ASSERT_EQ(context.result_contents.size(), results);
  for (size_t i = 0; i < results; ++i) {
    const Type& type = context.result_types[i];
    if (complete) {
      EXPECT_TRUE(IsKnown(type)) << ToString(type);
    }
    const auto& contents = context.result_contents[i];
    if (contents == nullptr || node.op_type == "Identity") continue;
    EXPECT_LE(contents->elements.size(),
              static_cast<size_t>(kMaxContentsElements));
  }
}

TEST(RobustnessTest, RulesSurviveAnything) {
  RandomNode random(7);
  for (const NamedRule& named : AllRules()) {
    SCOPED_TRACE(named.name);
    double slowest = 0;
    for (int round = 0; round < 1000; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      RunOnce(named, &random);
      if (::testing::Test::HasFatalFailure()) return;
      const std::chrono::duration<double> seconds =
          std::chrono::steady_clock::now() - begin;
      slowest = std::max(slowest, seconds.count());
    }
    // Milliseconds, but this machine may be busy and the build instrumented.
    EXPECT_LT(slowest, 10);
  }
}

TEST(RobustnessTest, NothingAtAll) {
  for (const NamedRule& named : AllRules()) {
    for (const size_t results : {size_t{0}, size_t{1}, size_t{5}}) {
      Node node;
      node.op_type = named.ops[0];
      ShapeContext context{
          node,
          {},
          {},
          std::vector<Type>(results),
          std::vector<std::shared_ptr<const Contents>>(results)};
      const bool complete = named.rule(context);
      if (results == 5) {
        EXPECT_FALSE(complete) << named.name;
      }
    }
  }
}

}  // namespace
}  // namespace onnx_memopt::ir
