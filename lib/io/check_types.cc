#include "io/check_types.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "io/type_proto.h"
#include "onnx_memopt/ir/ids.h"
#include "onnx_memopt/ir/type.h"
#include "onnx_memopt/support/format.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::io {
namespace {

// An operand with an element, or two, for each dimension of the result.
struct ShapeOperand {
  absl::string_view op_type;
  size_t operand;
  int64_t elements_per_dim = 1;
};

constexpr std::array kShapeOperands = {
    ShapeOperand{"AffineGrid", 1},
    ShapeOperand{"CenterCropPad", 1},
    ShapeOperand{"Col2Im", 1},
    ShapeOperand{"ConstantOfShape", 0},
    ShapeOperand{"Expand", 1},
    ShapeOperand{"MaxUnpool", 2},
    ShapeOperand{"Pad", 1, /*elements_per_dim=*/2},
    ShapeOperand{"Reshape", 1},
    ShapeOperand{"Resize", 2},  // scales
    ShapeOperand{"Resize", 3},  // sizes
    ShapeOperand{"Tile", 1},
    ShapeOperand{"Unsqueeze", 1},
    ShapeOperand{"Upsample", 1},
};

// Attributes of that kind, of ops that have or had one.
struct ShapeAttribute {
  absl::string_view op_type;
  absl::string_view name;
  size_t elements_per_dim = 1;
};

constexpr std::array kShapeAttributes = {
    ShapeAttribute{"Pad", "paddings", /*elements_per_dim=*/2},
    ShapeAttribute{"Pad", "pads", /*elements_per_dim=*/2},
    ShapeAttribute{"RandomNormal", "shape"},
    ShapeAttribute{"RandomUniform", "shape"},
    ShapeAttribute{"Reshape", "shape"},
    ShapeAttribute{"Unsqueeze", "axes"},
    ShapeAttribute{"Upsample", "scales"},
};

absl::Status CheckValue(const ir::Value& value) {
  if (!value.type.is_tensor() || !value.type.shape) return absl::OkStatus();
  bool all_constant = true;
  for (const std::optional<ir::Dim>& dim : *value.type.shape) {
    all_constant = all_constant && dim && dim->is_constant();
    if (dim && dim->is_constant() && dim->constant() < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor \"", Printable(value.name), "\" ",
                       ToString(value.type), " has a negative dimension"));
    }
  }
  if (all_constant && BitWidth(value.type.element) && !SizeBytes(value.type)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor \"", Printable(value.name), "\" ",
                     ToString(value.type), " has more than 2^63 bytes"));
  }
  return absl::OkStatus();
}

absl::Status TooManyDims(const ir::Graph& graph, ir::NodeId id,
                         absl::string_view what, absl::string_view name,
                         absl::string_view asks) {
  const ir::Node& node = graph.node(id);
  return absl::InvalidArgumentError(absl::StrCat(
      "node \"", Printable(graph.DisplayName(id)), "\" (",
      Printable(node.op_type), "): ", what, " \"", Printable(name),
      "\" asks for ", asks, " dimensions, at most ", kMaxRank, " are allowed"));
}

// The number of elements of a list; 0 if it is not known, or no list.
int64_t LengthOf(const ir::Type& type) {
  if (!type.is_tensor() || !type.shape || type.shape->size() != 1) return 0;
  const std::optional<ir::Dim>& dim = type.shape->front();
  return dim && dim->is_constant() ? dim->constant() : 0;
}

size_t LengthOf(const ir::AttributeValue& value) {
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) {
    return ints->size();
  }
  const auto* floats = std::get_if<std::vector<float>>(&value);
  return floats == nullptr ? 0 : floats->size();
}

absl::Status CheckNode(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (node.operands[i] == ir::kNoValue) continue;
    const ir::Value& value = graph.value(node.operands[i]);
    const int64_t length = LengthOf(value.type);
    if (length <= kMaxRank) continue;
    for (const ShapeOperand& row : kShapeOperands) {
      const int64_t dims = length / row.elements_per_dim;
      if (row.op_type == node.op_type && row.operand == i && dims > kMaxRank) {
        return TooManyDims(graph, id, "tensor", value.name, absl::StrCat(dims));
      }
    }
  }
  for (const ir::Attribute& attribute : node.attributes) {
    const size_t length = LengthOf(attribute.value);
    if (length <= size_t{kMaxRank}) continue;
    for (const ShapeAttribute& row : kShapeAttributes) {
      const size_t dims = length / row.elements_per_dim;
      if (row.op_type == node.op_type && row.name == attribute.name &&
          dims > size_t{kMaxRank}) {
        return TooManyDims(graph, id, "attribute", attribute.name,
                           absl::StrCat(dims));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTypes(const ir::Graph& graph) {
  for (size_t i = 0; i < graph.num_values(); ++i) {
    RETURN_IF_ERROR(
        CheckValue(graph.value(ir::ValueId(static_cast<uint32_t>(i)))));
  }
  for (size_t i = 0; i < graph.num_nodes(); ++i) {
    const ir::NodeId id{static_cast<uint32_t>(i)};
    if (graph.node(id).domain.empty()) RETURN_IF_ERROR(CheckNode(graph, id));
  }
  return absl::OkStatus();
}

}  // namespace onnx_memopt::io
