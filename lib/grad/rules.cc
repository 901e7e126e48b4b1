#include "onnx_memopt/grad/rules.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "grad/rule_list.h"

namespace onnx_memopt::grad {
namespace {

constexpr RuleRow Rule(absl::string_view op, GradientRule rule,
                       absl::string_view limits = "") {
  return {.domain = "", .op = op, .rule = rule, .limits = limits};
}

// Each operand's gradient reads the other operands only.
constexpr RuleRow Product(absl::string_view op, GradientRule rule,
                          absl::string_view limits = "") {
  RuleRow row = Rule(op, rule, limits);
  row.reads = Reads::kOthers;
  return row;
}

// Sorted by name.
constexpr RuleRow kRules[] = {
    Rule("Abs", rules::Abs),
    Rule("Acos", rules::Acos),
    Rule("Acosh", rules::Acosh),
    Rule("Add", rules::Add),
    Rule("Asin", rules::Asin),
    Rule("Asinh", rules::Asinh),
    Rule("Atan", rules::Atan),
    Rule("Atanh", rules::Atanh),
    Rule("AveragePool", rules::AveragePool, "spatial extents in numbers"),
    Rule("BatchNormalization", rules::BatchNormalization),
    Rule("Cast", rules::Cast),
    Rule("CastLike", rules::Cast),
    Rule("Celu", rules::Celu),
    Rule("Clip", rules::Clip),
    Rule("Concat", rules::Concat),
    Product("Conv", rules::Conv,
            "with a stride, groups or auto_pad: extents in numbers"),
    Product("ConvTranspose", rules::ConvTranspose,
            "spatial extents in numbers"),
    Rule("Cos", rules::Cos),
    Rule("Cosh", rules::Cosh),
    Rule("CumSum", rules::CumSum),
    Rule("DepthToSpace", rules::DepthToSpace),
    Rule("Div", rules::Div),
    Rule("Dropout", rules::Dropout),
    Product("Einsum", rules::Einsum, "no ellipsis, no diagonal, with \"->\""),
    Rule("Elu", rules::Elu),
    Rule("Erf", rules::Erf),
    Rule("Exp", rules::Exp),
    Rule("Expand", rules::Expand),
    Rule("Flatten", rules::Reshape),
    Rule("Gather", rules::Gather),
    Rule("GatherElements", rules::GatherElements),
    Rule("GatherND", rules::GatherNd, "shapes in numbers"),
    Rule("Gelu", rules::Gelu),
    Product("Gemm", rules::Gemm),
    Rule("GlobalAveragePool", rules::GlobalAveragePool),
    Rule("GlobalLpPool", rules::GlobalLpPool),
    Rule("GlobalMaxPool", rules::GlobalMaxPool),
    Rule("GroupNormalization", rules::GroupNormalization),
    Rule("HardSigmoid", rules::HardSigmoid),
    Rule("HardSwish", rules::HardSwish),
    Rule("Identity", rules::Identity),
    Rule("InstanceNormalization", rules::InstanceNormalization),
    Rule("LRN", rules::Lrn, "the number of channels"),
    Rule("LayerNormalization", rules::LayerNormalization),
    Rule("LeakyRelu", rules::LeakyRelu),
    Rule("Log", rules::Log),
    Rule("LogSoftmax", rules::LogSoftmax),
    Rule("LpNormalization", rules::LpNormalization),
    Rule("LpPool", rules::LpPool, "spatial extents in numbers"),
    Product("MatMul", rules::MatMul),
    Rule("Max", rules::Extremum),
    Rule("MaxPool", rules::MaxPool, "storage_order 0"),
    Rule("Mean", rules::Mean),
    Rule("MeanVarianceNormalization", rules::MeanVarianceNormalization),
    Rule("Min", rules::Extremum),
    Rule("Mish", rules::Mish),
    Rule("Mod", rules::Mod),
    Product("Mul", rules::Mul),
    Rule("Neg", rules::Neg),
    Rule("NegativeLogLikelihoodLoss", rules::NegativeLogLikelihoodLoss),
    Rule("PRelu", rules::PRelu),
    Rule("Pad", rules::Pad, "pads known before the run; none for the value"),
    Rule("Pow", rules::Pow),
    Rule("RMSNormalization", rules::RmsNormalization),
    Rule("Reciprocal", rules::Reciprocal),
    Rule("ReduceL1", rules::ReduceL1),
    Rule("ReduceL2", rules::ReduceL2),
    Rule("ReduceLogSum", rules::ReduceLogSum),
    Rule("ReduceLogSumExp", rules::ReduceLogSumExp),
    Rule("ReduceMax", rules::ReduceExtremum),
    Rule("ReduceMean", rules::ReduceMean),
    Rule("ReduceMin", rules::ReduceExtremum),
    Rule("ReduceProd", rules::ReduceProd),
    Rule("ReduceSum", rules::ReduceSum),
    Rule("ReduceSumSquare", rules::ReduceSumSquare),
    Rule("Relu", rules::Relu),
    Rule("Reshape", rules::Reshape),
    Rule("Resize", rules::Resize,
         "shapes in numbers; no antialias, tf_crop_and_resize, aspect ratio "
         "policy"),
    Rule("ScatterElements", rules::ScatterElements, "reductions none and add"),
    Rule("ScatterND", rules::ScatterNd, "reductions none and add"),
    Rule("Selu", rules::Selu),
    Rule("Shrink", rules::Shrink),
    Rule("Sigmoid", rules::Sigmoid),
    Rule("Sin", rules::Sin),
    Rule("Sinh", rules::Sinh),
    Rule("Slice", rules::Slice),
    Rule("Softmax", rules::Softmax),
    Rule("SoftmaxCrossEntropyLoss", rules::SoftmaxCrossEntropyLoss),
    Rule("Softplus", rules::Softplus),
    Rule("Softsign", rules::Softsign),
    Rule("SpaceToDepth", rules::SpaceToDepth),
    Rule("Split", rules::Split),
    Rule("Sqrt", rules::Sqrt),
    Rule("Squeeze", rules::Reshape),
    Rule("Sub", rules::Sub),
    Rule("Sum", rules::Sum),
    Rule("Swish", rules::Swish),
    Rule("Tan", rules::Tan),
    Rule("Tanh", rules::Tanh),
    Rule("ThresholdedRelu", rules::ThresholdedRelu),
    Rule("Tile", rules::Tile, "shapes in numbers"),
    Rule("TopK", rules::TopK),
    Rule("Transpose", rules::Transpose),
    Rule("Trilu", rules::Trilu),
    Rule("Unsqueeze", rules::Reshape),
    Rule("Where", rules::Where),
};

// absl::string_view cannot be compared when compiling.
constexpr std::string_view Std(absl::string_view text) {
  return std::string_view(text.data(), text.size());
}

constexpr bool Before(const RuleRow& a, const RuleRow& b) {
  return std::pair(Std(a.domain), Std(a.op)) <
         std::pair(Std(b.domain), Std(b.op));
}

constexpr bool IsSorted() {
  for (size_t i = 1; i < std::size(kRules); ++i) {
    if (!Before(kRules[i - 1], kRules[i])) return false;
  }
  return true;
}
static_assert(IsSorted(), "rows are out of order, or an op has two");

}  // namespace

const RuleRow* FindRule(absl::string_view domain, absl::string_view op) {
  const RuleRow wanted = {
      .domain = domain == "ai.onnx" ? absl::string_view() : domain, .op = op};
  const auto* row =
      std::lower_bound(std::begin(kRules), std::end(kRules), wanted, Before);
  if (row == std::end(kRules) || Before(wanted, *row)) return nullptr;
  return row;
}

absl::Span<const RuleRow> AllRules() { return kRules; }

}  // namespace onnx_memopt::grad
