// The verifier accepts what is valid and names what is not. That it accepts
// every graph that the reader makes is tested here too, on random ones.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx_memopt/ir/graph.h"
#include "support/random_graph.h"
#include "support/status_matchers.h"

namespace onnx_memopt::ir {
namespace {

using ::onnx_memopt::testing::IsOk;
using ::onnx_memopt::testing::Random;
using ::onnx_memopt::testing::RandomGraph;
using ::onnx_memopt::testing::Runs;
using ::onnx_memopt::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
constexpr auto kInternal = absl::StatusCode::kInternal;

// x -> a = Relu(x) -> y = Exp(a), and an If whose branch reads a.
class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest() {
    graph_.AddBlock({.kind = BlockKind::kMain, .name = "main"});
    x_ = AddValue("x", kMainBlock, ValueKind::kInput);
    graph_.mutable_block(kMainBlock).params.push_back(x_);
    a_ = AddValue("a", kMainBlock);
    relu_ = AddNode("Relu", kMainBlock, {x_}, {a_});
    z_ = AddValue("z", kMainBlock);
    if_ = AddNode("If", kMainBlock, {x_}, {z_});
    branch_ = graph_.AddBlock({.kind = BlockKind::kSubgraph,
                               .owner = if_,
                               .attribute_name = "then_branch",
                               .name = "branch"});
    graph_.mutable_node(if_).blocks.push_back(branch_);
    b_ = AddValue("b", branch_);
    neg_ = AddNode("Neg", branch_, {a_}, {b_});
    graph_.mutable_block(branch_).results.push_back(b_);
    y_ = AddValue("y", kMainBlock);
    exp_ = AddNode("Exp", kMainBlock, {a_}, {y_});
    graph_.mutable_block(kMainBlock).results = {y_, z_};
  }

  ValueId AddValue(const char* name, BlockId block,
                   ValueKind kind = ValueKind::kResult) {
    Value value;
    value.name = name;
    value.block = block;
    value.kind = kind;
    return graph_.AddValue(std::move(value));
  }

  NodeId AddNode(const char* op, BlockId block, std::vector<ValueId> operands,
                 std::vector<ValueId> results) {
    Node node;
    node.op_type = op;
    node.name = std::string("the ") + op;
    node.block = block;
    node.operands.assign(operands.begin(), operands.end());
    node.results.assign(results.begin(), results.end());
    const NodeId id = graph_.AddNode(std::move(node));
    graph_.mutable_block(block).nodes.push_back(id);
    return id;
  }

  void ExpectRefused(const std::string& message) {
    EXPECT_THAT(Verify(graph_), StatusIs(kInternal, HasSubstr(message)));
  }

  Graph graph_;
  ValueId x_{}, a_{}, b_{}, y_{}, z_{};
  NodeId relu_{}, if_{}, neg_{}, exp_{};
  BlockId branch_{};
};

TEST_F(VerifyTest, AcceptsAValidGraph) { EXPECT_THAT(Verify(graph_), IsOk()); }

TEST_F(VerifyTest, NoMainBlock) {
  EXPECT_THAT(Verify(Graph()), StatusIs(kInternal, HasSubstr("no main block")));
}

TEST_F(VerifyTest, UseBeforeDefinition) {
  std::swap(graph_.mutable_block(kMainBlock).nodes[0],
            graph_.mutable_block(kMainBlock).nodes[2]);
  ExpectRefused(
      "node \"the Exp\" (Exp): operand \"a\" is used before it is defined");
}

TEST_F(VerifyTest, UseBeforeDefinitionInASubgraph) {
  std::swap(graph_.mutable_block(kMainBlock).nodes[0],
            graph_.mutable_block(kMainBlock).nodes[1]);
  ExpectRefused(
      "node \"the Neg\" (Neg): operand \"a\" is used before it is defined");
}

TEST_F(VerifyTest, DoubleDefinition) {
  graph_.mutable_node(exp_).results[0] = a_;
  ExpectRefused("tensor \"a\" is defined twice");
}

TEST_F(VerifyTest, NodeTwiceInTheSchedule) {
  graph_.mutable_block(kMainBlock).nodes.push_back(exp_);
  ExpectRefused("tensor \"y\" is defined twice");
}

TEST_F(VerifyTest, NodeInTheWrongBlock) {
  auto& nodes = graph_.mutable_block(kMainBlock).nodes;
  nodes.insert(nodes.begin() + 1, neg_);
  ExpectRefused("node \"the Neg\" (Neg) is in the schedule of another block");
}

TEST_F(VerifyTest, ErasedNodeInTheSchedule) {
  const std::vector<NodeId> nodes = graph_.block(kMainBlock).nodes;
  graph_.EraseNodes(kMainBlock, {exp_});
  graph_.mutable_block(kMainBlock).nodes = nodes;
  ExpectRefused("node \"the Exp\" (Exp) was erased but is in the schedule");
}

TEST_F(VerifyTest, WhatANestedBlockDefinesIsNotSeenOutside) {
  graph_.mutable_node(exp_).operands[0] = b_;
  ExpectRefused("operand \"b\" is used before it is defined");
}

TEST_F(VerifyTest, OutputThatNobodyDefines) {
  graph_.EraseNodes(kMainBlock, {exp_});
  ExpectRefused("output \"y\" of graph \"main\" is not defined");
  graph_.mutable_block(kMainBlock).results = {kNoValue};
  ExpectRefused("output \"\" of graph \"main\" is not defined");
}

TEST_F(VerifyTest, BlockOfAnotherNode) {
  graph_.mutable_block(branch_).owner = relu_;
  ExpectRefused("node \"the If\" (If) holds a block that it does not own");
}

TEST_F(VerifyTest, OperandOutOfRange) {
  graph_.mutable_node(exp_).operands[0] = ValueId(1000);
  ExpectRefused("operand ? is used before it is defined");
}

TEST_F(VerifyTest, ErasingTakesNestedNodesAlong) {
  graph_.mutable_block(kMainBlock).results = {y_};
  graph_.EraseNodes(kMainBlock, {if_});
  EXPECT_TRUE(graph_.erased(neg_));
  EXPECT_FALSE(graph_.erased(exp_));
  EXPECT_THAT(Verify(graph_), IsOk());
}

TEST_F(VerifyTest, CollectsCapturesOfNestedBlocks) {
  std::vector<ValueId> uses;
  CollectUses(graph_, if_, &uses);
  EXPECT_THAT(uses, ::testing::ElementsAre(x_, a_));
}

TEST_F(VerifyTest, ReplacesUsesInNestedBlocksAndResults) {
  const ValueId c = AddValue("c", kMainBlock);
  const NodeId tanh = AddNode("Tanh", kMainBlock, {x_}, {c});
  auto& nodes = graph_.mutable_block(kMainBlock).nodes;
  nodes.pop_back();
  nodes.insert(nodes.begin() + 1, tanh);
  graph_.ReplaceUses({{a_, c}, {y_, c}});
  EXPECT_EQ(graph_.node(neg_).operands[0], c);
  EXPECT_EQ(graph_.node(exp_).operands[0], c);
  EXPECT_THAT(graph_.block(kMainBlock).results, ::testing::ElementsAre(c, z_));
  EXPECT_THAT(Verify(graph_), IsOk());
}

TEST_F(VerifyTest, ReplacingLeavesLeftOutOperandsAlone) {
  graph_.mutable_node(exp_).operands = {a_, kNoValue};
  graph_.ReplaceUses({{a_, x_}});
  EXPECT_EQ(graph_.node(exp_).operands[0], x_);
  EXPECT_EQ(graph_.node(exp_).operands[1], kNoValue);
}

TEST_F(VerifyTest, NamesAndNesting) {
  EXPECT_EQ(graph_.DisplayName(exp_), "the Exp");
  graph_.mutable_node(exp_).name.clear();
  EXPECT_EQ(graph_.DisplayName(exp_), "Exp:y");
  graph_.mutable_node(exp_).results.clear();
  EXPECT_EQ(graph_.DisplayName(exp_), "Exp#3");
  EXPECT_TRUE(graph_.IsInside(branch_, kMainBlock));
  EXPECT_TRUE(graph_.IsInside(branch_, branch_));
  EXPECT_FALSE(graph_.IsInside(kMainBlock, branch_));
}

// Corruptions of random graphs, one each.
using Corruption = std::function<bool(Graph&, Random&)>;

bool MoveFirstUserUp(Graph& graph, Random& /*random*/) {
  std::vector<NodeId>& nodes = graph.mutable_block(kMainBlock).nodes;
  for (size_t i = 1; i < nodes.size(); ++i) {
    std::vector<ValueId> uses;
    CollectUses(graph, nodes[i], &uses);
    for (size_t j = 0; j < i; ++j) {
      for (ValueId result : graph.node(nodes[j]).results) {
        if (std::find(uses.begin(), uses.end(), result) == uses.end()) continue;
        const NodeId user = nodes[i];
        nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(i));
        nodes.insert(nodes.begin() + static_cast<std::ptrdiff_t>(j), user);
        return true;
      }
    }
  }
  return false;
}

bool DefineTwice(Graph& graph, Random& random) {
  const std::vector<NodeId>& nodes = graph.block(kMainBlock).nodes;
  if (nodes.empty()) return false;
  graph.mutable_block(kMainBlock).nodes.push_back(random.Pick(nodes));
  return true;
}

bool ListErased(Graph& graph, Random& random) {
  const std::vector<NodeId> nodes = graph.block(kMainBlock).nodes;
  if (nodes.empty()) return false;
  graph.EraseNodes(kMainBlock, {random.Pick(nodes)});
  graph.mutable_block(kMainBlock).nodes = nodes;
  return true;
}

bool HoistNestedNode(Graph& graph, Random& /*random*/) {
  for (NodeId id : graph.block(kMainBlock).nodes) {
    for (BlockId block : graph.node(id).blocks) {
      if (graph.block(block).nodes.empty()) continue;
      auto& nodes = graph.mutable_block(kMainBlock).nodes;
      nodes.insert(nodes.begin(), graph.block(block).nodes.front());
      return true;
    }
  }
  return false;
}

TEST(VerifyRandomTest, AcceptsWhatTheReaderMakesAndRefusesCorruptions) {
  const std::pair<const char*, Corruption> corruptions[] = {
      {"use before definition", MoveFirstUserUp},
      {"double definition", DefineTwice},
      {"erased node", ListErased},
      {"wrong block", HoistNestedNode}};
  int counts[std::size(corruptions)] = {};
  for (int i = 0; i < Runs(1000); ++i) {
    const auto seed = static_cast<uint64_t>(i);
    SCOPED_TRACE(seed);
    Random random(seed);
    for (size_t c = 0; c < std::size(corruptions); ++c) {
      Graph graph =
          RandomGraph(seed, {.max_nodes = 10, .max_depth = 2, .calls = true});
      ASSERT_THAT(Verify(graph), IsOk());
      if (!corruptions[c].second(graph, random)) continue;
      ++counts[c];
      EXPECT_THAT(Verify(graph), StatusIs(kInternal, ::testing::_))
          << corruptions[c].first << "\n"
          << ToString(graph);
    }
  }
  for (size_t c = 0; c < std::size(corruptions); ++c) {
    EXPECT_GT(counts[c], Runs(200)) << corruptions[c].first;
  }
}

}  // namespace
}  // namespace onnx_memopt::ir
