#include "onnx_memopt/rewrite/always_branch.h"

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::BlockId;
using ir::ElementType;
using ir::NodeId;
using ir::Type;
using ir::ValueId;

}  // namespace

Type EmptySequenceType() {
  Type sequence;
  sequence.kind = ir::TypeKind::kSequence;
  sequence.nested = std::make_shared<const Type>(
      Type::Tensor(ElementType::kFloat, std::nullopt));
  return sequence;
}

bool CanBranchReturn(const Type& type) {
  return type.is_tensor() && type.shape.has_value() &&
         CanBuildWith(type.element);
}

AlwaysBranch::AlwaysBranch(Builder& builder, BlockId block,
                           absl::string_view base)
    : builder_(builder), block_(block) {
  const Type scalar = Type::Tensor(ElementType::kInt64, ir::Shape{});
  sequence_ = builder.Op(block, "SequenceEmpty", {}, EmptySequenceType(), base);
  const ValueId length = builder.Op(block, "SequenceLength", {sequence_},
                                    scalar, absl::StrCat(base, "/length"));
  const ValueId zero = builder.Int64(block, absl::StrCat(base, "/zero"), 0);
  condition_ = builder.Op(block, "Equal", {length, zero},
                          Type::Tensor(ElementType::kBool, ir::Shape{}),
                          absl::StrCat(base, "/condition"));
  for (ValueId value : {sequence_, length, condition_}) {
    nodes_.push_back(builder.graph().value(value).producer);
  }
}

BlockId AlwaysBranch::Add(absl::Span<const ValueId> results,
                          absl::string_view name) {
  const NodeId node = builder_.Node(block_, "If", {condition_}, results,
                                    absl::StrCat(name, "/If"));
  const BlockId body = builder_.Subgraph(node, "then_branch", name);
  const BlockId never = builder_.Subgraph(node, "else_branch", "never");
  for (ValueId result : results) {
    // A copy: the graph grows.
    const Type type = builder_.graph().value(result).type;
    Fill(never, type);
  }
  return body;
}

// An empty tensor of this type and rank, as the block's next result.
void AlwaysBranch::Fill(BlockId block, const Type& type) {
  ir::Graph& graph = builder_.graph();
  const std::vector<int64_t> zeros(type.shape->size(), 0);
  const ValueId shape = builder_.Int64s(block, "never/shape", zeros);
  ir::Shape none;
  for (size_t i = 0; i < zeros.size(); ++i) none.emplace_back(0);
  // ConstantOfShape gives float32 where no value says otherwise.
  ValueId filled =
      builder_.Op(block, "ConstantOfShape", {shape},
                  Type::Tensor(ElementType::kFloat, none), "never/value");
  graph.mutable_block(block).nodes.push_back(graph.value(filled).producer);
  if (type.element != ElementType::kFloat) {
    filled =
        builder_.Op(block, "Cast", {filled}, Type::Tensor(type.element, none),
                    "never/cast", {{"to", static_cast<int64_t>(type.element)}});
    graph.mutable_block(block).nodes.push_back(graph.value(filled).producer);
  }
  graph.mutable_block(block).results.push_back(filled);
}

}  // namespace onnx_memopt::rewrite
