// Op table: the com.microsoft and com.microsoft.nchwc ops that ONNX Runtime's
// optimizers put into models, that its quantizers write, or that exporters of
// language models use. See op_row.h.
//
// Ops that write into their operands (PagedAttention's caches) have no row, and
// neither have whole-decoder ops such as BeamSearch: nothing is assumed of
// them.
#ifndef ONNX_MEMOPT_LIB_IR_OP_INFO_CONTRIB_H_
#define ONNX_MEMOPT_LIB_IR_OP_INFO_CONTRIB_H_

#include "ir/op_row.h"

namespace onnx_memopt::ir::op_table {

// Kernels for the CPU and for GPUs take float16, few of them bfloat16.
constexpr Row Ms(absl::string_view name) {
  return Row(kMicrosoft, name).Bfloat16Since(0);
}
// Of the CPU, in float32 only.
constexpr Row Nchwc(absl::string_view name) {
  return Row(kNchwc, name).Float16Since(0).Bfloat16Since(0);
}
template <int64_t kFlops>
constexpr Row MsUnary(absl::string_view name) {
  return Ms(name)
      .Cheap()
      .Flops(flops::PerResult<kFlops>)
      .Shape(shape_rules::SameAsFirst)
      .Flow(flow_rules::Elementwise);
}
constexpr Row MsCompute(absl::string_view name, FlopsRule flops = nullptr,
                        ShapeRule shape = nullptr) {
  return Ms(name).Expensive().Flops(flops).Shape(shape);
}
// Integer arithmetic between a dequantisation and a quantisation.
template <int64_t kFlops>
constexpr Row QLinear(absl::string_view name) {
  return Ms(name)
      .Float16Since(0)
      .Cheap()
      .Flops(flops::PerResult<kFlops>)
      .NoGradient();
}

inline constexpr OpInfo kContribRows[] = {
    // Activations. None of these kernels computes in place.
    MsUnary<13>("BiasGelu").Gradient(At(0, 1)),
    MsUnary<15>("FastGelu").Gradient(At(0, 1)),
    MsUnary<12>("Gelu").Gradient(At(0)),
    MsUnary<flops::kSigmoidFlops + 2>("QuickGelu").Gradient(At(0)),
    Ms("BiasSplitGelu").Cheap().GradientUnknown(),
    Ms("SwiGLU").Cheap().GradientUnknown(),
    Ms("BiasSoftmax")
        .Float32(Float32Need::kStatistics)
        .Moderate()
        .Flops(flops::PerResult<flops::kSoftmaxFlops + 1>)
        .Shape(shape_rules::SameAsFirst)
        .Gradient(kNone, At(0)),
    // data + bias + skip.
    MsUnary<2>("BiasAdd").Gradient(kNone),
    Ms("BiasDropout")
        .Cheap()
        .Random()
        .Flops(flops::PerResult<4>)
        .Shape(shape_rules::Dropout)
        .Gradient(At(3, 4), At(1)),
    Ms("BitmaskBiasDropout")
        .Cheap()
        .Random()
        .Flops(flops::PerResult<4>)
        .Shape(shape_rules::SameAsFirst)
        .Gradient(At(3, 4), At(1)),
    Ms("BitmaskDropout")
        .Cheap()
        .Random()
        .Flops(flops::PerResult<2>)
        .Shape(shape_rules::SameAsFirst)
        .Gradient(At(1, 2), At(1)),

    // Normalisation. Result 3 is the sum of input, skip and bias.
    Ms("SkipLayerNormalization")
        .Float32Results(At(1, 2))
        .Moderate()
        .Flops(flops::PerResult<flops::kNormalizationFlops + 2>)
        .Shape(shape_rules::SkipLayerNormalization)
        .Flow(flow_rules::SkipLayerNormalization)
        .Gradient(At(0, 1, 2, 4), At(1, 2, 3)),
    Ms("SkipSimplifiedLayerNormalization")
        .Float32Results(At(1, 2))
        .Moderate()
        .Flops(flops::PerResult<6>)
        .Shape(shape_rules::SkipLayerNormalization)
        .Flow(flow_rules::SkipLayerNormalization)
        .Gradient(At(0, 1, 2, 3), At(1, 2, 3)),
    Ms("EmbedLayerNormalization")
        .Moderate()
        .Flops(flops::PerResult<flops::kNormalizationFlops + 2>)
        .GradientUnknown(),
    Ms("QEmbedLayerNormalization")
        .Float16Since(0)
        .Moderate()
        .Flops(flops::PerResult<flops::kNormalizationFlops + 8>)
        .NoGradient(),
    Ms("GroupNorm")
        .Moderate()
        .Flops(flops::PerResult<flops::kNormalizationFlops>)
        .Shape(shape_rules::SameAsFirst)
        .Flow(flow_rules::ChannelsLastGroupNorm)
        .Gradient(At(0, 1)),
    Ms("SkipGroupNorm")
        .Moderate()
        .Flops(flops::PerResult<flops::kNormalizationFlops + 2>)
        .Shape(shape_rules::SameAsFirst)
        .GradientUnknown(),

    // Products.
    MsCompute("FusedMatMul", flops::FusedMatMul, shape_rules::FusedMatMul)
        .Flow(flow_rules::FusedMatMul)
        .Gradient(At(0, 1)),
    MsCompute("FusedMatMulActivation", flops::FusedMatMul,
              shape_rules::FusedMatMul)
        .Flow(flow_rules::FusedMatMul)
        .Gradient(At(0, 1), At(0)),
    MsCompute("TransposeMatMul", flops::FusedMatMul, shape_rules::FusedMatMul)
        .Flow(flow_rules::FusedMatMul)
        .Gradient(At(0, 1)),
    MsCompute("FusedGemm", flops::FusedGemm, shape_rules::Gemm)
        .Flow(flow_rules::Gemm)
        .GradientUnknown(),
    MsCompute("GemmFastGelu").GradientUnknown(),
    MsCompute("GemmFloat8").Float16Since(0).NoGradient(),
    MsCompute("SparseToDenseMatMul").GradientUnknown(),
    MsCompute("Inverse", flops::Inverse, shape_rules::SameAsFirst)
        .Float32(Float32Need::kReduction)
        .Flow(flow_rules::BatchOfMatrices)
        .Gradient(kNone, At(0)),
    MsCompute("CDist")
        .Float16Since(0)
        .Float32(Float32Need::kReduction)
        .GradientUnknown(),
    // Weights of a few bits are constants; the activation has a gradient.
    MsCompute("MatMulNBits", flops::MatMulNBits)
        .Flow(flow_rules::MatMulNBits)
        .Gradient(At(1, 2, 3, 4)),
    MsCompute("MatMulBnb4", flops::MatMulNBits).Gradient(At(1, 2)),
    MsCompute("MatMulFpQ4").GradientUnknown(),
    MsCompute("DynamicQuantizeMatMul", flops::MatMul, shape_rules::MatMul)
        .Float16Since(0)
        .NoGradient(),
    MsCompute("MatMulIntegerToFloat", flops::MatMul)
        .Float16Since(0)
        .NoGradient(),
    MsCompute("MatMulInteger16", flops::MatMul).Float16Since(0).NoGradient(),
    MsCompute("QGemm", flops::Gemm).Float16Since(0).NoGradient(),
    // ONNX Runtime's kernels write a mixture into its input's buffer.
    MsCompute("MoE", flops::MixtureOfExperts, shape_rules::SameAsFirst)
        .InPlace(At(0))
        .GradientUnknown(),
    MsCompute("QMoE", nullptr, shape_rules::SameAsFirst)
        .Float16Since(0)
        .InPlace(At(0))
        .GradientUnknown(),

    // Convolutions and pools. FusedConv may add into operand 3.
    MsCompute("FusedConv", flops::FusedConv, shape_rules::Conv)
        .InPlace(At(3))
        .Flow(flow_rules::FusedConv)
        .GradientUnknown(),
    MsCompute("ConvTransposeWithDynamicPads", flops::ConvTranspose)
        .Gradient(At(0, 1, 2)),
    // Filters stay [out, kernel..., in]: the same count.
    MsCompute("NhwcConv", flops::Conv).Gradient(At(0, 1)),
    MsCompute("NhwcFusedConv", flops::FusedConv).GradientUnknown(),
    Ms("NhwcMaxPool").Moderate().Flops(flops::Pool).NoGradient(),
    Ms("MaxpoolWithMask").Moderate().Flops(flops::Pool).GradientUnknown(),

    // Attention.
    MsCompute("Attention", flops::ProjectedAttention).GradientUnknown(),
    MsCompute("QAttention", flops::QuantizedProjectedAttention)
        .Float16Since(0)
        .NoGradient(),
    MsCompute("MultiHeadAttention", flops::MultiHeadAttention)
        .Flow(flow_rules::MultiHeadAttention)
        .GradientUnknown(),
    MsCompute("GroupQueryAttention", flops::GroupQueryAttention)
        .Flow(flow_rules::GroupQueryAttention)
        .GradientUnknown(),
    MsCompute("DecoderAttention").GradientUnknown(),
    MsCompute("LongformerAttention").GradientUnknown(),
    MsCompute("PackedAttention").GradientUnknown(),
    MsCompute("PackedMultiHeadAttention").GradientUnknown(),
    MsCompute("LinearAttention").GradientUnknown(),
    MsCompute("CausalConvWithState", flops::CausalConv).GradientUnknown(),
    Ms("RotaryEmbedding")
        .Cheap()
        .Flops(flops::PerResult<3>)
        .Shape(shape_rules::SameAsFirst)
        .Flow(flow_rules::RotaryEmbedding)
        .Gradient(At(1, 2, 3)),
    Ms("GemmaRotaryEmbedding").Cheap().GradientUnknown(),
    Ms("GatedRelativePositionBias").Moderate().GradientUnknown(),
    Ms("RelativePositionBias").Cheap().Flops(flops::Zero).GradientUnknown(),
    Ms("RemovePadding").Cheap().Flops(flops::Zero).GradientUnknown(),
    Ms("RestorePadding").Cheap().Flops(flops::Zero).GradientUnknown(),

    // Quantised layers.
    Ms("QuantizeLinear")
        .Float16Since(0)
        .Cheap()
        .Flops(flops::PerResult<4>)
        .Shape(shape_rules::QuantizeLinear)
        .Flow(flow_rules::QuantizeLinear)
        .NoGradient(),
    Ms("DequantizeLinear")
        .Float16Since(0)
        .Cheap()
        .Flops(flops::PerResult<2>)
        .Shape(shape_rules::DequantizeLinear)
        .Flow(flow_rules::QuantizeLinear)
        .Gradient(At(0, 2)),
    QLinear<9>("QLinearAdd").Flow(flow_rules::Elementwise),
    QLinear<9>("QLinearMul").Flow(flow_rules::Elementwise),
    QLinear<6>("QLinearConcat"),
    QLinear<8>("QLinearLeakyRelu")
        .Shape(shape_rules::SameAsFirst)
        .Flow(flow_rules::CastLike),
    QLinear<flops::kSigmoidFlops + 6>("QLinearSigmoid")
        .Shape(shape_rules::SameAsFirst)
        .Flow(flow_rules::CastLike),
    QLinear<flops::kSoftmaxFlops + 6>("QLinearSoftmax")
        .Shape(shape_rules::SameAsFirst),
    QLinear<7>("QLinearWhere"),
    // The layout is an attribute, so the shape is left to no rule.
    Ms("QLinearAveragePool").Moderate().Flops(flops::Pool).NoGradient(),
    Ms("QLinearGlobalAveragePool")
        .Moderate()
        .Flops(flops::PerOperand<1>)
        .NoGradient(),
    Ms("QLinearReduceMean").Moderate().Flops(flops::PerOperand<1>).NoGradient(),
    MsCompute("QLinearConv", flops::QLinearConv).NoGradient(),
    Ms("ReduceSumInteger")
        .Float16Since(0)
        .Moderate()
        .Flops(flops::PerOperand<1>)
        .NoGradient(),
    MsCompute("DynamicQuantizeLSTM").Float16Since(0).NoGradient(),
    Ms("GatherBlockQuantized")
        .Cheap()
        .Flops(flops::PerResult<2>)
        .GradientUnknown(),

    // Moves and elementwise ops.
    Ms("ExpandDims").View().Gradient(At(1)),
    Ms("GatherND")
        .Cheap()
        .Flops(flops::Zero)
        .Shape(shape_rules::GatherNd)
        .Flow(flow_rules::GatherNd)
        .Gradient(At(1)),
    Ms("Pad").Cheap().Flops(flops::Zero).Gradient(At(1)),
    Ms("Range").Cheap().Flops(flops::PerResult<2>).Gradient(kNone),
    MsUnary<0>("SampleOp").InPlace(At(0)).Gradient(kNone),
    MsUnary<0>("Trilu").Flow(flow_rules::Trilu).InPlace(At(0)).Gradient(At(1)),
    Ms("Unique").Moderate().GradientUnknown(),
    Ms("UnfoldTensor").Cheap().Flops(flops::Zero).Gradient(kNone),
    Ms("TorchEmbedding").Cheap().Flops(flops::Zero).Gradient(At(1, 2)),
    Ms("CropAndResize")
        .Float16Since(0)
        .Float32(Float32Need::kCoordinates)
        .Moderate()
        .GradientUnknown(),
    Ms("GridSample").Moderate().Flops(flops::Interpolation).Gradient(At(0, 1)),
    Ms("ComplexMul").Cheap().Flops(flops::PerResult<3>).Gradient(At(0, 1)),
    Ms("ComplexMulConj").Cheap().Flops(flops::PerResult<3>).Gradient(At(0, 1)),
    Ms("Rfft").Float32(Float32Need::kReduction).Expensive().Gradient(kNone),
    Ms("Irfft").Float32(Float32Need::kReduction).Expensive().Gradient(kNone),
    Ms("IsAllFinite").Float16Since(0).Moderate().NoGradient(),
    Ms("MurmurHash3").Float16Since(0).Moderate().NoGradient(),
    Ms("Tokenizer").Float16Since(0).Moderate().NoGradient(),
    Ms("NGramRepeatBlock").Moderate().GradientUnknown(),

    // Blocked layouts of ONNX Runtime's CPU convolutions. Channels are padded
    // to a block whose size depends on the machine, so only the ops that keep
    // a layout have shape rules. Conv may add into operand 3, Sum.
    Nchwc("Conv")
        .Expensive()
        .InPlace(At(3))
        .Flops(flops::FusedConv)
        .Shape(shape_rules::Conv)
        .GradientUnknown(),
    Nchwc("MaxPool")
        .Moderate()
        .Flops(flops::Pool)
        .Shape(shape_rules::Pool)
        .Gradient(At(0), At(0)),
    Nchwc("AveragePool")
        .Moderate()
        .Flops(flops::Pool)
        .Shape(shape_rules::Pool)
        .Gradient(kNone),
    Nchwc("GlobalAveragePool")
        .Moderate()
        .Flops(flops::PerOperand<1>)
        .Shape(shape_rules::GlobalPool)
        .Gradient(kNone),
    Nchwc("GlobalMaxPool")
        .Moderate()
        .Flops(flops::PerOperand<1>)
        .Shape(shape_rules::GlobalPool)
        .Gradient(At(0), At(0)),
    Nchwc("ReorderInput")
        .Cheap()
        .Flops(flops::Zero)
        .Shape(shape_rules::NchwcReorderInput)
        .Gradient(kNone),
    Nchwc("ReorderOutput")
        .Cheap()
        .Flops(flops::Zero)
        .Shape(shape_rules::NchwcReorderOutput)
        .Gradient(kNone),
    Nchwc("Upsample")
        .Moderate()
        .Flops(flops::Interpolation)
        .Shape(shape_rules::NchwcUpsample)
        .Gradient(kNone),
};

}  // namespace onnx_memopt::ir::op_table

#endif  // ONNX_MEMOPT_LIB_IR_OP_INFO_CONTRIB_H_
