#include "onnx_memopt/io/export.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "io/attribute_proto.h"
#include "io/payload_table.h"
#include "io/type_proto.h"
#include "onnx_memopt/io/payload_scan.h"
#include "onnx_memopt/io/tensor_values.h"
#include "onnx_memopt/ir/weight_reader.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

using ir::Block;
using ir::BlockId;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

class Exporter {
 public:
  Exporter(const LoadedModel& source, const ir::Graph& graph,
           const ExportOptions& options)
      : source_(source),
        graph_(graph),
        metadata_(options.metadata),
        made_(options.made) {}

  // `proto` is the source's graph that `id` was read from.
  absl::Status RewriteGraph(BlockId id, onnx::GraphProto* proto) {
    const Block& block = graph_.block(id);
    Left& left = left_[id];
    left.nodes.Swap(proto->mutable_node());
    const absl::flat_hash_set<std::string> removed =
        RemovedNames(block, left.nodes, *proto);
    if (!removed.empty()) TakeOut(removed, &left, proto);
    EraseReplaced(block, proto);
    Retype(block, proto);
    RETURN_IF_ERROR(WriteNodes(block, proto));
    return WriteInitializers(block, proto);
  }

  // Inputs and outputs of the main graph, where a rewrite has others than the
  // source. `listed`: weights are inputs too, as they had to be in older
  // versions of ONNX.
  void RewriteInterface(const Block& main, bool listed,
                        onnx::GraphProto* proto) {
    absl::flat_hash_set<absl::string_view> inputs;
    for (ValueId id : main.params) inputs.insert(graph_.value(id).name);
    for (ValueId id : main.initializers) {
      if (listed || graph_.value(id).overridable) {
        inputs.insert(graph_.value(id).name);
      }
    }
    EraseIf(proto->mutable_input(), [&](const onnx::ValueInfoProto& input) {
      return !inputs.contains(input.name());
    });
    for (const auto& input : proto->input()) inputs.erase(input.name());
    for (ValueId id : main.params) {
      const ir::Value& value = graph_.value(id);
      if (inputs.contains(value.name)) {
        MakeValueInfo(value, proto->add_input());
      } else if (value.source_block == ir::kNoBlock) {
        SetType(value, proto->mutable_input());
      }
    }
    const auto& outputs = proto->output();
    const bool same_outputs = std::equal(
        outputs.begin(), outputs.end(), main.results.begin(),
        main.results.end(), [&](const onnx::ValueInfoProto& o, ValueId id) {
          return o.name() == graph_.value(id).name;
        });
    if (same_outputs) return;
    google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> source;
    source.Swap(proto->mutable_output());
    for (ValueId id : main.results) {
      const ir::Value& value = graph_.value(id);
      onnx::ValueInfoProto* output = proto->add_output();
      const auto it =
          std::find_if(source.begin(), source.end(),
                       [&](const auto& o) { return o.name() == value.name; });
      if (it != source.end()) {
        *output = *it;
      } else {
        MakeValueInfo(value, output);
      }
    }
  }

  // An input of the source that a rewrite takes with another shape.
  void SetType(const ir::Value& value,
               google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>* list) {
    for (onnx::ValueInfoProto& input : *list) {
      if (input.name() != value.name) continue;
      *input.mutable_type() = ToTypeProto(value.type, &dims_);
    }
  }

  // Weights that a pass made, or moved into a subgraph.
  bool HasNewWeights() const {
    for (size_t i = 0; i < graph_.num_blocks(); ++i) {
      const BlockId block{static_cast<uint32_t>(i)};
      for (ValueId id : graph_.block(block).initializers) {
        if (graph_.value(id).source_block != block) return true;
      }
    }
    return false;
  }

  // That of ONNX's own operators; 0 where there are none.
  int Opset() const {
    int opset = 0;
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      const NodeId id{static_cast<uint32_t>(i)};
      const Node& node = graph_.node(id);
      if (!graph_.erased(id) && node.domain.empty() &&
          graph_.block(node.block).kind != ir::BlockKind::kCallBody) {
        opset = std::max(opset, node.opset);
      }
    }
    return opset;
  }

  // The types of inputs that were bound to sizes for good.
  void BindInputs(const Block& main, onnx::GraphProto* proto) {
    absl::flat_hash_map<absl::string_view, ValueId> inputs;
    for (ValueId id : main.params) inputs[graph_.value(id).name] = id;
    for (onnx::ValueInfoProto& input : *proto->mutable_input()) {
      const auto it = inputs.find(input.name());
      if (it == inputs.end()) continue;
      const ir::Type& type = graph_.value(it->second).type;
      if (!type.is_tensor()) continue;
      *input.mutable_type() = ToTypeProto(type, &dims_);
    }
  }

 private:
  // What a graph of the source had and has no more, or not yet again: a new
  // block inside that graph may have it now.
  struct Left {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    absl::flat_hash_map<std::string, onnx::TensorProto> initializers;
  };

  template <typename Field, typename Predicate>
  static void EraseIf(Field* field, Predicate predicate) {
    int kept = 0;
    for (int i = 0; i < field->size(); ++i) {
      if (predicate((*field)[i])) continue;
      if (kept != i) field->SwapElements(kept, i);
      ++kept;
    }
    field->DeleteSubrange(kept, field->size() - kept);
  }

  // Initializers that a pass made anew under their old name.
  void EraseReplaced(const Block& block, onnx::GraphProto* proto) const {
    absl::flat_hash_set<absl::string_view> made;
    for (ValueId id : block.initializers) {
      const ir::Value& value = graph_.value(id);
      if (value.source_block == ir::kNoBlock) made.insert(value.name);
    }
    if (made.empty()) return;
    EraseIf(proto->mutable_initializer(), [&](const onnx::TensorProto& t) {
      return made.contains(t.name());
    });
  }

  // Element types that a pass changed, wherever the graph states them.
  void Retype(const Block& block, onnx::GraphProto* proto) const {
    absl::flat_hash_map<absl::string_view, ir::ElementType> changed;
    const auto look = [&](ValueId id) {
      if (id == kNoValue) return;
      const ir::Value& value = graph_.value(id);
      if (value.source_block == ir::kNoBlock && value.type.is_tensor()) {
        changed[value.name] = value.type.element;
      }
    };
    for (ValueId param : block.params) look(param);
    for (ValueId initializer : block.initializers) look(initializer);
    for (NodeId node : block.nodes) {
      for (ValueId result : graph_.node(node).results) look(result);
    }
    if (changed.empty()) return;
    for (auto* infos : {proto->mutable_input(), proto->mutable_output(),
                        proto->mutable_value_info()}) {
      for (onnx::ValueInfoProto& info : *infos) {
        const auto it = changed.find(info.name());
        if (it == changed.end() || !info.type().has_tensor_type()) continue;
        info.mutable_type()->mutable_tensor_type()->set_elem_type(
            static_cast<int32_t>(it->second));
      }
    }
  }

  // Tensors that the source graph defines and this block of the IR does not.
  absl::flat_hash_set<std::string> RemovedNames(
      const Block& block,
      const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
      const onnx::GraphProto& proto) const {
    absl::flat_hash_set<absl::string_view> kept;
    for (ValueId value : block.initializers) {
      kept.insert(graph_.value(value).name);
    }
    for (NodeId node : block.nodes) {
      for (ValueId result : graph_.node(node).results) {
        if (result != kNoValue) kept.insert(graph_.value(result).name);
      }
    }
    absl::flat_hash_set<std::string> removed;
    const auto check = [&](const std::string& name) {
      if (!name.empty() && !kept.contains(name)) removed.insert(name);
    };
    for (const auto& node : nodes) {
      for (const std::string& output : node.output()) check(output);
    }
    for (const auto& tensor : proto.sparse_initializer()) {
      check(tensor.values().name());
    }
    for (const auto& tensor : proto.initializer()) check(tensor.name());
    return removed;
  }

  static void TakeOut(const absl::flat_hash_set<std::string>& removed,
                      Left* left, onnx::GraphProto* proto) {
    for (onnx::TensorProto& tensor : *proto->mutable_initializer()) {
      if (removed.contains(tensor.name())) {
        left->initializers[tensor.name()].Swap(&tensor);
      }
    }
    // What was swapped in has no name.
    EraseIf(proto->mutable_initializer(),
            [](const onnx::TensorProto& t) { return t.name().empty(); });
    EraseIf(proto->mutable_sparse_initializer(),
            [&](const onnx::SparseTensorProto& t) {
              return removed.contains(t.values().name());
            });
    EraseIf(proto->mutable_value_info(), [&](const onnx::ValueInfoProto& v) {
      return removed.contains(v.name());
    });
    EraseIf(proto->mutable_quantization_annotation(),
            [&](const onnx::TensorAnnotation& a) {
              return removed.contains(a.tensor_name());
            });
  }

  absl::Status WriteNodes(const Block& block, onnx::GraphProto* proto) {
    proto->mutable_node()->Reserve(static_cast<int>(block.nodes.size()));
    for (NodeId id : block.nodes) {
      const Node& node = graph_.node(id);
      onnx::NodeProto* out = proto->add_node();
      if (node.source_index == ir::kNoIndex) {
        RETURN_IF_ERROR(MakeNode(node, out));
        Annotate(id, out);
        if (node.block == ir::kMainBlock) StateShape(node, proto);
        continue;
      }
      const auto left = left_.find(node.source_block);
      if (left == left_.end()) {
        return absl::InternalError(
            absl::StrCat("node \"", graph_.DisplayName(id),
                         "\" has left the graph that it was read from"));
      }
      out->Swap(
          left->second.nodes.Mutable(static_cast<int>(node.source_index)));
      RenameAll(node.operands, out->mutable_input());
      RenameAll(node.results, out->mutable_output());
      if (!node.is_call) RETURN_IF_ERROR(RewriteSubgraphs(node, out));
      Annotate(id, out);
    }
    return absl::OkStatus();
  }

  // What a new Reshape makes of a shape that is computed: whoever reads the
  // file cannot infer it, nor what depends on it.
  void StateShape(const Node& node, onnx::GraphProto* proto) {
    if (node.op_type != "Reshape" || node.operands.size() < 2 ||
        node.operands[1] == kNoValue || node.results[0] == kNoValue) {
      return;
    }
    const ir::Value& shape = graph_.value(node.operands[1]);
    if (shape.weight == ir::kNoWeight && shape.contents == nullptr) {
      MakeValueInfo(graph_.value(node.results[0]), proto->add_value_info());
    }
  }

  // An entry of the same key has the new value, others stay as they are.
  void Annotate(NodeId id, onnx::NodeProto* out) const {
    if (ir::Index(id) >= metadata_.size()) return;
    for (const auto& [key, value] : metadata_[ir::Index(id)]) {
      auto* entries = out->mutable_metadata_props();
      const auto same =
          std::find_if(entries->begin(), entries->end(),
                       [&](const onnx::StringStringEntryProto& entry) {
                         return entry.key() == key;
                       });
      onnx::StringStringEntryProto* entry =
          same == entries->end() ? entries->Add() : &*same;
      entry->set_key(key);
      entry->set_value(value);
    }
  }

  // Those of the source are there already, in a block that was read.
  absl::Status WriteInitializers(const Block& block, onnx::GraphProto* proto) {
    for (ValueId id : block.initializers) {
      const ir::Value& value = graph_.value(id);
      if (value.source_block == ir::kNoBlock) {
        onnx::TensorProto* tensor = proto->add_initializer();
        tensor->set_name(value.name);
        RETURN_IF_ERROR(MakeTensor(graph_.weight(value.weight), tensor));
        continue;
      }
      if (block.from_source) continue;
      const auto left = left_.find(value.source_block);
      if (left == left_.end() ||
          !left->second.initializers.contains(value.name)) {
        return absl::InternalError(
            absl::StrCat("initializer \"", value.name,
                         "\" has left the graph that it was "
                         "read from"));
      }
      proto->add_initializer()->Swap(&left->second.initializers[value.name]);
    }
    return absl::OkStatus();
  }

  template <typename Ids>
  void RenameAll(const Ids& values,
                 google::protobuf::RepeatedPtrField<std::string>* names) const {
    for (size_t i = 0; i < values.size(); ++i) {
      std::string* name = i < static_cast<size_t>(names->size())
                              ? names->Mutable(static_cast<int>(i))
                              : names->Add();
      const std::string& wanted =
          values[i] == kNoValue ? empty_ : graph_.value(values[i]).name;
      if (*name != wanted) *name = wanted;
    }
    const int size = static_cast<int>(values.size());
    names->DeleteSubrange(size, names->size() - size);
  }

  // A node's blocks are its graph attributes, in the order of the file.
  absl::Status RewriteSubgraphs(const Node& node, onnx::NodeProto* proto) {
    size_t next = 0;
    for (onnx::AttributeProto& attribute : *proto->mutable_attribute()) {
      if (attribute.has_g()) {
        RETURN_IF_ERROR(
            RewriteGraph(node.blocks[next++], attribute.mutable_g()));
      }
      for (onnx::GraphProto& graph : *attribute.mutable_graphs()) {
        RETURN_IF_ERROR(RewriteGraph(node.blocks[next++], &graph));
      }
    }
    return absl::OkStatus();
  }

  // A node that a pass made.
  absl::Status MakeNode(const Node& node, onnx::NodeProto* out) {
    out->set_name(node.name);
    out->set_op_type(node.op_type);
    if (!node.domain.empty()) out->set_domain(node.domain);
    RenameAll(node.operands, out->mutable_input());
    RenameAll(node.results, out->mutable_output());
    for (const ir::Attribute& attribute : node.attributes) {
      onnx::AttributeProto* written = out->add_attribute();
      if (const auto* id = std::get_if<ir::WeightId>(&attribute.value)) {
        written->set_name(attribute.name);
        written->set_type(onnx::AttributeProto::TENSOR);
        RETURN_IF_ERROR(MakeTensor(graph_.weight(*id), written->mutable_t()));
      } else {
        RETURN_IF_ERROR(ToAttributeProto(attribute, written));
      }
    }
    for (BlockId id : node.blocks) {
      onnx::AttributeProto* attribute = out->add_attribute();
      attribute->set_name(graph_.block(id).attribute_name);
      attribute->set_type(onnx::AttributeProto::GRAPH);
      RETURN_IF_ERROR(MakeGraph(graph_.block(id), attribute->mutable_g()));
    }
    return absl::OkStatus();
  }

  absl::Status MakeGraph(const Block& block, onnx::GraphProto* out) {
    out->set_name(block.name);
    for (ValueId param : block.params) {
      MakeValueInfo(graph_.value(param), out->add_input());
    }
    for (ValueId result : block.results) {
      onnx::ValueInfoProto* info = out->add_output();
      MakeValueInfo(graph_.value(result), info);
      // A runtime makes room for outputs of known shape before it runs the
      // graph. What comes out of an If that a pass made is not to be there from
      // the beginning of the graph around it.
      const NodeId producer = graph_.value(result).producer;
      if (producer != ir::kNoNode && graph_.node(producer).op_type == "If" &&
          graph_.node(producer).source_index == ir::kNoIndex) {
        info->mutable_type()->mutable_tensor_type()->clear_shape();
      }
    }
    RETURN_IF_ERROR(WriteNodes(block, out));
    return WriteInitializers(block, out);
  }

  void MakeValueInfo(const ir::Value& value, onnx::ValueInfoProto* out) {
    out->set_name(value.name);
    if (value.type.kind == ir::TypeKind::kUnknown) return;
    *out->mutable_type() = ToTypeProto(value.type, &dims_);
  }

  // A weight that a pass made, or copied from the main graph of the source. One
  // that is large, or to be made from external data, is left to Save where the
  // caller wants that.
  absl::Status MakeTensor(const ir::Weight& weight, onnx::TensorProto* out) {
    if (!weight.is_transformed() && weight.storage != ir::WeightStorage::kRaw) {
      const auto& tensors = source_.proto().graph().initializer();
      const auto copied = std::find_if(
          tensors.begin(), tensors.end(),
          [&](const auto& tensor) { return tensor.name() == weight.name; });
      if (copied != tensors.end()) {
        const std::string name = out->name();
        *out = *copied;
        out->set_name(name);
        return absl::OkStatus();
      }
    }
    const bool external = weight.storage == ir::WeightStorage::kExternal;
    if (!external && !HasRawForm(weight)) {
      return absl::InternalError(absl::StrCat(
          "initializer \"", weight.name, "\" of a pass has no plain bytes"));
    }
    out->set_data_type(static_cast<int32_t>(weight.element));
    out->mutable_dims()->Add(weight.dims.begin(), weight.dims.end());
    if (made_ != nullptr &&
        (external || weight.size_bytes > kMinPayloadBytes)) {
      SetMarker(source_.payloads().size() + made_->size(), out);
      made_->push_back(weight);
      return absl::OkStatus();
    }
    std::string* bytes = out->mutable_raw_data();
    return VisitMade(source_, weight, &reader_, [&](absl::string_view part) {
      bytes->append(part.data(), part.size());
      return absl::OkStatus();
    });
  }

  const LoadedModel& source_;
  const ir::Graph& graph_;
  const NodeMetadata& metadata_;
  std::vector<ir::Weight>* const made_;
  ir::WeightReader reader_;
  const std::string empty_;
  // By the source's graph. References stay valid while more are added.
  absl::node_hash_map<BlockId, Left> left_;
  NamedDims dims_;
};

}  // namespace

absl::StatusOr<onnx::ModelProto> Export(const LoadedModel& source,
                                        const ir::Graph& graph,
                                        const ExportOptions& options) {
  onnx::ModelProto model = source.proto();
  if (options.made != nullptr) options.made->clear();
  Exporter exporter(source, graph, options);
  RETURN_IF_ERROR(exporter.RewriteGraph(ir::kMainBlock, model.mutable_graph()));
  const ir::Block& main = graph.block(ir::kMainBlock);
  const bool is_old =
      model.has_ir_version() && model.ir_version() < kInitializersApart;
  const bool listed = is_old && !exporter.HasNewWeights();
  if (is_old && !listed) model.set_ir_version(kInitializersApart);
  exporter.RewriteInterface(main, listed, model.mutable_graph());
  for (onnx::OperatorSetIdProto& opset : *model.mutable_opset_import()) {
    const bool is_own = opset.domain().empty() || opset.domain() == "ai.onnx";
    if (is_own && opset.version() < exporter.Opset()) {
      opset.set_version(exporter.Opset());
    }
  }
  if (options.bind_inputs) exporter.BindInputs(main, model.mutable_graph());
  return model;
}

}  // namespace onnx_memopt::io
