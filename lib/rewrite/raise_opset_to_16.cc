#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/builder.h"
#include "onnx_memopt/rewrite/raise_opset.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {
namespace {

constexpr int kTo = 16;
// Axes and sizes of parts are operands, Softmax is along one axis.
constexpr int kOperandsSince = 13;
// BatchNormalization has a mode.
constexpr int kModeSince = 14;

class Raiser {
 public:
  explicit Raiser(ir::Graph* graph) : graph_(*graph), builder_(graph) {}

  absl::Status Run() {
    for (size_t i = 0; i < graph_.num_nodes(); ++i) {
      const ir::NodeId id{static_cast<uint32_t>(i)};
      ir::Node& node = graph_.mutable_node(id);
      if (!node.domain.empty() || node.is_call || node.opset >= kTo) continue;
      if (!graph_.erased(id)) RETURN_IF_ERROR(Raise(id));
      graph_.mutable_node(id).opset = kTo;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Raise(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    const std::string& op = node.op_type;
    if (graph_.block(node.block).kind == ir::BlockKind::kCallBody) {
      return absl::OkStatus();  // has imports of its own
    }
    if (op == "Upsample" || op == "Scatter") {
      return Refuse(id, "the operator is gone since");
    }
    if (op == "BatchNormalization" && node.opset < kModeSince &&
        node.results.size() > 1) {
      return Refuse(id, "its training mode is another one since");
    }
    if (op == "RoiAlign") {
      ir::Attribute mode = {.name = "coordinate_transformation_mode",
                            .value = std::string("output_half_pixel")};
      ir::Node& changed = graph_.mutable_node(id);
      changed.attributes.push_back(std::move(mode));
      changed.ForgetSource();
    }
    if (node.opset >= kOperandsSince) return absl::OkStatus();
    if (op == "Squeeze" || op == "Unsqueeze" || op == "ReduceSum") {
      MakeOperand(id, "axes");
    } else if (op == "Split") {
      MakeOperand(id, "split");
    } else if (op == "Dropout") {
      Take(id, "ratio");  // it does nothing in inference
    } else if (op == "Softmax" || op == "LogSoftmax" || op == "Hardmax") {
      return RaiseSoftmax(id);
    }
    return absl::OkStatus();
  }

  // Of all axes from one on until then, of one since.
  absl::Status RaiseSoftmax(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    const ir::Type& type = graph_.value(node.operands[0]).type;
    if (!type.is_tensor() || !type.shape) {
      return Refuse(id, "its rank is unknown");
    }
    const auto rank = static_cast<int64_t>(type.shape->size());
    int64_t axis = ir::IntAttribute(node, "axis", 1);
    if (axis < 0) axis += rank;
    if (axis != rank - 1) {
      return Refuse(id, "it is of several axes at once");
    }
    Take(id, "axis");
    graph_.mutable_node(id).attributes.push_back(
        {.name = "axis", .value = int64_t{-1}});
    return absl::OkStatus();
  }

  std::optional<ir::Attribute> Take(ir::NodeId id, absl::string_view name) {
    ir::Node& node = graph_.mutable_node(id);
    for (size_t i = 0; i < node.attributes.size(); ++i) {
      if (node.attributes[i].name != name) continue;
      ir::Attribute taken = std::move(node.attributes[i]);
      node.attributes.erase(node.attributes.begin() +
                            static_cast<std::ptrdiff_t>(i));
      node.ForgetSource();
      return taken;
    }
    return std::nullopt;
  }

  void MakeOperand(ir::NodeId id, absl::string_view name) {
    const std::optional<ir::Attribute> taken = Take(id, name);
    if (!taken) return;
    const auto* values = std::get_if<std::vector<int64_t>>(&taken->value);
    if (values == nullptr) return;
    const ir::ValueId operand =
        builder_.Int64s(ir::kMainBlock, absl::StrCat("memopt/", name), *values);
    graph_.mutable_node(id).operands.push_back(operand);
  }

  absl::Status Refuse(ir::NodeId id, absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "node \"", Printable(graph_.DisplayName(id)), "\" (",
        Printable(graph_.node(id).op_type), ") of opset ",
        graph_.node(id).opset, " cannot be written in opset ", kTo, ": ", why));
  }

  ir::Graph& graph_;
  Builder builder_;
};

}  // namespace

absl::Status RaiseOpsetTo16(ir::Graph* graph) {
  if (std::optional<ir::Graph> raised = RaiseOpset(*graph)) {
    *graph = *std::move(raised);
  }
  const int opset = Builder(graph).opset();
  if (opset >= kTo) return absl::OkStatus();
  if (opset < kBuildOpset) {
    return absl::InvalidArgumentError(
        absl::StrCat("opset ", opset, " cannot be raised to ", kTo,
                     ": onnx.version_converter may convert the model"));
  }
  return Raiser(graph).Run();
}

}  // namespace onnx_memopt::rewrite
