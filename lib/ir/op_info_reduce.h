// Op table: reductions, softmax, normalisation, scans and losses of ai.onnx.
// See op_row.h. Operand 1 of a Reduce op is its axes: tiny, but the gradient
// needs them.
#ifndef ONNX_MEMOPT_LIB_IR_OP_INFO_REDUCE_H_
#define ONNX_MEMOPT_LIB_IR_OP_INFO_REDUCE_H_

#include "ir/op_row.h"

namespace onnx_memopt::ir::op_table {

template <int64_t kFlops>
constexpr Row Reduce(absl::string_view name) {
  return Op(name)
      .Moderate()
      .Flops(flops::PerOperand<kFlops>)
      .Shape(shape_rules::Reduce)
      .Flow(flow_rules::Reduce);
}
template <int64_t kFlops>
constexpr Row Normalize(absl::string_view name) {
  return Op(name)
      .Moderate()
      .Flops(flops::PerResult<kFlops>)
      .Shape(shape_rules::SameAsFirst);
}

inline constexpr OpInfo kReduceRows[] = {
    Reduce<2>("ReduceL1").Float32(Float32Need::kReduction).Gradient(At(0, 1)),
    Reduce<2>("ReduceL2")
        .Float32(Float32Need::kReduction)
        .Gradient(At(0, 1), At(0)),
    // d log(sum x) = 1 / sum x = exp(-result).
    Reduce<1>("ReduceLogSum")
        .Float32(Float32Need::kReduction)
        .Gradient(At(1), At(0)),
    Reduce<flops::kTranscendentalFlops + 3>("ReduceLogSumExp")
        .Float32(Float32Need::kReduction)
        .Gradient(At(0, 1), At(0)),
    Reduce<1>("ReduceMax").Gradient(At(0, 1), At(0)),
    Reduce<1>("ReduceMean").Float32(Float32Need::kReduction).Gradient(At(1)),
    Reduce<1>("ReduceMin").Gradient(At(0, 1), At(0)),
    Reduce<1>("ReduceProd")
        .Float32(Float32Need::kReduction)
        .Gradient(At(0, 1), At(0)),
    Reduce<1>("ReduceSum").Float32(Float32Need::kReduction).Gradient(At(1)),
    Reduce<2>("ReduceSumSquare")
        .Float32(Float32Need::kReduction)
        .Gradient(At(0, 1)),
    Op("ArgMax")
        .Moderate()
        .Flops(flops::PerOperand<1>)
        .Shape(shape_rules::ArgReduce)
        .Flow(flow_rules::ArgReduce)
        .NoGradient(),
    Op("ArgMin")
        .Moderate()
        .Flops(flops::PerOperand<1>)
        .Shape(shape_rules::ArgReduce)
        .Flow(flow_rules::ArgReduce)
        .NoGradient(),
    // At least a comparison for each element.
    Op("TopK")
        .Bfloat16Since(24)
        .Moderate()
        .Flops(flops::PerOperand<1>)
        .Shape(shape_rules::TopK)
        .Flow(flow_rules::OtherAxes)
        .Gradient(kNone, At(1)),
    Normalize<1>("CumSum")
        .Float16Since(14)
        .Bfloat16Since(14)
        .Float32(Float32Need::kRunningSum)
        .Flow(flow_rules::CumSum)
        .Gradient(At(1)),
    Normalize<1>("CumProd")
        .Float32(Float32Need::kRunningSum)
        .Flow(flow_rules::CumSum)
        .Gradient(At(0, 1), At(0)),

    Normalize<flops::kSoftmaxFlops>("Softmax")
        .Float32(Float32Need::kStatistics)
        .InPlace(At(0))
        .Flow(flow_rules::Softmax)
        .Gradient(kNone, At(0)),
    Normalize<flops::kSoftmaxFlops>("LogSoftmax")
        .Float32(Float32Need::kStatistics)
        .InPlace(At(0))
        .Flow(flow_rules::Softmax)
        .Gradient(kNone, At(0)),
    Normalize<1>("Hardmax").Flow(flow_rules::Softmax).NoGradient(),

    // In training the batch statistics are no results: they are made again
    // from the operand.
    Op("BatchNormalization")
        .OptionalResults(At(1, 2))
        .Bfloat16Since(14)
        .Moderate()
        .Flops(flops::PerResult<2>)
        .Shape(shape_rules::BatchNormalization)
        .Flow(flow_rules::BatchNormalization)
        .Gradient(At(0, 1, 3, 4)),
    Normalize<flops::kNormalizationFlops>("GroupNormalization")
        .Flow(flow_rules::GroupNormalization)
        .Gradient(At(0, 1)),
    Normalize<flops::kNormalizationFlops>("InstanceNormalization")
        .Bfloat16Since(22)
        .Float32(Float32Need::kStatistics)
        .Flow(flow_rules::InstanceNormalization)
        .Gradient(At(0, 1)),
    Op("LayerNormalization")
        .OptionalResults(At(1, 2))
        .Float32Results(At(1, 2))
        .Moderate()
        .Flops(flops::PerResult<flops::kNormalizationFlops>)
        .Shape(shape_rules::LayerNormalization)
        .Flow(flow_rules::LayerNormalization)
        .Gradient(At(0, 1), At(1, 2)),
    Op("LRN")
        .Float32(Float32Need::kRange)
        .Moderate()
        .Flops(flops::LocalResponse)
        .Shape(shape_rules::SameAsFirst)
        .Flow(flow_rules::LocalResponse)
        .Gradient(At(0), At(0)),
    Normalize<3>("LpNormalization")
        .Bfloat16Since(22)
        .Float32(Float32Need::kStatistics)
        .Flow(flow_rules::OtherAxes)
        .Gradient(At(0), At(0)),
    Normalize<5>("MeanVarianceNormalization")
        .Float32(Float32Need::kStatistics)
        .Flow(flow_rules::MeanVarianceNormalization)
        .Gradient(At(0)),
    Normalize<4>("RMSNormalization")
        .Flow(flow_rules::LayerNormalization)
        .Gradient(At(0, 1)),
    // ONNX Runtime's, in this domain; result 1 is the inverse deviation.
    Op("SimplifiedLayerNormalization")
        .Float32Results(At(1))
        .Moderate()
        .Flops(flops::PerResult<4>)
        .Shape(shape_rules::LayerNormalization)
        .Flow(flow_rules::LayerNormalization)
        .Gradient(At(0, 1), At(1)),

    Op("NegativeLogLikelihoodLoss")
        .Bfloat16Since(22)
        .Float32(Float32Need::kStatistics)
        .Moderate()
        .Flops(flops::PerOperand<2, 1>)
        .Gradient(At(1, 2)),
    // Scores, or the log probabilities where they are a result.
    Op("SoftmaxCrossEntropyLoss")
        .OptionalResults(At(1))
        .Float32(Float32Need::kStatistics)
        .Moderate()
        .Flops(flops::PerOperand<flops::kSoftmaxFlops>)
        .Gradient(At(0, 1, 2), At(1)),
};

}  // namespace onnx_memopt::ir::op_table

#endif  // ONNX_MEMOPT_LIB_IR_OP_INFO_REDUCE_H_
