#include "onnx_memopt/rewrite/builder.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/rewrite/raise_opset.h"
#include "onnx_memopt/rewrite/real_bytes.h"
#include "onnx_memopt/support/half.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::BlockId;
using ir::ElementType;
using ir::ValueId;

int OpsetOf(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const ir::Node& node = graph.node(ir::NodeId(static_cast<uint32_t>(i)));
    // A function body has imports of its own.
    if (node.domain.empty() && node.opset > 0 &&
        graph.block(node.block).kind != ir::BlockKind::kCallBody) {
      return node.opset;
    }
  }
  return 0;
}

template <typename Number>
void AppendBytes(Number number, std::string* bytes) {
  char raw[sizeof(Number)];
  std::memcpy(raw, &number, sizeof(Number));
  bytes->append(raw, sizeof(Number));
}

}  // namespace

void AppendReal(ElementType element, double value, std::string* bytes) {
  const auto single = static_cast<float>(value);
  switch (element) {
    case ElementType::kDouble:
      return AppendBytes(value, bytes);
    case ElementType::kFloat16:
      return AppendBytes(ToFloat16(single), bytes);
    case ElementType::kBfloat16:
      return AppendBytes(ToBfloat16(single), bytes);
    default:
      return AppendBytes(single, bytes);
  }
}

absl::Status CheckCanBuild(const ir::Graph& graph) {
  if (OpsetOf(graph) < kBuildOpset) {
    return absl::FailedPreconditionError(
        absl::StrCat("it needs opset ", kBuildOpset, " or newer"));
  }
  if (graph.sizes_are_bound) {
    return absl::FailedPreconditionError(
        "the shapes of inputs were given, and a model that is rewritten for "
        "them would take no others; give sizes of named dimensions, which are "
        "only planned for");
  }
  return absl::OkStatus();
}

bool CanBuildWith(ir::ElementType type) {
  switch (type) {
    case ir::ElementType::kFloat:
    case ir::ElementType::kFloat16:
    case ir::ElementType::kDouble:
    case ir::ElementType::kInt8:
    case ir::ElementType::kInt16:
    case ir::ElementType::kInt32:
    case ir::ElementType::kInt64:
    case ir::ElementType::kUint8:
    case ir::ElementType::kUint16:
    case ir::ElementType::kUint32:
    case ir::ElementType::kUint64:
    case ir::ElementType::kBool:
      return true;
    default:
      return false;
  }
}

Builder::Builder(ir::Graph* graph) : graph_(graph), opset_(OpsetOf(*graph)) {
  names_.reserve(graph->num_values() + graph->num_nodes());
  for (size_t i = 0; i < graph->num_values(); ++i) {
    names_.insert(graph->value(ValueId(static_cast<uint32_t>(i))).name);
  }
  for (size_t i = 0; i < graph->num_nodes(); ++i) {
    names_.insert(graph->node(ir::NodeId(static_cast<uint32_t>(i))).name);
  }
}

std::string Builder::UniqueName(absl::string_view base) {
  std::string name(base);
  for (int i = 1; !names_.insert(name).second; ++i) {
    name = absl::StrCat(base, "_", i);
  }
  return name;
}

ValueId Builder::Tensor(BlockId block, absl::string_view base,
                        ElementType element, absl::Span<const int64_t> dims,
                        std::string bytes) {
  return OwnedTensor(block, base, element, dims,
                     graph_->OwnBytes(std::move(bytes)));
}

ValueId Builder::OwnedTensor(BlockId block, absl::string_view base,
                             ElementType element,
                             absl::Span<const int64_t> dims,
                             absl::string_view bytes) {
  ir::Value value;
  value.name = UniqueName(base);
  value.kind = ir::ValueKind::kInitializer;
  value.block = block;
  ir::Shape shape;
  for (int64_t dim : dims) shape.emplace_back(dim);
  value.type = ir::Type::Tensor(element, std::move(shape));
  ir::Weight weight;
  weight.name = value.name;
  weight.element = element;
  weight.dims.assign(dims.begin(), dims.end());
  weight.size_bytes = static_cast<int64_t>(bytes.size());
  weight.bytes = bytes;
  value.weight = graph_->AddWeight(std::move(weight));
  const ValueId id = graph_->AddValue(std::move(value));
  graph_->mutable_block(block).initializers.push_back(id);
  return id;
}

ValueId Builder::Reals(BlockId block, absl::string_view base,
                       ElementType element, absl::Span<const int64_t> dims,
                       absl::Span<const double> values) {
  std::string bytes;
  for (const double value : values) AppendReal(element, value, &bytes);
  const ValueId id = Tensor(block, base, element, dims, std::move(bytes));
  if (values.size() <= ir::kMaxContentsElements) {
    auto contents = std::make_shared<ir::Contents>();
    contents->dims.assign(dims.begin(), dims.end());
    for (const double value : values) {
      contents->elements.push_back(ir::Element::Real(value));
    }
    graph_->mutable_value(id).contents = std::move(contents);
  }
  return id;
}

ValueId Builder::Real(BlockId block, absl::string_view base,
                      ElementType element, double value) {
  return Reals(block, base, element, {}, {value});
}

ValueId Builder::Weight(BlockId block, absl::string_view base,
                        absl::Span<const int64_t> dims,
                        absl::Span<const int64_t> values) {
  // TensorProto.raw_data is little-endian, as are the machines that this runs
  // on.
  std::string bytes(values.size() * sizeof(int64_t), '\0');
  // An empty span may be null, which memcpy must not be given.
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  const ValueId id =
      Tensor(block, base, ElementType::kInt64, dims, std::move(bytes));
  auto contents = std::make_shared<ir::Contents>();
  contents->dims.assign(dims.begin(), dims.end());
  for (int64_t element : values) {
    contents->elements.push_back(ir::Element::Integer(element));
  }
  graph_->mutable_value(id).contents = std::move(contents);
  return id;
}

ValueId Builder::Int64s(BlockId block, absl::string_view base,
                        absl::Span<const int64_t> values) {
  return Weight(block, base, {static_cast<int64_t>(values.size())}, values);
}

ValueId Builder::Int64(BlockId block, absl::string_view base, int64_t value) {
  return Weight(block, base, {}, {value});
}

ValueId Builder::Int64Column(BlockId block, absl::string_view base,
                             absl::Span<const int64_t> values) {
  return Weight(block, base, {static_cast<int64_t>(values.size()), 1}, values);
}

ValueId Builder::Value(BlockId block, ir::Type type, absl::string_view base,
                       ir::ValueKind kind) {
  ir::Value value;
  value.name = UniqueName(base);
  value.type = std::move(type);
  value.kind = kind;
  value.block = block;
  return graph_->AddValue(std::move(value));
}

ir::NodeId Builder::Node(BlockId block, absl::string_view op_type,
                         absl::Span<const ValueId> operands,
                         absl::Span<const ValueId> results,
                         absl::string_view name,
                         std::vector<ir::Attribute> attributes) {
  ir::Node node;
  node.name = UniqueName(name);
  node.op_type = std::string(op_type);
  node.opset = opset_;
  node.block = block;
  node.operands.assign(operands.begin(), operands.end());
  node.results.assign(results.begin(), results.end());
  node.attributes = std::move(attributes);
  const ir::NodeId id = graph_->AddNode(std::move(node));
  for (ValueId result : results) {
    if (result == ir::kNoValue) continue;  // left out
    graph_->mutable_value(result).producer = id;
    graph_->mutable_value(result).block = block;
  }
  return id;
}

ValueId Builder::Op(BlockId block, absl::string_view op_type,
                    absl::Span<const ValueId> operands, ir::Type type,
                    absl::string_view base,
                    std::vector<ir::Attribute> attributes) {
  const ValueId result = Value(block, std::move(type), base);
  Node(block, op_type, operands, {result}, absl::StrCat(base, "/", op_type),
       std::move(attributes));
  return result;
}

BlockId Builder::Subgraph(ir::NodeId owner, absl::string_view attribute_name,
                          absl::string_view name) {
  ir::Block block;
  block.kind = ir::BlockKind::kSubgraph;
  block.owner = owner;
  block.attribute_name = std::string(attribute_name);
  block.name = std::string(name);
  const BlockId id = graph_->AddBlock(std::move(block));
  graph_->mutable_node(owner).blocks.push_back(id);
  return id;
}

}  // namespace onnx_memopt::rewrite
