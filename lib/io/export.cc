#include "onnx_memopt/io/export.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "io/attribute_proto.h"
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
  explicit Exporter(const ir::Graph& graph) : graph_(graph) {}

  absl::Status RewriteGraph(BlockId id, onnx::GraphProto* proto) {
    const Block& block = graph_.block(id);
    const absl::flat_hash_set<std::string> removed =
        RemovedNames(block, *proto);
    RETURN_IF_ERROR(RewriteNodes(block, proto));
    if (removed.empty()) return absl::OkStatus();
    EraseIf(proto->mutable_initializer(), [&](const onnx::TensorProto& t) {
      return removed.contains(t.name());
    });
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
    return absl::OkStatus();
  }

 private:
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

  // Tensors that the source graph defines and the IR no longer does.
  absl::flat_hash_set<std::string> RemovedNames(
      const Block& block, const onnx::GraphProto& proto) const {
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
    for (const auto& node : proto.node()) {
      for (const std::string& output : node.output()) check(output);
    }
    return removed;
  }

  absl::Status RewriteNodes(const Block& block, onnx::GraphProto* proto) {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> source;
    source.Swap(proto->mutable_node());
    proto->mutable_node()->Reserve(static_cast<int>(block.nodes.size()));
    for (NodeId id : block.nodes) {
      const Node& node = graph_.node(id);
      if (node.source_index == ir::kNoIndex) {
        RETURN_IF_ERROR(MakeNode(node, proto->add_node()));
        continue;
      }
      onnx::NodeProto* out = proto->add_node();
      out->Swap(source.Mutable(static_cast<int>(node.source_index)));
      RenameAll(node.operands, out->mutable_input());
      RenameAll(node.results, out->mutable_output());
      if (!node.is_call) RETURN_IF_ERROR(RewriteSubgraphs(node, out));
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
  absl::Status MakeNode(const Node& node, onnx::NodeProto* out) const {
    if (!node.blocks.empty()) {
      return absl::InternalError(
          absl::StrCat("node \"", node.name, "\": a new node with a subgraph"));
    }
    out->set_name(node.name);
    out->set_op_type(node.op_type);
    if (!node.domain.empty()) out->set_domain(node.domain);
    RenameAll(node.operands, out->mutable_input());
    RenameAll(node.results, out->mutable_output());
    for (const ir::Attribute& attribute : node.attributes) {
      RETURN_IF_ERROR(ToAttributeProto(attribute, out->add_attribute()));
    }
    return absl::OkStatus();
  }

  const ir::Graph& graph_;
  const std::string empty_;
};

}  // namespace

absl::StatusOr<onnx::ModelProto> Export(const LoadedModel& source,
                                        const ir::Graph& graph) {
  onnx::ModelProto model = source.proto();
  RETURN_IF_ERROR(
      Exporter(graph).RewriteGraph(ir::kMainBlock, model.mutable_graph()));
  return model;
}

}  // namespace onnx_memopt::io
