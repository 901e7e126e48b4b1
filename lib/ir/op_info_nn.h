// Op table: matrix products, convolutions, pools, recurrent layers, attention,
// images and signals of ai.onnx. See op_row.h.
#ifndef ONNX_MEMOPT_LIB_IR_OP_INFO_NN_H_
#define ONNX_MEMOPT_LIB_IR_OP_INFO_NN_H_

#include "ir/op_row.h"

namespace onnx_memopt::ir::op_table {

constexpr Row Compute(absl::string_view name, FlopsRule flops,
                      ShapeRule shape = nullptr) {
  return Op(name).Expensive().Flops(flops).Shape(shape);
}
constexpr Row Pooling(absl::string_view name, FlopsRule flops,
                      ShapeRule shape) {
  return Op(name).Moderate().Flops(flops).Shape(shape);
}

inline constexpr OpInfo kNnRows[] = {
    // Products.
    Compute("Einsum", flops::Einsum, shape_rules::Einsum)
        .Bfloat16Since(28)
        .Flow(flow_rules::Einsum)
        .Gradient(kAll),
    Compute("Gemm", flops::Gemm, shape_rules::Gemm)
        .Flow(flow_rules::Gemm)
        .Gradient(At(0, 1)),
    Compute("MatMul", flops::MatMul, shape_rules::MatMul)
        .Flow(flow_rules::MatMul)
        .Gradient(At(0, 1)),
    Compute("MatMulInteger", flops::MatMul, shape_rules::MatMulInteger)
        .Flow(flow_rules::MatMulInteger)
        .NoGradient(),
    Compute("QLinearMatMul", flops::MatMul, shape_rules::QLinearMatMul)
        .Float16Since(21)
        .Bfloat16Since(21)
        .Flow(flow_rules::QLinearMatMul)
        .NoGradient(),
    // The determinant times the transposed inverse.
    Op("Det")
        .Bfloat16Since(22)
        .Float32(Float32Need::kReduction)
        .Expensive()
        .Flow(flow_rules::BatchOfMatrices)
        .Gradient(At(0), At(0)),

    // Convolutions.
    Compute("Conv", flops::Conv, shape_rules::Conv)
        .Bfloat16Since(22)
        .Flow(flow_rules::Conv)
        .Gradient(At(0, 1)),
    Compute("ConvInteger", flops::Conv, shape_rules::ConvInteger)
        .Flow(flow_rules::ConvInteger)
        .NoGradient(),
    Compute("ConvTranspose", flops::ConvTranspose, shape_rules::ConvTranspose)
        .Bfloat16Since(22)
        .Flow(flow_rules::ConvTranspose)
        .Gradient(At(0, 1)),
    Compute("QLinearConv", flops::QLinearConv, shape_rules::QLinearConv)
        .Float16Since(0)
        .Bfloat16Since(0)
        .Flow(flow_rules::QLinearConv)
        .NoGradient(),
    Op("DeformConv")
        .Bfloat16Since(22)
        .Float32(Float32Need::kCoordinates)
        .Expensive()
        .Gradient(At(0, 1, 2, 4)),
    Compute("CausalConvWithState", flops::CausalConv, shape_rules::SameAsFirst)
        .Gradient(At(0, 1, 2, 3)),
    // Linear in the image; the operands are sizes.
    Op("Col2Im").Cheap().Gradient(At(1, 2)),

    // Pools. MaxPool is asked for the positions of the maxima, its second
    // result: then neither operand nor first result is kept.
    Pooling("MaxPool", flops::Pool, shape_rules::Pool)
        .OptionalResults(At(1))
        .Bfloat16Since(22)
        .Flow(flow_rules::Pool)
        .Gradient(kNone, At(1)),
    Pooling("AveragePool", flops::Pool, shape_rules::Pool)
        .Bfloat16Since(22)
        .Flow(flow_rules::Pool)
        .Gradient(kNone),
    Pooling("LpPool", flops::Pool, shape_rules::Pool)
        .Bfloat16Since(22)
        .Float32(Float32Need::kReduction)
        .Flow(flow_rules::Pool)
        .Gradient(At(0), At(0)),
    Pooling("GlobalAveragePool", flops::PerOperand<1>, shape_rules::GlobalPool)
        .Bfloat16Since(22)
        .Float32(Float32Need::kReduction)
        .Flow(flow_rules::GlobalPool)
        .Gradient(kNone),
    Pooling("GlobalLpPool", flops::PerOperand<2>, shape_rules::GlobalPool)
        .Bfloat16Since(22)
        .Float32(Float32Need::kReduction)
        .Flow(flow_rules::GlobalPool)
        .Gradient(At(0), At(0)),
    Pooling("GlobalMaxPool", flops::PerOperand<1>, shape_rules::GlobalPool)
        .Bfloat16Since(22)
        .Flow(flow_rules::GlobalPool)
        .Gradient(At(0), At(0)),
    Op("MaxUnpool")
        .Bfloat16Since(22)
        .Cheap()
        .Flops(flops::Zero)
        .Gradient(At(1)),
    // How much a region covers is known only at run time.
    Op("MaxRoiPool")
        .Bfloat16Since(22)
        .Float32(Float32Need::kCoordinates)
        .Moderate()
        .Flow(flow_rules::RegionPool)
        .Gradient(At(0, 1), At(0)),
    Op("RoiAlign")
        .Bfloat16Since(22)
        .Float32(Float32Need::kCoordinates)
        .Moderate()
        .Flow(flow_rules::RegionPool)
        .Gradient(At(0, 1, 2)),

    // Recurrent layers: the gates are made again from the states.
    Compute("GRU", flops::Gru, shape_rules::Recurrent)
        .OptionalResults(At(0, 1))
        .Bfloat16Since(22)
        .Flow(flow_rules::Recurrent)
        .Gradient(kAll, kAll),
    Compute("LSTM", flops::Lstm, shape_rules::Recurrent)
        .OptionalResults(At(0, 1, 2))
        .Bfloat16Since(22)
        .Flow(flow_rules::Recurrent)
        .Gradient(kAll, kAll),
    Compute("RNN", flops::Rnn, shape_rules::Recurrent)
        .OptionalResults(At(0, 1))
        .Bfloat16Since(22)
        .Flow(flow_rules::Recurrent)
        .Gradient(kAll, kAll),

    // Attention: the scores are made again from queries and keys.
    Compute("Attention", flops::Attention, shape_rules::Attention)
        .OptionalResults(At(1, 2, 3))
        .Flow(flow_rules::Attention)
        .Gradient(kAll, At(0)),
    Op("LinearAttention").Expensive().GradientUnknown(),
    // x * cos + rotated x * sin.
    Op("RotaryEmbedding")
        .Cheap()
        .Flops(flops::PerResult<3>)
        .Shape(shape_rules::SameAsFirst)
        .Flow(flow_rules::RotaryEmbedding)
        .Gradient(At(1, 2, 3)),

    // Images. Linear in the image; the other operands say where to sample.
    Op("Resize")
        .Float32Operands(At(1, 2))
        .Moderate()
        .Flops(flops::Interpolation)
        .Shape(shape_rules::Resize)
        .Flow(flow_rules::Resize)
        .Gradient(At(1, 2, 3)),
    Op("Upsample")
        .Bfloat16Since(0)
        .Float32Operands(At(1))
        .Moderate()
        .Flops(flops::Interpolation)
        .Shape(shape_rules::Resize)
        .Flow(flow_rules::Resize)
        .Gradient(At(1)),
    Op("GridSample")
        .Bfloat16Since(22)
        .Float32Operands(At(1))
        .Moderate()
        .Flops(flops::Interpolation)
        .Flow(flow_rules::GridSample)
        .Gradient(At(0, 1)),
    Op("AffineGrid").Float32(Float32Need::kCoordinates).Cheap().Gradient(At(1)),
    Op("ImageDecoder").Expensive().Flops(flops::Zero).NoGradient(),
    Op("NonMaxSuppression")
        .Float16Since(0)
        .Bfloat16Since(0)
        .Moderate()
        .NoGradient(),

    // Signals. Linear in the signal and in the window.
    Op("DFT").Float32(Float32Need::kReduction).Expensive().Gradient(At(1, 2)),
    Op("STFT")
        .Float32(Float32Need::kReduction)
        .Expensive()
        .Gradient(At(0, 1, 2, 3)),
    Op("HammingWindow").Cheap().Flops(flops::PerResult<11>).NoGradient(),
    Op("HannWindow").Cheap().Flops(flops::PerResult<11>).NoGradient(),
    Op("BlackmanWindow").Cheap().Flops(flops::PerResult<22>).NoGradient(),
    Op("MelWeightMatrix").Cheap().NoGradient(),
};

}  // namespace onnx_memopt::ir::op_table

#endif  // ONNX_MEMOPT_LIB_IR_OP_INFO_NN_H_
