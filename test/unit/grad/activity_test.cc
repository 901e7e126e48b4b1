#include "onnx_memopt/grad/activity.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/ir/op_info.h"

namespace onnx_memopt::grad {
namespace {

using ir::ElementType;
using ir::NodeId;
using ir::ValueId;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// y = Tanh(x * w) + b, with a Cast to int64 beside it.
class ActivityTest : public ::testing::Test {
 protected:
  ActivityTest() {
    graph_.AddBlock({});
    x_ = Value("x", ir::ValueKind::kInput);
    w_ = Value("w", ir::ValueKind::kInitializer);
    b_ = Value("b", ir::ValueKind::kInitializer);
    product_ = Op("MatMul", {x_, w_});
    tanh_ = Op("Tanh", {product_});
    y_ = Op("Add", {tanh_, b_});
    whole_ = Op("Cast", {product_}, ElementType::kInt64);
  }

  ValueId Value(const char* name, ir::ValueKind kind,
                ElementType element = ElementType::kFloat) {
    ir::Value value;
    value.name = name;
    value.kind = kind;
    value.block = ir::kMainBlock;
    value.type = ir::Type::Tensor(element, ir::Shape{ir::Dim(4), ir::Dim(4)});
    const ValueId id = graph_.AddValue(std::move(value));
    ir::Block& main = graph_.mutable_block(ir::kMainBlock);
    if (kind == ir::ValueKind::kInput) main.params.push_back(id);
    if (kind == ir::ValueKind::kInitializer) main.initializers.push_back(id);
    return id;
  }

  ValueId Op(const char* op, std::vector<ValueId> operands,
             ElementType element = ElementType::kFloat) {
    const ValueId result = Value(op, ir::ValueKind::kResult, element);
    ir::Node node;
    node.op_type = op;
    node.opset = 18;
    node.operands.assign(operands.begin(), operands.end());
    node.results.push_back(result);
    const NodeId id = graph_.AddNode(std::move(node));
    graph_.mutable_value(result).producer = id;
    graph_.mutable_block(ir::kMainBlock).nodes.push_back(id);
    return result;
  }

  std::vector<ValueId> Saved(ValueId result, const Activity& activity) {
    return SavedForBackward(graph_, graph_.value(result).producer, activity)
        .values;
  }

  ir::Graph graph_;
  ValueId x_, w_, b_, product_, tanh_, y_, whole_;
};

TEST_F(ActivityTest, IsBetweenWantedValuesAndOutputs) {
  const Activity activity = Activity::Compute(graph_, {w_}, {y_});
  EXPECT_TRUE(activity.active(w_));
  EXPECT_TRUE(activity.active(product_));
  EXPECT_TRUE(activity.active(y_));
  EXPECT_FALSE(activity.active(x_));
  EXPECT_FALSE(activity.active(b_));
  EXPECT_FALSE(activity.active(whole_));
  EXPECT_FALSE(activity.active(ir::kNoValue));
}

TEST_F(ActivityTest, NothingFlowsThroughIntegers) {
  EXPECT_FALSE(Activity::Compute(graph_, {w_}, {whole_}).active(w_));
}

TEST_F(ActivityTest, AProductSavesTheOtherOperandOnly) {
  const Activity of_w = Activity::Compute(graph_, {w_}, {y_});
  EXPECT_THAT(Saved(product_, of_w), ElementsAre(x_));
  const Activity of_both = Activity::Compute(graph_, {w_, x_}, {y_});
  EXPECT_THAT(Saved(product_, of_both), UnorderedElementsAre(x_, w_));
}

TEST_F(ActivityTest, WhatTheRulesReadIsSaved) {
  const Activity activity = Activity::Compute(graph_, {w_}, {y_});
  EXPECT_THAT(Saved(tanh_, activity), ElementsAre(tanh_));
  EXPECT_THAT(Saved(y_, activity), IsEmpty());
  EXPECT_THAT(Saved(whole_, activity), IsEmpty());
}

TEST_F(ActivityTest, AnOpWithoutARuleSavesAllItSees) {
  const ValueId other = Op("Det", {y_});
  const Activity activity = Activity::Compute(graph_, {w_}, {other});
  const SavedValues saved =
      SavedForBackward(graph_, graph_.value(other).producer, activity);
  EXPECT_FALSE(saved.known);
  EXPECT_THAT(saved.values, ElementsAre(y_, other));
}

TEST_F(ActivityTest, WeightsThatAGradientReachesAreTrainable) {
  EXPECT_THAT(Trainable(graph_, {y_}), ElementsAre(w_, b_));
  EXPECT_THAT(Trainable(graph_, {tanh_}), ElementsAre(w_));
}

TEST_F(ActivityTest, ScalarsAndFrequenciesAreNotTrainable) {
  const ValueId scalar = Value("scale", ir::ValueKind::kInitializer);
  graph_.mutable_value(scalar).type =
      ir::Type::Tensor(ElementType::kFloat, ir::Shape());
  const ValueId frequencies = Value("inv_freq", ir::ValueKind::kInitializer);
  const ValueId positions =
      Value("positions", ir::ValueKind::kInput, ElementType::kInt64);
  const ValueId angle = Op("Mul", {Op("Cast", {positions}), frequencies});
  const ValueId rotated =
      Op("Add", {Op("Mul", {y_, Op("Cos", {angle})}), Op("Sin", {angle})});
  const ValueId out = Op("Mul", {rotated, scalar});
  std::vector<std::string> why_not;
  EXPECT_THAT(Trainable(graph_, {out}, &why_not), ElementsAre(w_, b_));
  EXPECT_EQ(why_not.size(), 2);
}

TEST_F(ActivityTest, AWeightThatAnInputGoesThroughIsNoTableOfFrequencies) {
  const ValueId wave = Op("Sin", {product_});
  EXPECT_THAT(Trainable(graph_, {wave}), ElementsAre(w_));
}

}  // namespace
}  // namespace onnx_memopt::grad
