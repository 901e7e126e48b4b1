#include "estimate/number_width.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "onnx_memopt/support/checked_math.h"

namespace onnx_memopt::estimate {
namespace {

struct Row {
  absl::string_view op;
  CastTo cast = CastTo::kNothing;
};

// Sorted by name. From the lists of torch.autocast for a GPU, and what PyTorch
// writes these ops as.
constexpr std::array<Row, 44> kRows = {{
    {"Acos", CastTo::kFloat},
    {"Asin", CastTo::kFloat},
    {"Attention", CastTo::kHalf},
    {"Conv", CastTo::kHalf},
    {"ConvTranspose", CastTo::kHalf},
    {"Cosh", CastTo::kFloat},
    {"CumProd", CastTo::kFloat},
    {"CumSum", CastTo::kFloat},
    {"Einsum", CastTo::kHalf},
    {"Exp", CastTo::kFloat},
    {"FusedMatMul", CastTo::kHalf},
    {"GRU", CastTo::kHalf},
    {"Gemm", CastTo::kHalf},
    {"GroupNorm", CastTo::kFloat},
    {"GroupNormalization", CastTo::kFloat},
    {"LSTM", CastTo::kHalf},
    {"LayerNorm", CastTo::kFloat},
    {"LayerNormalization", CastTo::kFloat},
    {"Log", CastTo::kFloat},
    {"LogSoftmax", CastTo::kFloat},
    {"LpNormalization", CastTo::kFloat},
    {"MatMul", CastTo::kHalf},
    {"MultiHeadAttention", CastTo::kHalf},
    {"NegativeLogLikelihoodLoss", CastTo::kFloat},
    {"PRelu", CastTo::kHalf},
    {"Pow", CastTo::kFloat},
    {"RMSNormalization", CastTo::kFloat},
    {"RNN", CastTo::kHalf},
    {"Reciprocal", CastTo::kFloat},
    {"ReduceL1", CastTo::kFloat},
    {"ReduceL2", CastTo::kFloat},
    {"ReduceLogSum", CastTo::kFloat},
    {"ReduceLogSumExp", CastTo::kFloat},
    {"ReduceProd", CastTo::kFloat},
    {"ReduceSum", CastTo::kFloat},
    {"ReduceSumSquare", CastTo::kFloat},
    {"SimplifiedLayerNormalization", CastTo::kFloat},
    {"Sinh", CastTo::kFloat},
    {"SkipLayerNormalization", CastTo::kFloat},
    {"SkipSimplifiedLayerNormalization", CastTo::kFloat},
    {"Softmax", CastTo::kFloat},
    {"SoftmaxCrossEntropyLoss", CastTo::kFloat},
    {"Softplus", CastTo::kFloat},
    {"Tan", CastTo::kFloat},
}};

// Ops whose float32 parameters do not widen the result.
bool IgnoresParameters(absl::string_view op) {
  return op == "BatchNormalization" || op == "InstanceNormalization";
}

bool IsSixteenBits(ir::ElementType element) {
  return element == ir::ElementType::kFloat16 ||
         element == ir::ElementType::kBfloat16;
}

}  // namespace

CastTo AutocastOf(absl::string_view op) {
  const auto* row = std::lower_bound(
      kRows.begin(), kRows.end(), op,
      [](const Row& r, absl::string_view name) { return r.op < name; });
  return row == kRows.end() || row->op != op ? CastTo::kNothing : row->cast;
}

NumberWidths::NumberWidths(const ir::Graph& graph, const GradientFlow& flow,
                           bool autocast)
    : graph_(graph),
      flow_(flow),
      autocast_(autocast),
      wide_(graph.num_values()) {
  if (!autocast_) {
    ReadGraph();
    return;
  }
  for (ir::ValueId input : graph.block(ir::kMainBlock).params) {
    wide_[ir::Index(input)] = IsFloatingPoint(graph.value(input));
  }
}

void NumberWidths::ReadGraph() {
  int64_t half = 0;
  int64_t full = 0;
  for (size_t i = 0; i < graph_.num_values(); ++i) {
    const ir::Value& value =
        graph_.value(ir::ValueId{static_cast<uint32_t>(i)});
    if (value.weight == ir::kNoWeight || !flow_.trained[i]) continue;
    const ir::Weight& weight = graph_.weight(value.weight);
    int64_t& sum = IsSixteenBits(weight.element) ? half : full;
    sum = SaturatingAdd(sum, weight.size_bytes);
  }
  if (half == 0 || half < full) return;
  for (size_t i = 0; i < graph_.num_values(); ++i) {
    const ir::Value& value =
        graph_.value(ir::ValueId{static_cast<uint32_t>(i)});
    wide_[i] = value.weight == ir::kNoWeight && value.type.is_tensor() &&
               IsFloatingPoint(value) && !IsSixteenBits(value.type.element);
  }
}

// A number alone takes the type of what it meets.
bool NumberWidths::Promotes(ir::ValueId operand) const {
  const ir::Value& value = graph_.value(operand);
  if (!IsFloatingPoint(value)) return false;
  if (value.weight != ir::kNoWeight) {
    const auto& dims = graph_.weight(value.weight).dims;
    return std::any_of(dims.begin(), dims.end(),
                       [](int64_t dim) { return dim != 1; });
  }
  if (!flow_.weights_behind[ir::Index(operand)].empty()) return true;
  return wide_[ir::Index(operand)];
}

void NumberWidths::Visit(const ir::Node& node) {
  if (!autocast_) return;
  CastTo cast = AutocastOf(node.op_type);
  if (cast == CastTo::kNothing) {
    const size_t count = IgnoresParameters(node.op_type)
                             ? std::min<size_t>(node.operands.size(), 1)
                             : node.operands.size();
    bool floating = false;
    bool wide = false;
    for (size_t i = 0; i < count; ++i) {
      const ir::ValueId operand = node.operands[i];
      if (operand == ir::kNoValue) continue;
      floating |= IsFloatingPoint(graph_.value(operand));
      wide |= Promotes(operand);
    }
    // What is made of whole numbers is float32.
    cast = wide || !floating ? CastTo::kFloat : CastTo::kHalf;
  }
  for (ir::ValueId result : node.results) {
    if (result != ir::kNoValue) Set(result, cast);
  }
}

void NumberWidths::Set(ir::ValueId value, CastTo cast) {
  if (!autocast_ || cast == CastTo::kNothing) return;
  wide_[ir::Index(value)] =
      cast == CastTo::kFloat && IsFloatingPoint(graph_.value(value));
}

}  // namespace onnx_memopt::estimate
