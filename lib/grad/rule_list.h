// All gradient rules; rules.cc has the table that names their ops.
#ifndef ONNX_MEMOPT_LIB_GRAD_RULE_LIST_H_
#define ONNX_MEMOPT_LIB_GRAD_RULE_LIST_H_

#include "absl/status/status.h"
#include "grad/rule_context.h"

namespace onnx_memopt::grad::rules {

// rules_conv.cc
absl::Status Conv(RuleContext& c);
absl::Status ConvTranspose(RuleContext& c);
absl::Status AveragePool(RuleContext& c);
absl::Status MaxPool(RuleContext& c);
absl::Status GlobalAveragePool(RuleContext& c);
absl::Status GlobalMaxPool(RuleContext& c);
absl::Status LpPool(RuleContext& c);
absl::Status GlobalLpPool(RuleContext& c);
absl::Status Lrn(RuleContext& c);

// rules_elementwise.cc
absl::Status Neg(RuleContext& c);
absl::Status Abs(RuleContext& c);
absl::Status Sqrt(RuleContext& c);
absl::Status Reciprocal(RuleContext& c);
absl::Status Exp(RuleContext& c);
absl::Status Log(RuleContext& c);
absl::Status Sin(RuleContext& c);
absl::Status Cos(RuleContext& c);
absl::Status Tan(RuleContext& c);
absl::Status Sinh(RuleContext& c);
absl::Status Cosh(RuleContext& c);
absl::Status Asin(RuleContext& c);
absl::Status Acos(RuleContext& c);
absl::Status Atan(RuleContext& c);
absl::Status Asinh(RuleContext& c);
absl::Status Acosh(RuleContext& c);
absl::Status Atanh(RuleContext& c);
absl::Status Erf(RuleContext& c);
absl::Status Tanh(RuleContext& c);
absl::Status Sigmoid(RuleContext& c);
absl::Status Relu(RuleContext& c);
absl::Status LeakyRelu(RuleContext& c);
absl::Status Elu(RuleContext& c);
absl::Status Celu(RuleContext& c);
absl::Status Selu(RuleContext& c);
absl::Status HardSigmoid(RuleContext& c);
absl::Status HardSwish(RuleContext& c);
absl::Status Softplus(RuleContext& c);
absl::Status Softsign(RuleContext& c);
absl::Status ThresholdedRelu(RuleContext& c);
absl::Status Shrink(RuleContext& c);
absl::Status Gelu(RuleContext& c);
absl::Status Swish(RuleContext& c);
absl::Status Mish(RuleContext& c);
absl::Status Clip(RuleContext& c);
absl::Status Identity(RuleContext& c);
absl::Status Cast(RuleContext& c);
absl::Status Dropout(RuleContext& c);
absl::Status Add(RuleContext& c);
absl::Status Sub(RuleContext& c);
absl::Status Mul(RuleContext& c);
absl::Status Div(RuleContext& c);
absl::Status Pow(RuleContext& c);
absl::Status Mod(RuleContext& c);
absl::Status Sum(RuleContext& c);
absl::Status Mean(RuleContext& c);
absl::Status Extremum(RuleContext& c);
absl::Status PRelu(RuleContext& c);
absl::Status Where(RuleContext& c);

// rules_index.cc
absl::Status Gather(RuleContext& c);
absl::Status GatherElements(RuleContext& c);
absl::Status GatherNd(RuleContext& c);
absl::Status ScatterElements(RuleContext& c);
absl::Status ScatterNd(RuleContext& c);

// rules_layout.cc
absl::Status Reshape(RuleContext& c);
absl::Status Transpose(RuleContext& c);
absl::Status Expand(RuleContext& c);
absl::Status Tile(RuleContext& c);
absl::Status Concat(RuleContext& c);
absl::Status Split(RuleContext& c);
absl::Status Slice(RuleContext& c);
absl::Status Pad(RuleContext& c);
absl::Status Trilu(RuleContext& c);
absl::Status DepthToSpace(RuleContext& c);
absl::Status SpaceToDepth(RuleContext& c);

// rules_loss.cc
absl::Status NegativeLogLikelihoodLoss(RuleContext& c);
absl::Status SoftmaxCrossEntropyLoss(RuleContext& c);

// rules_matmul.cc
absl::Status MatMul(RuleContext& c);
absl::Status Gemm(RuleContext& c);
absl::Status Einsum(RuleContext& c);

// rules_normalize.cc
absl::Status LayerNormalization(RuleContext& c);
absl::Status RmsNormalization(RuleContext& c);
absl::Status InstanceNormalization(RuleContext& c);
absl::Status GroupNormalization(RuleContext& c);
absl::Status BatchNormalization(RuleContext& c);
absl::Status MeanVarianceNormalization(RuleContext& c);
absl::Status LpNormalization(RuleContext& c);

// rules_reduce.cc
absl::Status ReduceSum(RuleContext& c);
absl::Status ReduceMean(RuleContext& c);
absl::Status ReduceExtremum(RuleContext& c);
absl::Status ReduceProd(RuleContext& c);
absl::Status ReduceL1(RuleContext& c);
absl::Status ReduceL2(RuleContext& c);
absl::Status ReduceLogSum(RuleContext& c);
absl::Status ReduceLogSumExp(RuleContext& c);
absl::Status ReduceSumSquare(RuleContext& c);
absl::Status Softmax(RuleContext& c);
absl::Status LogSoftmax(RuleContext& c);
absl::Status CumSum(RuleContext& c);
absl::Status TopK(RuleContext& c);

// rules_resize.cc
absl::Status Resize(RuleContext& c);

}  // namespace onnx_memopt::grad::rules

#endif  // ONNX_MEMOPT_LIB_GRAD_RULE_LIST_H_
