// Elementwise ops, reductions, matrix products, convolutions and pools. What
// the rules count is stated in flops.h.
#include "onnx_memopt/ir/flops.h"

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "ir/flops_shapes.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::ir::flops {
namespace {

const Shape* TensorShape(const Graph& graph, ValueId value) {
  if (value == kNoValue) return nullptr;
  const Type& type = graph.value(value).type;
  return type.is_tensor() && type.shape ? &*type.shape : nullptr;
}

MaybeDim Elements(const Shape* shape) { return ProductFrom(shape, 0); }

// The product of attribute kernel_shape.
MaybeDim KernelSize(const Node& node) {
  const std::vector<int64_t>* kernel = IntsAttribute(node, "kernel_shape");
  if (kernel == nullptr) return std::nullopt;
  MaybeDim size = Dim(1);
  for (int64_t extent : *kernel) {
    if (extent < 0) return std::nullopt;
    size = Product({size, Dim(extent)});
  }
  return size;
}

// 2 for each result element and element of one filter. Every layout keeps the
// output channels first.
MaybeDim ConvWithFilters(const Graph& graph, const Node& node, size_t filters) {
  return Product({Dim(2), Elements(ResultShape(graph, node, 0)),
                  ProductFrom(OperandShape(graph, node, filters), 1)});
}

// The flops of the activation that attribute `activation` names, on result 0.
MaybeDim FusedActivation(const Graph& graph, const Node& node) {
  const std::string name = StringAttribute(node, "activation", "");
  if (name.empty()) return Dim(0);
  const OpInfo& info = FindOpInfo("", name);
  // Every activation that is fused can run in place, and the rules of those ops
  // look at nothing but result 0.
  if (info.in_place == 0 || info.flops == nullptr) return std::nullopt;
  return info.flops(graph, node);
}

}  // namespace

const Shape* OperandShape(const Graph& graph, const Node& node, size_t index) {
  return HasOperand(node, index) ? TensorShape(graph, node.operands[index])
                                 : nullptr;
}

const Shape* ResultShape(const Graph& graph, const Node& node, size_t index) {
  return index < node.results.size() ? TensorShape(graph, node.results[index])
                                     : nullptr;
}

bool HasOperand(const Node& node, size_t index) {
  return index < node.operands.size() && node.operands[index] != kNoValue;
}

MaybeDim DimAt(const Shape* shape, int axis) {
  if (shape == nullptr) return std::nullopt;
  const int rank = static_cast<int>(shape->size());
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return std::nullopt;
  return (*shape)[static_cast<size_t>(axis)];
}

MaybeDim ProductFrom(const Shape* shape, size_t first) {
  if (shape == nullptr || first > shape->size()) return std::nullopt;
  MaybeDim product = Dim(1);
  for (size_t i = first; i < shape->size(); ++i) {
    product = Product({product, (*shape)[i]});
  }
  return product;
}

MaybeDim Product(std::initializer_list<MaybeDim> factors) {
  MaybeDim product = Dim(1);
  for (const MaybeDim& factor : factors) {
    if (!product || !factor) return std::nullopt;
    product = ir::Mul(*product, *factor);
  }
  return product;
}

MaybeDim Sum(std::initializer_list<MaybeDim> terms) {
  MaybeDim sum = Dim(0);
  for (const MaybeDim& term : terms) {
    if (!sum || !term) return std::nullopt;
    sum = ir::Add(*sum, *term);
  }
  return sum;
}

MaybeDim ResultElements(const Graph& graph, const Node& node, size_t index,
                        int64_t per_element) {
  return Product({Dim(per_element), Elements(ResultShape(graph, node, index))});
}

MaybeDim OperandElements(const Graph& graph, const Node& node, size_t index,
                         int64_t per_element) {
  return Product(
      {Dim(per_element), Elements(OperandShape(graph, node, index))});
}

MaybeDim Zero(const Graph&, const Node&) { return Dim(0); }

MaybeDim Variadic(const Graph& graph, const Node& node) {
  if (node.operands.empty()) return std::nullopt;
  return ResultElements(graph, node, 0,
                        static_cast<int64_t>(node.operands.size()) - 1);
}

MaybeDim Mean(const Graph& graph, const Node& node) {
  return ResultElements(graph, node, 0,
                        static_cast<int64_t>(node.operands.size()));
}

MaybeDim LocalResponse(const Graph& graph, const Node& node) {
  const int64_t window = IntAttribute(node, "size", 0);
  if (window < 1) return std::nullopt;
  // Square, then window additions, scale, shift, pow, divide.
  const MaybeDim per_element =
      Sum({Dim(window), Dim(4 + kTranscendentalFlops)});
  return Product({per_element, Elements(ResultShape(graph, node, 0))});
}

MaybeDim Interpolation(const Graph& graph, const Node& node) {
  const std::string mode = StringAttribute(
      node, "mode", node.op_type == "GridSample" ? "linear" : "nearest");
  const Shape* result = ResultShape(graph, node, 0);
  if (mode == "nearest") return Dim(0);
  int64_t neighbours_per_axis = 0;
  if (mode == "linear" || mode == "bilinear") neighbours_per_axis = 2;
  if (mode == "cubic" || mode == "bicubic") neighbours_per_axis = 4;
  if (neighbours_per_axis == 0 || result == nullptr) return std::nullopt;
  // Batch and channels are not interpolated.
  MaybeDim neighbours = Dim(1);
  for (size_t axis = 2; axis < result->size(); ++axis) {
    neighbours = Product({neighbours, Dim(neighbours_per_axis)});
  }
  return Product({Dim(2), neighbours, Elements(result)});
}

MaybeDim MatMul(const Graph& graph, const Node& node) {
  return Product({Dim(2), Elements(ResultShape(graph, node, 0)),
                  DimAt(OperandShape(graph, node, 0), -1)});
}

MaybeDim FusedMatMul(const Graph& graph, const Node& node) {
  // transBatchA says that A is [rows, batch..., columns].
  int inner_axis = -1;
  if (IntAttribute(node, "transA", 0) != 0) {
    inner_axis = IntAttribute(node, "transBatchA", 0) != 0 ? 0 : -2;
  }
  return Sum({Product({Dim(2), Elements(ResultShape(graph, node, 0)),
                       DimAt(OperandShape(graph, node, 0), inner_axis)}),
              FusedActivation(graph, node)});
}

MaybeDim Gemm(const Graph& graph, const Node& node) {
  const int inner_axis = IntAttribute(node, "transA", 0) != 0 ? 0 : 1;
  return Product({Dim(2), Elements(ResultShape(graph, node, 0)),
                  DimAt(OperandShape(graph, node, 0), inner_axis)});
}

MaybeDim FusedGemm(const Graph& graph, const Node& node) {
  return Sum({Gemm(graph, node), FusedActivation(graph, node)});
}

MaybeDim MatMulNBits(const Graph& graph, const Node& node) {
  const int64_t inner = IntAttribute(node, "K", 0);
  if (inner < 1) return std::nullopt;
  return Product({Dim(2), Dim(inner), Elements(ResultShape(graph, node, 0))});
}

MaybeDim Inverse(const Graph& graph, const Node& node) {
  const Shape* matrices = OperandShape(graph, node, 0);
  return Product({Dim(2), Elements(matrices), DimAt(matrices, -1)});
}

MaybeDim MixtureOfExperts(const Graph& graph, const Node& node) {
  const Shape* input = OperandShape(graph, node, 0);
  const MaybeDim width = DimAt(input, -1);
  const int64_t experts_per_token = IntAttribute(node, "k", 1);
  if (!width || experts_per_token < 1) return std::nullopt;
  // Tokens: all dimensions but the last.
  MaybeDim tokens = Dim(1);
  for (size_t axis = 0; axis + 1 < input->size(); ++axis) {
    tokens = Product({tokens, (*input)[axis]});
  }
  // The weights of one expert, whatever the order of their dimensions.
  MaybeDim weights = Dim(0);
  for (size_t matrix : {2, 4, 6}) {
    if (matrix == 6 && !HasOperand(node, matrix)) continue;
    weights = Sum({weights, ProductFrom(OperandShape(graph, node, matrix), 1)});
  }
  return Product({Dim(2), tokens, Dim(experts_per_token), weights});
}

MaybeDim Conv(const Graph& graph, const Node& node) {
  return ConvWithFilters(graph, node, 1);
}

MaybeDim QLinearConv(const Graph& graph, const Node& node) {
  return ConvWithFilters(graph, node, 3);
}

MaybeDim FusedConv(const Graph& graph, const Node& node) {
  const int64_t added = HasOperand(node, 3) ? 1 : 0;
  return Sum({ConvWithFilters(graph, node, 1),
              ResultElements(graph, node, 0, added),
              FusedActivation(graph, node)});
}

MaybeDim ConvTranspose(const Graph& graph, const Node& node) {
  return Product({Dim(2), Elements(OperandShape(graph, node, 0)),
                  ProductFrom(OperandShape(graph, node, 1), 1)});
}

MaybeDim CausalConv(const Graph& graph, const Node& node) {
  const std::string activation = StringAttribute(node, "activation", "none");
  const int64_t per_element = activation == "none" ? 0 : kSigmoidFlops + 1;
  return Sum({ConvWithFilters(graph, node, 1),
              ResultElements(graph, node, 0, per_element)});
}

MaybeDim Pool(const Graph& graph, const Node& node) {
  return Product({KernelSize(node), Elements(ResultShape(graph, node, 0))});
}

}  // namespace onnx_memopt::ir::flops
