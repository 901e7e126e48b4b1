#include "driver/append_loss.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/io/tensor_values.h"
#include "onnx_memopt/rewrite/emitter.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt {
namespace {

using ir::kNoValue;
using ir::ValueId;

class Appender {
 public:
  Appender(const ir::Graph& loss, ir::Graph* graph)
      : loss_(loss),
        graph_(*graph),
        builder_(graph),
        e_(&builder_, ir::kMainBlock) {
    e_.set_prefix("loss");
  }

  absl::Status Run() {
    const ir::Block& main = loss_.block(ir::kMainBlock);
    if (main.results.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a loss has one output, and this one has ", main.results.size()));
    }
    RETURN_IF_ERROR(MapInputs(main));
    for (ValueId id : main.initializers) RETURN_IF_ERROR(CopyWeight(id));
    for (ir::NodeId id : main.nodes) RETURN_IF_ERROR(CopyNode(id));
    ir::Block& block = graph_.mutable_block(ir::kMainBlock);
    block.nodes.insert(block.nodes.end(), e_.nodes().begin(), e_.nodes().end());
    block.results = {values_[main.results[0]]};
    return absl::OkStatus();
  }

 private:
  absl::Status MapInputs(const ir::Block& main) {
    absl::flat_hash_map<std::string, ValueId> outputs;
    for (ValueId id : graph_.block(ir::kMainBlock).results) {
      outputs[graph_.value(id).name] = id;
    }
    bool any = false;
    for (ValueId id : main.params) {
      const ir::Value& input = loss_.value(id);
      const auto it = outputs.find(input.name);
      if (it != outputs.end()) {
        values_[id] = it->second;
        any = true;
        continue;
      }
      const ValueId made = builder_.Value(ir::kMainBlock, ir::Type(input.type),
                                          input.name, ir::ValueKind::kInput);
      if (graph_.value(made).name != input.name) {
        return absl::InvalidArgumentError(absl::StrCat(
            "input \"", Printable(input.name),
            "\" is no output of the model, but a name that it has already"));
      }
      graph_.mutable_block(ir::kMainBlock).params.push_back(made);
      values_[id] = made;
    }
    if (any) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "no input of the loss is named as an output of the model");
  }

  absl::Status CopyWeight(ValueId id) {
    const ir::Value& value = loss_.value(id);
    const ir::Weight& weight = loss_.weight(value.weight);
    if (!io::HasRawForm(weight)) {
      return absl::InvalidArgumentError(
          absl::StrCat("weight \"", Printable(value.name),
                       "\" of the loss is not in its file"));
    }
    std::string bytes;
    RETURN_IF_ERROR(io::VisitRawBytes(weight, [&](absl::string_view chunk) {
      bytes.append(chunk.data(), chunk.size());
      return absl::OkStatus();
    }));
    const std::vector<int64_t> dims(weight.dims.begin(), weight.dims.end());
    const ValueId made =
        builder_.Tensor(ir::kMainBlock, absl::StrCat("loss/", value.name),
                        weight.element, dims, std::move(bytes));
    graph_.mutable_value(made).contents = value.contents;
    values_[id] = made;
    return absl::OkStatus();
  }

  absl::Status CopyNode(ir::NodeId id) {
    const ir::Node& node = loss_.node(id);
    const auto error = [&](absl::string_view reason) {
      return absl::InvalidArgumentError(
          absl::StrCat("node \"", Printable(loss_.DisplayName(id)), "\" (",
                       Printable(node.op_type), "): ", reason));
    };
    if (node.is_call || !node.blocks.empty() || !node.domain.empty()) {
      return error("a loss has plain ONNX ops only, without subgraphs");
    }
    if (node.opset != builder_.opset()) {
      return error(absl::StrCat("it is of opset ", node.opset,
                                ", and the model of ", builder_.opset()));
    }
    if (node.op_type == "Constant" &&
        loss_.value(node.results[0]).weight != ir::kNoWeight) {
      return CopyWeight(node.results[0]);
    }
    for (const ir::Attribute& a : node.attributes) {
      if (std::holds_alternative<ir::WeightId>(a.value) ||
          std::holds_alternative<ir::OpaqueAttribute>(a.value)) {
        return error(absl::StrCat("attribute \"", Printable(a.name),
                                  "\" is a tensor, which a loss cannot have"));
      }
    }
    std::vector<ValueId> operands;
    for (ValueId operand : node.operands) {
      operands.push_back(operand == kNoValue ? kNoValue : values_[operand]);
    }
    const std::vector<ValueId> results =
        e_.Ops(node.op_type, operands, node.results.size(), node.attributes);
    for (size_t i = 0; i < results.size(); ++i) {
      if (node.results[i] == kNoValue) continue;
      values_[node.results[i]] = results[i];
      // Where the rules know less than the loss says of itself.
      const ir::Type stated = loss_.value(node.results[i]).type;
      ir::Value& value = graph_.mutable_value(results[i]);
      if (!value.type.shape && stated.is_tensor()) value.type = stated;
      value.type.element = stated.element;
      if (value.contents == nullptr) {
        value.contents = loss_.value(node.results[i]).contents;
      }
    }
    return absl::OkStatus();
  }

  const ir::Graph& loss_;
  ir::Graph& graph_;
  rewrite::Builder builder_;
  rewrite::Emitter e_;
  llvm::DenseMap<ValueId, ValueId> values_;
};

}  // namespace

absl::Status AppendLoss(const ir::Graph& loss, ir::Graph* graph) {
  return Appender(loss, graph).Run();
}

}  // namespace onnx_memopt
