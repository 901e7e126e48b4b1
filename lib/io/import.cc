#include "onnx_memopt/io/import.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "io/attribute_proto.h"
#include "io/constant_contents.h"
#include "io/importer.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

using ir::Block;
using ir::BlockId;
using ir::BlockKind;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::Value;
using ir::ValueId;
using ir::ValueKind;

// Bounds on what a small file can unfold to.
constexpr size_t kMinExpandedNodes = 50'000;
constexpr size_t kMaxExpansion = 64;
constexpr int kMaxBlockDepth = 64;

absl::string_view NormalDomain(const std::string& domain) {
  return domain == "ai.onnx" ? absl::string_view() : absl::string_view(domain);
}

std::string FunctionKey(absl::string_view domain, absl::string_view name,
                        absl::string_view overload) {
  return absl::StrCat(domain, "\x1f", name, "\x1f", overload);
}

std::string Describe(const onnx::NodeProto& proto) {
  std::string name = proto.name();
  for (int i = 0; name.empty() && i < proto.output_size(); ++i) {
    name = proto.output(i);
  }
  return absl::StrCat("node \"", Printable(name), "\" (",
                      Printable(proto.op_type()), ")");
}

// Names of one graph; the chain of them is searched from the inside out.
using Scope = absl::flat_hash_map<absl::string_view, ValueId>;

class Importer {
 public:
  Importer(const LoadedModel& model, ImportState* state)
      : model_(model), state_(*state), graph_(state->graph) {}

  absl::Status Run() {
    const onnx::ModelProto& proto = model_.proto();
    for (const onnx::FunctionProto& function : proto.functions()) {
      const std::string key = FunctionKey(NormalDomain(function.domain()),
                                          function.name(), function.overload());
      file_nodes_ += static_cast<size_t>(function.node_size());
      if (!functions_.emplace(key, &function).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("function \"", Printable(function.domain()), ".",
                         Printable(function.name()), "\" is defined twice"));
      }
    }
    state_.Reserve(proto.graph());
    AddBlock({.kind = BlockKind::kMain});
    opsets_ = OpsetsOf(proto.opset_import());
    return ImportGraph(proto.graph(), ir::kMainBlock, nullptr);
  }

 private:
  using Opsets = absl::flat_hash_map<std::string, int>;

  template <typename Imports>
  static Opsets OpsetsOf(const Imports& imports) {
    Opsets opsets;
    for (const onnx::OperatorSetIdProto& opset : imports) {
      opsets[NormalDomain(opset.domain())] =
          static_cast<int>(std::clamp<int64_t>(opset.version(), 0, INT32_MAX));
    }
    return opsets;
  }

  BlockId AddBlock(Block block) {
    block.from_source = true;
    return graph_.AddBlock(std::move(block));
  }

  ValueId AddValue(Value value, const onnx::TypeProto* stated = nullptr) {
    value.source_block = value.block;
    state_.stated_types.push_back(stated);
    return graph_.AddValue(std::move(value));
  }

  ir::WeightId AddWeight(ir::Weight weight, const onnx::TensorProto* proto) {
    state_.weight_protos.push_back(proto);
    return graph_.AddWeight(std::move(weight));
  }

  // Puts the name in the innermost scope.
  absl::Status Define(absl::string_view name, ValueId value,
                      absl::string_view what) {
    if (!scopes_.back().emplace(name, value).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          what, ": tensor \"", Printable(name), "\" is defined twice"));
    }
    return absl::OkStatus();
  }

  // The text that names the node is made only for the error.
  absl::Status Define(absl::string_view name, ValueId value,
                      const onnx::NodeProto& node) {
    if (scopes_.back().emplace(name, value).second) return absl::OkStatus();
    return Define(name, value, Describe(node));
  }

  std::optional<ValueId> Lookup(absl::string_view name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto it = scope->find(name);
      if (it != scope->end()) return it->second;
    }
    return std::nullopt;
  }

  absl::Status AddInitializer(BlockId block, ir::Weight weight,
                              const std::string& name,
                              const onnx::TensorProto* proto, bool is_input) {
    Value value;
    value.name = name;
    value.kind = ValueKind::kInitializer;
    // In older versions every initializer had to be listed as an input: it is
    // a constant that stays.
    const bool had_to_be = model_.proto().has_ir_version() &&
                           model_.proto().ir_version() < kInitializersApart;
    value.overridable = is_input && !had_to_be;
    value.pinned = is_input && had_to_be;
    value.block = block;
    ir::Shape shape;
    for (int64_t dim : weight.dims) shape.emplace_back(dim);
    value.type = ir::Type::Tensor(weight.element, std::move(shape));
    value.contents = ContentsOf(weight);
    value.weight = AddWeight(std::move(weight), proto);
    const ValueId id = AddValue(std::move(value));
    graph_.mutable_block(block).initializers.push_back(id);
    return Define(name, id, "initializer");
  }

  absl::Status ImportInitializers(const onnx::GraphProto& proto,
                                  BlockId block) {
    absl::flat_hash_map<absl::string_view, bool> inputs;
    if (!proto.initializer().empty() || !proto.sparse_initializer().empty()) {
      for (const auto& input : proto.input()) inputs[input.name()] = true;
    }
    for (const onnx::TensorProto& tensor : proto.initializer()) {
      if (tensor.name().empty()) {
        return absl::InvalidArgumentError("an initializer has no name");
      }
      ASSIGN_OR_RETURN(ir::Weight weight,
                       ResolveTensor(model_, tensor, tensor.name()));
      RETURN_IF_ERROR(AddInitializer(block, std::move(weight), tensor.name(),
                                     &tensor, inputs.contains(tensor.name())));
    }
    for (const onnx::SparseTensorProto& tensor : proto.sparse_initializer()) {
      const std::string& name = tensor.values().name();
      if (name.empty()) {
        return absl::InvalidArgumentError("a sparse initializer has no name");
      }
      ASSIGN_OR_RETURN(ir::Weight weight,
                       ResolveSparseTensor(model_, tensor, name));
      RETURN_IF_ERROR(AddInitializer(block, std::move(weight), name,
                                     /*proto=*/nullptr, inputs.contains(name)));
    }
    return absl::OkStatus();
  }

  absl::Status ImportInputs(const onnx::GraphProto& proto, BlockId block) {
    const bool is_main = block == ir::kMainBlock;
    for (const onnx::ValueInfoProto& input : proto.input()) {
      if (input.name().empty()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "an input of graph \"", Printable(proto.name()), "\" has no name"));
      }
      const auto it = scopes_.back().find(input.name());
      if (it != scopes_.back().end() &&
          graph_.value(it->second).kind == ValueKind::kInitializer) {
        continue;
      }
      Value value;
      value.name = input.name();
      value.kind = is_main ? ValueKind::kInput : ValueKind::kBlockParam;
      value.block = block;
      const ValueId id = AddValue(std::move(value), &input.type());
      graph_.mutable_block(block).params.push_back(id);
      RETURN_IF_ERROR(Define(input.name(), id, "graph input"));
    }
    return absl::OkStatus();
  }

  template <typename ValueInfos>
  static void CollectTypes(
      const ValueInfos& infos,
      absl::flat_hash_map<absl::string_view, const onnx::TypeProto*>* types) {
    for (const onnx::ValueInfoProto& info : infos) {
      if (info.has_type()) types->emplace(info.name(), &info.type());
    }
  }

  // Gives every result of every node its value; for a function body,
  // `call_results` are the values that its outputs define.
  template <typename Nodes, typename ValueInfos>
  absl::Status DefineResults(const Nodes& nodes, const ValueInfos& infos,
                             const ValueInfos* outputs, BlockId block,
                             const Scope* call_results) {
    absl::flat_hash_map<absl::string_view, const onnx::TypeProto*> stated;
    CollectTypes(infos, &stated);
    if (outputs != nullptr) CollectTypes(*outputs, &stated);
    for (const onnx::NodeProto& node : nodes) {
      for (const std::string& name : node.output()) {
        if (name.empty()) continue;
        if (call_results != nullptr) {
          const auto it = call_results->find(name);
          if (it != call_results->end()) {
            RETURN_IF_ERROR(Define(name, it->second, node));
            continue;
          }
        }
        Value value;
        value.name = name;
        value.block = block;
        const auto it = stated.find(name);
        const ValueId id = AddValue(std::move(value),
                                    it == stated.end() ? nullptr : it->second);
        RETURN_IF_ERROR(Define(name, id, node));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ImportGraph(const onnx::GraphProto& proto, BlockId block,
                           const CallFrame* frame) {
    if (++depth_ > kMaxBlockDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat("graphs are nested deeper than ", kMaxBlockDepth));
    }
    scopes_.emplace_back();
    graph_.mutable_block(block).name = proto.name();
    RETURN_IF_ERROR(ImportInitializers(proto, block));
    RETURN_IF_ERROR(ImportInputs(proto, block));
    RETURN_IF_ERROR(DefineResults(proto.node(), proto.value_info(),
                                  &proto.output(), block, nullptr));
    RETURN_IF_ERROR(ImportNodes(proto.node(), block, frame));
    for (const onnx::ValueInfoProto& output : proto.output()) {
      const std::optional<ValueId> value = Lookup(output.name());
      if (!value || *value == kNoValue) {
        return absl::InvalidArgumentError(absl::StrCat(
            "output \"", Printable(output.name()), "\" of graph \"",
            Printable(proto.name()), "\" is not produced by any node"));
      }
      graph_.mutable_block(block).results.push_back(*value);
    }
    PinNamedElsewhere(proto, block);
    RETURN_IF_ERROR(SortBlock(block));
    scopes_.pop_back();
    --depth_;
    return absl::OkStatus();
  }

  void PinNamedElsewhere(const onnx::GraphProto& proto, BlockId block) {
    for (const auto& annotation : proto.quantization_annotation()) {
      for (const auto& entry : annotation.quant_parameter_tensor_names()) {
        const std::optional<ValueId> value = Lookup(entry.value());
        if (!value || *value == kNoValue) continue;
        graph_.mutable_value(*value).pinned = true;
      }
    }
    // Training graphs see the names of the main graph.
    if (block != ir::kMainBlock || model_.proto().training_info().empty()) {
      return;
    }
    for (ValueId value : graph_.block(block).initializers) {
      graph_.mutable_value(value).pinned = true;
    }
  }

  absl::Status SortBlock(BlockId block) {
    ASSIGN_OR_RETURN(std::vector<NodeId> order,
                     TopologicalOrder(graph_, graph_.block(block).nodes));
    if (order != graph_.block(block).nodes) {
      state_.Warn(absl::StrCat("nodes of graph \"",
                               Printable(graph_.block(block).name),
                               "\" were not in topological order"));
      graph_.mutable_block(block).nodes = std::move(order);
    }
    return absl::OkStatus();
  }

  template <typename Nodes>
  absl::Status ImportNodes(const Nodes& nodes, BlockId block,
                           const CallFrame* frame) {
    for (int i = 0; i < nodes.size(); ++i) {
      RETURN_IF_ERROR(
          ImportNode(nodes[i], static_cast<uint32_t>(i), block, frame));
    }
    return absl::OkStatus();
  }

  NodeId AddNode(Node node, const onnx::NodeProto* proto,
                 const CallFrame* frame) {
    state_.node_sources.push_back({proto, frame});
    const BlockId block = node.block;
    const NodeId id = graph_.AddNode(std::move(node));
    graph_.mutable_block(block).nodes.push_back(id);
    return id;
  }

  absl::Status ImportNode(const onnx::NodeProto& proto, uint32_t source_index,
                          BlockId block, const CallFrame* frame) {
    const size_t limit = kMinExpandedNodes + kMaxExpansion * file_nodes_;
    if (frame != nullptr && ++expanded_nodes_ > limit) {
      return absl::InvalidArgumentError(
          absl::StrCat(Describe(proto),
                       ": the model's functions expand to "
                       "more than ",
                       limit, " nodes"));
    }
    Node node;
    node.name = proto.name();
    node.op_type = proto.op_type();
    node.domain = std::string(NormalDomain(proto.domain()));
    const auto opset = opsets_.find(node.domain);
    node.opset = opset == opsets_.end() ? 0 : opset->second;
    node.block = block;
    node.source_block = block;
    node.source_index = source_index;
    for (const std::string& name : proto.input()) {
      if (name.empty()) {
        node.operands.push_back(kNoValue);
        continue;
      }
      const std::optional<ValueId> value = Lookup(name);
      if (!value) {
        return absl::InvalidArgumentError(
            absl::StrCat(Describe(proto), ": input \"", Printable(name),
                         "\" is not defined anywhere"));
      }
      node.operands.push_back(*value);
    }
    for (const std::string& name : proto.output()) {
      node.results.push_back(name.empty() ? kNoValue : *Lookup(name));
    }
    const auto function =
        functions_.empty()
            ? functions_.end()
            : functions_.find(
                  FunctionKey(node.domain, proto.op_type(), proto.overload()));
    node.is_call = function != functions_.end();
    const bool is_call = node.is_call;
    const NodeId id = AddNode(std::move(node), &proto, frame);
    for (ValueId result : graph_.node(id).results) {
      // A result of a function's body that is the call's is the call's.
      if (result == kNoValue) continue;
      Value& value = graph_.mutable_value(result);
      if (value.producer == ir::kNoNode) value.producer = id;
    }
    if (is_call) return ImportCall(*function->second, proto, id, frame);
    return ImportAttributes(proto, id, frame);
  }

  absl::Status ImportAttributes(const onnx::NodeProto& proto, NodeId id,
                                const CallFrame* frame) {
    for (const onnx::AttributeProto& stated : proto.attribute()) {
      const onnx::AttributeProto* attribute = ResolveAttribute(stated, frame);
      if (attribute == nullptr) continue;
      if (attribute->has_g() || !attribute->graphs().empty()) {
        if (attribute->has_g()) {
          RETURN_IF_ERROR(
              ImportSubgraph(attribute->g(), stated.name(), id, frame));
        }
        for (const onnx::GraphProto& graph : attribute->graphs()) {
          RETURN_IF_ERROR(ImportSubgraph(graph, stated.name(), id, frame));
        }
        continue;
      }
      ASSIGN_OR_RETURN(ir::AttributeValue value,
                       ImportAttribute(*attribute, id));
      graph_.mutable_node(id).attributes.push_back(
          {stated.name(), std::move(value)});
    }
    if (graph_.node(id).op_type == "Constant" &&
        graph_.node(id).domain.empty()) {
      SetConstant(id);
    }
    return absl::OkStatus();
  }

  absl::Status ImportSubgraph(const onnx::GraphProto& proto,
                              const std::string& attribute_name, NodeId owner,
                              const CallFrame* frame) {
    const BlockId block = AddBlock({.kind = BlockKind::kSubgraph,
                                    .owner = owner,
                                    .attribute_name = attribute_name});
    graph_.mutable_node(owner).blocks.push_back(block);
    return ImportGraph(proto, block, frame);
  }

  absl::StatusOr<ir::AttributeValue> ImportAttribute(
      const onnx::AttributeProto& a, NodeId node) {
    if (a.type() != onnx::AttributeProto::TENSOR) return FromAttributeProto(a);
    const Node& owner = graph_.node(node);
    const bool is_result =
        !owner.results.empty() && owner.results[0] != kNoValue;
    const std::string name =
        is_result ? graph_.value(owner.results[0]).name : a.t().name();
    ASSIGN_OR_RETURN(ir::Weight weight, ResolveTensor(model_, a.t(), name));
    return ir::AttributeValue(AddWeight(std::move(weight), &a.t()));
  }

  // A Constant's result is a weight, with its elements where they are few.
  void SetConstant(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.results.empty() || node.results[0] == kNoValue) return;
    Value& value = graph_.mutable_value(node.results[0]);
    for (const ir::Attribute& attribute : node.attributes) {
      if (const auto* weight = std::get_if<ir::WeightId>(&attribute.value)) {
        value.weight = *weight;
        value.contents = ContentsOf(graph_.weight(*weight));
        return;
      }
      value.contents = ContentsOf(attribute.value);
      if (value.contents != nullptr) return;
    }
  }

  absl::Status ImportCall(const onnx::FunctionProto& function,
                          const onnx::NodeProto& proto, NodeId call,
                          const CallFrame* caller) {
    for (const CallFrame* f = caller; f != nullptr; f = f->caller) {
      if (f->function == &function) {
        return absl::InvalidArgumentError(
            absl::StrCat(Describe(proto), ": function \"",
                         Printable(function.name()), "\" calls itself"));
      }
    }
    if (proto.input_size() > function.input_size() ||
        proto.output_size() > function.output_size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          Describe(proto), ": has ", proto.input_size(), " inputs and ",
          proto.output_size(), " outputs; function \"",
          Printable(function.name()), "\" takes ", function.input_size(),
          " and gives ", function.output_size()));
    }
    if (++depth_ > kMaxBlockDepth) {
      return absl::InvalidArgumentError(absl::StrCat(
          "graphs and calls are nested deeper than ", kMaxBlockDepth));
    }
    const CallFrame* frame = MakeFrame(function, proto, caller);
    const BlockId body = AddBlock(
        {.kind = BlockKind::kCallBody, .owner = call, .name = function.name()});
    graph_.mutable_node(call).blocks.push_back(body);
    // A function sees its own names only, and its own opsets.
    std::vector<Scope> outer_scopes = std::exchange(scopes_, {});
    Opsets outer_opsets =
        std::exchange(opsets_, OpsetsOf(function.opset_import()));
    scopes_.emplace_back();
    RETURN_IF_ERROR(ImportBody(function, proto, call, body, frame));
    scopes_ = std::move(outer_scopes);
    opsets_ = std::move(outer_opsets);
    --depth_;
    return absl::OkStatus();
  }

  const CallFrame* MakeFrame(const onnx::FunctionProto& function,
                             const onnx::NodeProto& call,
                             const CallFrame* caller) {
    auto frame = std::make_unique<CallFrame>();
    frame->function = &function;
    frame->caller = caller;
    for (const onnx::AttributeProto& a : function.attribute_proto()) {
      frame->attributes[a.name()] = &a;
    }
    for (const onnx::AttributeProto& a : call.attribute()) {
      const onnx::AttributeProto* resolved = ResolveAttribute(a, caller);
      if (resolved != nullptr) frame->attributes[a.name()] = resolved;
    }
    state_.frames.push_back(std::move(frame));
    return state_.frames.back().get();
  }

  absl::Status ImportBody(const onnx::FunctionProto& function,
                          const onnx::NodeProto& proto, NodeId call,
                          BlockId body, const CallFrame* frame) {
    for (int i = 0; i < function.input_size(); ++i) {
      const auto index = static_cast<size_t>(i);
      const auto& operands = graph_.node(call).operands;
      RETURN_IF_ERROR(
          Define(function.input(i),
                 index < operands.size() ? operands[index] : kNoValue, proto));
    }
    const llvm::SmallVector<ValueId, 2> results = graph_.node(call).results;
    Scope call_results;
    std::vector<int> passed_through;
    for (int i = 0; i < static_cast<int>(results.size()); ++i) {
      const ValueId result = results[static_cast<size_t>(i)];
      if (result == kNoValue) continue;
      const std::string& name = function.output(i);
      const bool is_input = scopes_.back().contains(name);
      if (is_input || !call_results.emplace(name, result).second) {
        passed_through.push_back(i);
      }
    }
    RETURN_IF_ERROR(
        DefineResults(function.node(), function.value_info(),
                      static_cast<decltype(&function.value_info())>(nullptr),
                      body, &call_results));
    RETURN_IF_ERROR(ImportNodes(function.node(), body, frame));
    // An output that is an input, or one value under two output names: the call
    // defines a value of its own for it, the same bytes under another name.
    for (int i : passed_through) {
      const std::optional<ValueId> from = Lookup(function.output(i));
      if (!from || *from == kNoValue) {
        return absl::InvalidArgumentError(absl::StrCat(
            Describe(proto), ": output ", i, " of function \"",
            Printable(function.name()), "\" is an input that is left out"));
      }
      Node identity;
      identity.op_type = "Identity";
      identity.opset = 1;
      identity.block = body;
      identity.operands.push_back(*from);
      identity.results.push_back(results[static_cast<size_t>(i)]);
      AddNode(std::move(identity), nullptr, nullptr);
    }
    for (int i = 0; i < static_cast<int>(results.size()); ++i) {
      const ValueId result = results[static_cast<size_t>(i)];
      if (result == kNoValue) continue;
      if (!Lookup(function.output(i))) {
        return absl::InvalidArgumentError(absl::StrCat(
            "output \"", Printable(function.output(i)), "\" of function \"",
            Printable(function.name()), "\" is not produced by any node"));
      }
      graph_.mutable_block(body).results.push_back(result);
    }
    return SortBlock(body);
  }

  const LoadedModel& model_;
  ImportState& state_;
  ir::Graph& graph_;
  absl::flat_hash_map<std::string, const onnx::FunctionProto*> functions_;
  std::vector<Scope> scopes_;
  Opsets opsets_;
  int depth_ = 0;
  size_t file_nodes_ = 0;      // in the bodies of functions, as stored
  size_t expanded_nodes_ = 0;  // in those of calls
};

}  // namespace

absl::StatusOr<ir::Graph> Import(std::shared_ptr<const LoadedModel> model,
                                 const ImportOptions& options) {
  ImportState state;
  const LoadedModel& source = *model;
  state.graph.payload_owner = std::move(model);
  if (source.file() != nullptr) {
    // The owner above keeps the file mapped.
    state.graph.drop_resident = [file = source.file()] {
      file->DropResident();
    };
  }
  RETURN_IF_ERROR(Importer(source, &state).Run());
  RETURN_IF_ERROR(InferTypes(options, &state));
  state.graph.sizes_are_bound =
      !options.dims.empty() || !options.input_shapes.empty();
  if (state.warnings_left_out > 0) {
    state.graph.warnings.push_back(
        absl::StrCat("... and ", state.warnings_left_out, " more"));
  }
  return std::move(state.graph);
}

}  // namespace onnx_memopt::io
