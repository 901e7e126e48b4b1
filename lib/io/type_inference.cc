// Types and contents, node by node in schedule order: our own symbolic rule
// first, ONNX's inference for what it leaves open, and what the file states for
// what neither knows. Subgraphs are walked with the types that flow into them;
// a loop's body is walked until the types of what it carries no longer change.
//
// ONNX's data propagation is not used as such: the contents that our rules
// compute are a superset of it, and are handed to ONNX's inference as input
// data.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "io/check_types.h"
#include "io/constant_contents.h"
#include "io/importer.h"
#include "io/onnx_inference.h"
#include "io/type_proto.h"
#include "onnx_memopt/ir/op_info.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

using ir::Block;
using ir::BlockId;
using ir::Contents;
using ir::Dim;
using ir::Element;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::Shape;
using ir::Type;
using ir::Value;
using ir::ValueId;

// Rounds over a loop's body before what still changes is given up as unknown.
constexpr int kMaxRounds = 4;
// Visits per node of the model, on average, before loops are walked once only.
constexpr size_t kMaxVisits = 64;

// A condition's value; nullopt if it is not known before the run.
std::optional<bool> Truth(const Contents* contents) {
  const std::optional<int64_t> value = ir::OnlyInteger(contents);
  if (!value) return std::nullopt;
  return *value != 0;
}

bool IsTrue(const Contents* contents) {
  return Truth(contents).value_or(false);
}

std::shared_ptr<const Contents> Scalar(int64_t value) {
  Contents contents;
  contents.elements.push_back(Element::Integer(Dim(value)));
  return std::make_shared<const Contents>(std::move(contents));
}

class TypeInference {
 public:
  TypeInference(const ImportOptions& options, ImportState* state)
      : options_(options), state_(*state), graph_(state->graph) {}

  absl::Status Run() {
    NameDimsOfGivenShapes();
    for (ValueId input : graph_.block(ir::kMainBlock).params) {
      RETURN_IF_ERROR(SetInputType(input));
    }
    InferBlock(ir::kMainBlock);
    return CheckTypes(graph_);
  }

 private:
  const Type* TypeOf(ValueId id) const {
    return id == kNoValue ? nullptr : &graph_.value(id).type;
  }

  // The model's own statement, with its named dims; the names of the inputs'
  // dims are the only ones that can be bound, so others are unknown.
  Type StatedType(ValueId id) const {
    const onnx::TypeProto* proto = state_.stated_types[ir::Index(id)];
    return proto == nullptr ? Type() : FromTypeProto(*proto, names_);
  }

  void NameDim(const std::string& name) {
    if (names_.contains(name)) return;
    const auto bound = options_.dims.find(name);
    if (bound != options_.dims.end()) {
      names_.emplace(name, Dim(bound->second));
      return;
    }
    names_.emplace(name, Dim::Symbol(name));
    graph_.symbols.push_back(name);
  }

  // A shape that is given for one input also says what its named dims are in
  // the others.
  void NameDimsOfGivenShapes() {
    for (ValueId input : graph_.block(ir::kMainBlock).params) {
      const onnx::TypeProto* proto = state_.stated_types[ir::Index(input)];
      const auto given = options_.input_shapes.find(graph_.value(input).name);
      if (proto == nullptr || given == options_.input_shapes.end()) continue;
      const auto& dims = proto->tensor_type().shape().dim();
      for (int i = 0; i < dims.size(); ++i) {
        if (static_cast<size_t>(i) >= given->second.size()) break;
        if (dims[i].dim_param().empty()) continue;
        names_.try_emplace(dims[i].dim_param(),
                           Dim(given->second[static_cast<size_t>(i)]));
      }
    }
  }

  absl::Status SetInputType(ValueId id) {
    Value& value = graph_.mutable_value(id);
    const onnx::TypeProto* proto = state_.stated_types[ir::Index(id)];
    if (proto == nullptr) return absl::OkStatus();
    const auto given = options_.input_shapes.find(value.name);
    if (given != options_.input_shapes.end()) {
      value.type = FromTypeProto(*proto, names_);
      Shape shape;
      for (int64_t dim : given->second) shape.emplace_back(Dim(dim));
      value.type.shape = std::move(shape);
      return absl::OkStatus();
    }
    if (!proto->has_tensor_type() || !proto->tensor_type().has_shape()) {
      value.type = FromTypeProto(*proto, names_);
      return absl::OkStatus();
    }
    Shape shape;
    const auto& dims = proto->tensor_type().shape().dim();
    if (dims.size() > kMaxRank) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input \"", Printable(value.name), "\" has ", dims.size(),
          " dimensions, at most ", kMaxRank, " are allowed"));
    }
    for (int i = 0; i < dims.size(); ++i) {
      if (dims[i].has_dim_value() && dims[i].dim_value() > 0) {
        shape.emplace_back(Dim(dims[i].dim_value()));
        continue;
      }
      if (dims[i].has_dim_value()) {
        if (dims[i].dim_value() < -1) {
          return absl::InvalidArgumentError(absl::StrCat(
              "input \"", Printable(value.name), "\": dimension ", i, " is ",
              dims[i].dim_value(), "; expected a positive size"));
        }
        state_.Warn(absl::StrCat("input \"", Printable(value.name),
                                 "\": dimension ", i, " is stored as ",
                                 dims[i].dim_value(), "; read as dynamic"));
      }
      std::string name = dims[i].dim_param();
      if (name.empty()) name = absl::StrCat(value.name, "[", i, "]");
      NameDim(name);
      shape.emplace_back(names_.at(name));
    }
    value.type =
        Type::Tensor(FromTypeProto(*proto, names_).element, std::move(shape));
    return absl::OkStatus();
  }

  // `type` is what was inferred; what it leaves open is taken from the file.
  void SetResult(ValueId id, Type type,
                 std::shared_ptr<const Contents> contents) {
    if (id == kNoValue) return;
    Value& value = graph_.mutable_value(id);
    const Type stated = StatedType(id);
    Type inferred = type;
    if (!MergeType(stated, &type) && warned_.size() < graph_.num_values()) {
      WarnLie(id, stated, inferred);
    }
    value.type = std::move(type);
    value.shape_is_stated = stated.shape.has_value();
    if (contents != nullptr) value.contents = std::move(contents);
  }

  void WarnLie(ValueId id, const Type& stated, const Type& inferred) {
    if (warned_.empty()) warned_.resize(graph_.num_values());
    if (warned_[ir::Index(id)]) return;
    warned_[ir::Index(id)] = true;
    state_.Warn(absl::StrCat(
        "the file says that \"", Printable(graph_.value(id).name), "\" is ",
        ToString(stated), ", but ", ToString(inferred), " follows"));
  }

  void InferBlock(BlockId block) {
    for (NodeId node : graph_.block(block).nodes) InferNode(node);
  }

  void InferNode(NodeId id) {
    ++visits_;
    const Node& node = graph_.node(id);
    if (node.is_call) {
      InferBlock(node.blocks[0]);
      return;
    }
    if (node.domain.empty() && !node.blocks.empty()) {
      if (node.op_type == "If") return InferIf(node);
      if (node.op_type == "Loop") return InferLoop(node);
      if (node.op_type == "Scan") return InferScan(node);
      if (node.op_type == "SequenceMap") return InferSequenceMap(node);
    }
    InferOp(id);
    for (BlockId nested : node.blocks) {
      for (ValueId param : graph_.block(nested).params) SetParam(param, Type());
      InferBlock(nested);
    }
  }

  void InferOp(NodeId id) {
    const Node& node = graph_.node(id);
    ir::ShapeContext context{.node = node};
    for (ValueId operand : node.operands) {
      context.operand_types.push_back(TypeOf(operand));
      context.operand_contents.push_back(
          operand == kNoValue ? nullptr : graph_.value(operand).contents);
    }
    // Rules get a node's constant tensors (ConstantOfShape's value) as further
    // operands; ONNX's inference reads them from the attributes.
    llvm::SmallVector<Type, 1> constants;
    for (const ir::Attribute& attribute : node.attributes) {
      const auto* constant = std::get_if<ir::WeightId>(&attribute.value);
      if (constant == nullptr) continue;
      const ir::Weight& weight = graph_.weight(*constant);
      constants.push_back(WeightType(weight));
      context.operand_contents.push_back(ContentsOf(weight));
    }
    for (const Type& type : constants) context.operand_types.push_back(&type);
    context.result_types.resize(node.results.size());
    context.result_contents.resize(node.results.size());
    bool complete = SetConstantType(node, &context);
    if (!complete && node.info->shape != nullptr) {
      complete = node.info->shape(context);
    }
    if (!complete) AskOnnx(id, &context);
    for (size_t i = 0; i < node.results.size(); ++i) {
      SetResult(node.results[i], std::move(context.result_types[i]),
                std::move(context.result_contents[i]));
    }
  }

  static Type WeightType(const ir::Weight& weight) {
    Shape shape;
    for (int64_t dim : weight.dims) shape.emplace_back(Dim(dim));
    return Type::Tensor(weight.element, std::move(shape));
  }

  bool SetConstantType(const Node& node, ir::ShapeContext* context) const {
    if (node.results.empty() || node.results[0] == kNoValue) return false;
    const Value& value = graph_.value(node.results[0]);
    if (value.weight == ir::kNoWeight) return false;
    context->result_types[0] = WeightType(graph_.weight(value.weight));
    context->result_contents[0] = value.contents;
    return true;
  }

  void AskOnnx(NodeId id, ir::ShapeContext* context) {
    const Node& node = graph_.node(id);
    const NodeSource& source = state_.node_sources[ir::Index(id)];
    OnnxInferenceRequest request{.op_type = node.op_type,
                                 .domain = node.domain,
                                 .opset = node.opset,
                                 .operand_types = context->operand_types,
                                 .operand_contents = context->operand_contents,
                                 .num_results = node.results.size()};
    request.operand_types.resize(node.operands.size());
    request.operand_contents.resize(node.operands.size());
    if (source.proto != nullptr) {
      for (const onnx::AttributeProto& a : source.proto->attribute()) {
        const onnx::AttributeProto* resolved =
            ResolveAttribute(a, source.frame);
        if (resolved != nullptr) request.attributes[a.name()] = resolved;
      }
    }
    for (ValueId operand : node.operands) {
      request.operand_data.push_back(
          operand == kNoValue ? nullptr : SmallData(graph_.value(operand)));
    }
    OnnxInferenceResult result = InferWithOnnx(request, &names_);
    if (!result.error.empty()) {
      state_.Warn(absl::StrCat("node \"", Printable(graph_.DisplayName(id)),
                               "\" (", Printable(node.op_type),
                               "): ", Printable(result.error)));
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      MergeType(result.result_types[i], &context->result_types[i]);
    }
  }

  // The proto of a small constant whose bytes are in it. Those of a payload are
  // not: its contents stand for it.
  const onnx::TensorProto* SmallData(const Value& value) const {
    if (value.weight == ir::kNoWeight || value.contents == nullptr ||
        static_cast<int64_t>(graph_.weight(value.weight).bytes.size()) >
            kMinPayloadBytes) {
      return nullptr;
    }
    return state_.weight_protos[ir::Index(value.weight)];
  }

  void SetParam(ValueId param, Type type,
                std::shared_ptr<const Contents> contents = nullptr) {
    Value& value = graph_.mutable_value(param);
    MergeType(StatedType(param), &type);
    value.type = std::move(type);
    value.contents = std::move(contents);
  }

  // What a walk over a block before has set.
  void Reset(BlockId block) {
    for (NodeId id : graph_.block(block).nodes) {
      const Node& node = graph_.node(id);
      for (ValueId result : node.results) {
        if (result == kNoValue) continue;
        Value& value = graph_.mutable_value(result);
        value.type = Type();
        if (value.weight == ir::kNoWeight && node.op_type != "Constant") {
          value.contents = nullptr;
        }
      }
      for (BlockId nested : node.blocks) Reset(nested);
    }
  }

  // The branch that an If takes, where its condition is known before the run.
  std::optional<BlockId> BranchTaken(const Node& node) const {
    if (node.operands.empty() || node.operands[0] == kNoValue) {
      return std::nullopt;
    }
    const std::optional<bool> condition =
        Truth(graph_.value(node.operands[0]).contents.get());
    if (!condition) return std::nullopt;
    const auto* const branch = std::find_if(
        node.blocks.begin(), node.blocks.end(), [&](BlockId block) {
          return graph_.block(block).attribute_name ==
                 (*condition ? "then_branch" : "else_branch");
        });
    if (branch == node.blocks.end()) return std::nullopt;
    return *branch;
  }

  void InferIf(const Node& node) {
    for (BlockId block : node.blocks) InferBlock(block);
    if (const std::optional<BlockId> taken = BranchTaken(node)) {
      const auto& results = graph_.block(*taken).results;
      for (size_t i = 0; i < node.results.size() && i < results.size(); ++i) {
        const Value& result = graph_.value(results[i]);
        SetResult(node.results[i], result.type, result.contents);
      }
      return;
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      std::optional<Type> joined;
      for (BlockId block : node.blocks) {
        const auto& results = graph_.block(block).results;
        const Type type =
            i < results.size() ? graph_.value(results[i]).type : Type();
        joined = joined ? JoinTypes(*joined, type) : type;
      }
      SetResult(node.results[i], joined.value_or(Type()), nullptr);
    }
  }

  // What is left of a type whose shape is not the same in every trip.
  static Type WithoutShape(Type type) {
    type.shape.reset();
    type.nested = nullptr;
    return type;
  }

  // Walks `body` with its params `first`... carrying `carried`, until each
  // result type agrees with the param that it becomes; `carried` holds the
  // types for which that is so. Shapes that do not settle in a few rounds are
  // given up, and so are those of loops nested so deep that their rounds, which
  // multiply, have taken too long already.
  void InferCarried(BlockId body, size_t first_param, size_t first_result,
                    std::vector<Type>* carried) {
    const Block& block = graph_.block(body);
    for (int round = 0;; ++round) {
      const bool give_up =
          round == kMaxRounds || visits_ > kMaxVisits * graph_.num_nodes();
      for (size_t i = 0; i < carried->size(); ++i) {
        Type& type = (*carried)[i];
        if (give_up) type = WithoutShape(std::move(type));
        if (first_param + i < block.params.size()) {
          SetParam(block.params[first_param + i], type);
        }
      }
      Reset(body);
      InferBlock(body);
      if (give_up) return;
      bool changed = false;
      for (size_t i = 0; i < carried->size(); ++i) {
        if (first_result + i >= block.results.size()) continue;
        const Type& next = graph_.value(block.results[first_result + i]).type;
        Type joined = JoinTypes((*carried)[i], next);
        if (ToString(joined) != ToString((*carried)[i])) {
          (*carried)[i] = std::move(joined);
          changed = true;
        }
      }
      if (!changed) return;
    }
  }

  // A result stacked from one slice per trip, along `axis`.
  static Type Stacked(const Type& slice, const std::optional<Dim>& trips,
                      int64_t axis) {
    Type type = slice;
    if (!type.is_tensor() || !type.shape) return type;
    const auto rank = static_cast<int64_t>(type.shape->size()) + 1;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) {
      type.shape.reset();
      return type;
    }
    type.shape->insert(type.shape->begin() + axis, trips);
    return type;
  }

  void InferLoop(const Node& node) {
    const BlockId body = node.blocks[0];
    const Block& block = graph_.block(body);
    const size_t carried_count =
        node.operands.size() > 2 ? node.operands.size() - 2 : 0;
    std::vector<Type> carried;
    for (size_t i = 0; i < carried_count; ++i) {
      const Type* type = TypeOf(node.operands[i + 2]);
      carried.push_back(type == nullptr ? Type() : *type);
    }
    const auto scalar = [](ir::ElementType element) {
      return Type::Tensor(element, Shape());
    };
    if (!block.params.empty()) {
      SetParam(block.params[0], scalar(ir::ElementType::kInt64));
    }
    if (block.params.size() > 1) {
      // The body runs only while the condition holds.
      SetParam(block.params[1], scalar(ir::ElementType::kBool), Scalar(1));
    }
    InferCarried(body, /*first_param=*/2, /*first_result=*/1, &carried);
    std::optional<Dim> trips;
    const bool runs_all =
        (node.operands.size() < 2 || node.operands[1] == kNoValue ||
         IsTrue(graph_.value(node.operands[1]).contents.get())) &&
        !block.results.empty() &&
        IsTrue(graph_.value(block.results[0]).contents.get());
    if (runs_all && !node.operands.empty() && node.operands[0] != kNoValue) {
      const Contents* count = graph_.value(node.operands[0]).contents.get();
      if (count != nullptr && count->elements.size() == 1) {
        trips = count->elements[0].integer;
      }
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (i < carried_count) {
        SetResult(node.results[i], carried[i], nullptr);
      } else if (i + 1 < block.results.size()) {
        const Type& slice = graph_.value(block.results[i + 1]).type;
        SetResult(node.results[i], Stacked(slice, trips, 0), nullptr);
      }
    }
  }

  static int64_t AxisAt(const std::vector<int64_t>* axes, size_t i) {
    return axes != nullptr && i < axes->size() ? (*axes)[i] : 0;
  }

  void InferScan(const Node& node) {
    const BlockId body = node.blocks[0];
    const Block& block = graph_.block(body);
    const int64_t stated_inputs = IntAttribute(node, "num_scan_inputs", 0);
    // Opset 8 has an operand for sequence lengths first, and a batch dimension.
    const size_t first = node.opset < 9 && node.opset > 0 ? 1 : 0;
    const size_t operands =
        node.operands.size() > first ? node.operands.size() - first : 0;
    const size_t scanned = std::min(
        operands, static_cast<size_t>(std::max<int64_t>(stated_inputs, 0)));
    const size_t states = operands - scanned;
    const std::vector<int64_t>* in_axes =
        IntsAttribute(node, "scan_input_axes");
    std::optional<Dim> trips;
    for (size_t i = 0; i < scanned && first == 0; ++i) {
      const Type* type = TypeOf(node.operands[first + states + i]);
      if (type == nullptr || states + i >= block.params.size()) continue;
      Type slice = *type;
      if (slice.is_tensor() && slice.shape) {
        const auto rank = static_cast<int64_t>(slice.shape->size());
        int64_t axis = AxisAt(in_axes, i);
        if (axis < 0) axis += rank;
        if (axis >= 0 && axis < rank) {
          if (!trips) trips = (*slice.shape)[static_cast<size_t>(axis)];
          slice.shape->erase(slice.shape->begin() + axis);
        } else {
          slice.shape.reset();
        }
      }
      SetParam(block.params[states + i], std::move(slice));
    }
    std::vector<Type> carried;
    for (size_t i = 0; i < states; ++i) {
      const Type* type = TypeOf(node.operands[first + i]);
      carried.push_back(type == nullptr || first > 0 ? Type() : *type);
    }
    InferCarried(body, /*first_param=*/0, /*first_result=*/0, &carried);
    if (first > 0) return TakeStatedTypes(node);
    const std::vector<int64_t>* out_axes =
        IntsAttribute(node, "scan_output_axes");
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (i < states) {
        SetResult(node.results[i], carried[i], nullptr);
      } else if (i < block.results.size()) {
        const Type& slice = graph_.value(block.results[i]).type;
        SetResult(node.results[i],
                  Stacked(slice, trips, AxisAt(out_axes, i - states)), nullptr);
      }
    }
  }

  // Only what the file states.
  void TakeStatedTypes(const Node& node) {
    for (ValueId result : node.results) SetResult(result, Type(), nullptr);
  }

  void InferSequenceMap(const Node& node) {
    const BlockId body = node.blocks[0];
    const Block& block = graph_.block(body);
    for (size_t i = 0; i < block.params.size(); ++i) {
      Type type;
      if (i < node.operands.size() && node.operands[i] != kNoValue) {
        type = graph_.value(node.operands[i]).type;
        if (type.kind == ir::TypeKind::kSequence) {
          type = type.nested ? *type.nested : Type();
        }
      }
      SetParam(block.params[i], std::move(type));
    }
    InferBlock(body);
    for (size_t i = 0; i < node.results.size(); ++i) {
      Type type;
      type.kind = ir::TypeKind::kSequence;
      if (i < block.results.size()) {
        type.nested =
            std::make_shared<const Type>(graph_.value(block.results[i]).type);
      }
      SetResult(node.results[i], std::move(type), nullptr);
    }
  }

  const ImportOptions& options_;
  ImportState& state_;
  ir::Graph& graph_;
  NamedDims names_;
  std::vector<bool> warned_;
  size_t visits_ = 0;  // of nodes
};

}  // namespace

absl::Status InferTypes(const ImportOptions& options, ImportState* state) {
  return TypeInference(options, state).Run();
}

}  // namespace onnx_memopt::io
