#include "onnx_memopt/grad/checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grad/segments.h"
#include "grad/stages.h"
#include "grad/step_units.h"
#include "gtest/gtest.h"
#include "onnx_memopt/grad/training_step.h"
#include "onnx_memopt/plan/recompute.h"
#include "support/status_matchers.h"

namespace onnx_memopt::grad {
namespace {

using ir::ElementType;
using ir::NodeId;
using ir::ValueId;
using ::onnx_memopt::testing::IsOk;

template <typename T>
T Get(absl::StatusOr<T> result) {
  EXPECT_THAT(result, IsOk());
  return std::move(result).value();
}

constexpr int kLayers = 12;
constexpr int64_t kRows = 64;
constexpr int64_t kColumns = 32;

// y = Tanh(... Tanh(x * w0) ... * w11): each layer saves 8 KiB.
class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    graph_.AddBlock({});
    ValueId value = Value("x", ir::ValueKind::kInput, kRows);
    for (int i = 0; i < kLayers; ++i) {
      const ValueId weight =
          Value(absl::StrCat("w", i), ir::ValueKind::kInitializer, kColumns);
      value = Op("Tanh", {Op("MatMul", {value, weight})});
    }
    graph_.mutable_block(ir::kMainBlock).results = {value};
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      modules_.push_back(absl::StrCat("layers.", i / 2, ".op"));
    }
    absl::StatusOr<StepInfo> step =
        BuildTrainingStep({.loss = Loss::kMeanSquaredError}, &graph_);
    ASSERT_THAT(step, IsOk());
    step_ = *std::move(step);
  }

  ValueId Value(const std::string& name, ir::ValueKind kind, int64_t rows) {
    ir::Value value;
    value.name = name;
    value.kind = kind;
    value.block = ir::kMainBlock;
    value.type = ir::Type::Tensor(ElementType::kFloat,
                                  ir::Shape{ir::Dim(rows), ir::Dim(kColumns)});
    if (kind == ir::ValueKind::kInitializer) {
      value.weight = graph_.AddWeight({.element = ElementType::kFloat,
                                       .dims = {rows, kColumns},
                                       .size_bytes = rows * kColumns * 4});
    }
    const ValueId id = graph_.AddValue(std::move(value));
    ir::Block& main = graph_.mutable_block(ir::kMainBlock);
    if (kind == ir::ValueKind::kInput) main.params.push_back(id);
    if (kind == ir::ValueKind::kInitializer) main.initializers.push_back(id);
    return id;
  }

  ValueId Op(const char* op, std::vector<ValueId> operands) {
    const ValueId result = Value(absl::StrCat(op, graph_.num_nodes()),
                                 ir::ValueKind::kResult, kRows);
    ir::Node node;
    node.op_type = op;
    node.opset = 18;
    node.block = ir::kMainBlock;
    node.operands.assign(operands.begin(), operands.end());
    node.results.push_back(result);
    const NodeId id = graph_.AddNode(std::move(node));
    graph_.mutable_value(result).producer = id;
    graph_.mutable_block(ir::kMainBlock).nodes.push_back(id);
    return result;
  }

  ir::Graph graph_;
  StepInfo step_;
  std::vector<std::string> modules_;
};

TEST_F(CheckpointTest, EveryPlanCanBeReplayed) {
  const auto units = Get(StepUnits::Compute(graph_, ir::kMainBlock, step_));
  const std::vector<int32_t> plain = units.PlainRuns();
  const auto once =
      Get(ReplayRecompute(units.problem(), units.SequenceOf(plain)));
  EXPECT_EQ(units.RunsOf(units.SequenceOf(plain)), plain);
  for (int segments : {1, 2, 3, 5, kLayers}) {
    const std::vector<int32_t> runs =
        RunsOfSegments(units, CutIntoSegments(units, segments));
    const auto replay =
        Get(ReplayRecompute(units.problem(), units.SequenceOf(runs)));
    EXPECT_TRUE(units.CanRun(runs));
    EXPECT_LE(replay.peak, once.peak);
    // At most all of the forward pass again.
    EXPECT_LE(runs.size(), plain.size() + kLayers);
    // A segment of one layer has nothing but what crosses.
    EXPECT_EQ(segments > 1 && segments<kLayers, runs.size()> plain.size());
  }
}

TEST_F(CheckpointTest, StagesKeepTheirPromises) {
  const auto units = Get(StepUnits::Compute(graph_, ir::kMainBlock, step_));
  for (int segments : {1, 2, 4, 6}) {
    const std::vector<int32_t> runs =
        RunsOfSegments(units, CutIntoSegments(units, segments));
    const Stages stages = CutIntoStages(units, runs);
    const auto replay =
        Get(ReplayRecompute(units.problem(), units.SequenceOf(runs)));
    EXPECT_TRUE(std::is_sorted(stages.stage.begin(), stages.stage.end()));
    EXPECT_EQ(stages.stage.back() + 1, stages.count);
    std::map<int32_t, std::vector<int32_t>> by_stage;
    for (size_t r = 0; r < runs.size(); ++r) {
      by_stage[stages.stage[r]].push_back(runs[r]);
    }
    for (auto& [stage, in] : by_stage) {
      std::sort(in.begin(), in.end());
      EXPECT_EQ(std::adjacent_find(in.begin(), in.end()), in.end());
    }
    // Tiny values count as nothing in the problem.
    EXPECT_LE(stages.peak_bytes, replay.peak + replay.peak / 50);
  }
}

TEST_F(CheckpointTest, InsertedPlansAreValidGraphs) {
  const auto planner =
      Get(CheckpointPlanner::Create({.modules = modules_}, step_, graph_));
  const auto layers = Get(planner.PerLayer());
  for (const CheckpointPlan& plan :
       {CheckpointPlan(), planner.Sqrt(), layers}) {
    ir::Graph step = graph_.Clone();
    const auto made = Get(planner.Insert(plan, &step));
    EXPECT_THAT(ir::Verify(step), IsOk());
    EXPECT_EQ(step.block(ir::kMainBlock).results,
              graph_.block(ir::kMainBlock).results);
    EXPECT_EQ(made.segments.empty(), plan.runs.empty());
    EXPECT_EQ(made.overhead > 0, !plan.runs.empty());
  }
}

TEST_F(CheckpointTest, TheCurveFallsAndABudgetIsKept) {
  const auto planner =
      Get(CheckpointPlanner::Create({.max_moves = 2'000}, step_, graph_));
  const auto found = Get(planner.Search({}));
  ASSERT_GE(found.curve.size(), 2u);
  for (size_t i = 1; i < found.curve.size(); ++i) {
    EXPECT_LT(found.curve[i].peak_bytes, found.curve[i - 1].peak_bytes);
    EXPECT_GT(found.curve[i].plan.overhead, found.curve[i - 1].plan.overhead);
  }
  const int64_t budget =
      (found.curve.front().peak_bytes + found.curve.back().peak_bytes) / 2;
  const auto within = Get(planner.Search(budget));
  const auto cheapest = std::find_if(
      within.curve.begin(), within.curve.end(),
      [&](const CheckpointPoint& p) { return p.peak_bytes <= budget; });
  ASSERT_NE(cheapest, within.curve.end());
  const auto peak = Get(planner.PeakOf(cheapest->plan));
  EXPECT_EQ(peak, cheapest->peak_bytes);
}

TEST_F(CheckpointTest, WrappedModulesAreThoseThatAreMadeAgain) {
  const auto planner =
      Get(CheckpointPlanner::Create({.modules = modules_}, step_, graph_));
  EXPECT_TRUE(planner.Wrapped(CheckpointPlan()).empty());
  for (const std::string& module : planner.Wrapped(planner.Sqrt())) {
    EXPECT_EQ(module.rfind("layers", 0), 0u) << module;
  }
  const auto unnamed = Get(CheckpointPlanner::Create({}, step_, graph_));
  EXPECT_EQ(unnamed.PerLayer().status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace onnx_memopt::grad
