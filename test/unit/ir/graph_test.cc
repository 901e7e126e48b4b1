#include "onnx_memopt/ir/graph.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "llvm/ADT/DenseMap.h"

namespace onnx_memopt::ir {
namespace {

using ::testing::ElementsAre;

TEST(GraphTest, ReplaceUsesLeavesOmittedOperandsAlone) {
  Graph graph;
  const BlockId block = graph.AddBlock({});
  const ValueId a = graph.AddValue({.name = "a", .block = block});
  const ValueId b = graph.AddValue({.name = "b", .block = block});
  const NodeId node =
      graph.AddNode({.op_type = "Clip", .operands = {a, kNoValue, b}});
  llvm::DenseMap<ValueId, ValueId> replacements;
  replacements[b] = a;
  graph.ReplaceUses(replacements);
  EXPECT_THAT(graph.node(node).operands, ElementsAre(a, kNoValue, a));
}

TEST(GraphTest, IdsOfNothingAreKeysThatNoMapHolds) {
  llvm::DenseMap<ValueId, int> values;
  llvm::DenseMap<NodeId, int> nodes;
  llvm::DenseMap<WeightId, int> weights;
  values[ValueId{0}] = 1;
  nodes[NodeId{0}] = 1;
  weights[WeightId{0}] = 1;
  EXPECT_FALSE(values.contains(kNoValue));
  EXPECT_FALSE(nodes.contains(kNoNode));
  EXPECT_FALSE(weights.contains(kNoWeight));
}

}  // namespace
}  // namespace onnx_memopt::ir
