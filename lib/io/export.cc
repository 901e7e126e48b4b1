#include "onnx_memopt/io/export.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "io/attribute_proto.h"
#include "io/type_proto.h"
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
  Exporter(const ir::Graph& graph, const NodeMetadata& metadata)
      : graph_(graph), metadata_(metadata) {}

  // `proto` is the source's graph that `id` was read from.
  absl::Status RewriteGraph(BlockId id, onnx::GraphProto* proto) {
    const Block& block = graph_.block(id);
    Left& left = left_[id];
    left.nodes.Swap(proto->mutable_node());
    const absl::flat_hash_set<std::string> removed =
        RemovedNames(block, left.nodes, *proto);
    if (!removed.empty()) TakeOut(removed, &left, proto);
    RETURN_IF_ERROR(WriteNodes(block, proto));
    return WriteInitializers(block, proto);
  }

  // Inputs and outputs of the main graph, where a rewrite has others than the
  // source.
  void RewriteInterface(const Block& main, onnx::GraphProto* proto) {
    absl::flat_hash_set<absl::string_view> inputs;
    for (ValueId id : main.params) inputs.insert(graph_.value(id).name);
    for (ValueId id : main.initializers) {
      if (graph_.value(id).overridable) inputs.insert(graph_.value(id).name);
    }
    EraseIf(proto->mutable_input(), [&](const onnx::ValueInfoProto& input) {
      return !inputs.contains(input.name());
    });
    for (const auto& input : proto->input()) inputs.erase(input.name());
    for (ValueId id : main.params) {
      if (!inputs.contains(graph_.value(id).name)) continue;
      MakeValueInfo(graph_.value(id), proto->add_input());
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
    for (const auto& tensor : proto.initializer()) check(tensor.name());
    for (const auto& tensor : proto.sparse_initializer()) {
      check(tensor.values().name());
    }
    for (const auto& node : nodes) {
      for (const std::string& output : node.output()) check(output);
    }
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
        RETURN_IF_ERROR(MakeTensor(value, proto->add_initializer()));
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
      RETURN_IF_ERROR(ToAttributeProto(attribute, out->add_attribute()));
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

  // A weight that a pass made.
  absl::Status MakeTensor(const ir::Value& value,
                          onnx::TensorProto* out) const {
    const ir::Weight& weight = graph_.weight(value.weight);
    if (weight.storage != ir::WeightStorage::kRaw) {
      return absl::InternalError(absl::StrCat(
          "initializer \"", value.name, "\" of a pass has no plain bytes"));
    }
    out->set_name(value.name);
    out->set_data_type(static_cast<int32_t>(weight.element));
    out->mutable_dims()->Add(weight.dims.begin(), weight.dims.end());
    out->set_raw_data(weight.bytes.data(), weight.bytes.size());
    return absl::OkStatus();
  }

  const ir::Graph& graph_;
  const NodeMetadata& metadata_;
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
  Exporter exporter(graph, options.metadata);
  RETURN_IF_ERROR(exporter.RewriteGraph(ir::kMainBlock, model.mutable_graph()));
  const ir::Block& main = graph.block(ir::kMainBlock);
  exporter.RewriteInterface(main, model.mutable_graph());
  if (options.bind_inputs) exporter.BindInputs(main, model.mutable_graph());
  return model;
}

}  // namespace onnx_memopt::io
