// Op table: elementwise arithmetic, comparisons, activations and the quantisers
// of ai.onnx. See op_row.h.
//
// The in-place facts of these files are measured on ONNX Runtime 1.32's CPU
// kernels: one op a model, its operand a dead 16 to 32 MiB tensor, and the
// high-water mark of the process says whether the result took a buffer of its
// own. Sum, Add, Sqrt, Erf, Gelu and so on do.
#ifndef ONNX_MEMOPT_LIB_IR_OP_INFO_MATH_H_
#define ONNX_MEMOPT_LIB_IR_OP_INFO_MATH_H_

#include "ir/op_row.h"

namespace onnx_memopt::ir::op_table {

inline constexpr int64_t kTf = flops::kTranscendentalFlops;

// Two broadcast operands.
template <int64_t kFlops = 1>
constexpr Row Binary(absl::string_view name) {
  return Op(name)
      .Cheap()
      .Flops(flops::PerResult<kFlops>)
      .Shape(shape_rules::Arithmetic)
      .Flow(flow_rules::Elementwise);
}
constexpr Row Compare(absl::string_view name) {
  return Op(name)
      .Cheap()
      .Flops(flops::PerResult<1>)
      .Shape(shape_rules::Comparison)
      .Flow(flow_rules::Elementwise)
      .NoGradient();
}
// Integers, no contents to follow.
constexpr Row Bits(absl::string_view name) {
  return Op(name)
      .Cheap()
      .Flops(flops::PerResult<1>)
      .Shape(shape_rules::BroadcastFloat)
      .Flow(flow_rules::Elementwise)
      .NoGradient();
}
// Neg, Floor, ...: contents are followed.
template <int64_t kFlops = 1>
constexpr Row Arithmetic1(absl::string_view name) {
  return Unary<kFlops>(name).Shape(shape_rules::UnaryArithmetic);
}

inline constexpr OpInfo kMathRows[] = {
    // Two operands and more.
    Binary("Add").Gradient(kNone),
    Binary("Sub").Gradient(kNone),
    Binary("Mul").Gradient(At(0, 1)),
    Binary("Div").Gradient(At(0, 1)),
    // d/dB of A^B is the result times log(A).
    Binary<kTf>("Pow")
        .Bfloat16Since(15)
        .Float32(Float32Need::kRange)
        .Gradient(At(0, 1), At(0)),
    // Divide, truncate, multiply, subtract. d/dB is -trunc(A / B).
    Binary<4>("Mod").Gradient(At(0, 1)),
    Op("Max")
        .Cheap()
        .Flops(flops::Variadic)
        .Shape(shape_rules::Arithmetic)
        .Flow(flow_rules::Elementwise)
        .Gradient(kAll),
    Op("Min")
        .Cheap()
        .Flops(flops::Variadic)
        .Shape(shape_rules::Arithmetic)
        .Flow(flow_rules::Elementwise)
        .Gradient(kAll),
    Op("Sum")
        .Cheap()
        .Flops(flops::Variadic)
        .Shape(shape_rules::Arithmetic)
        .Flow(flow_rules::Elementwise)
        .Gradient(kNone),
    Op("Mean")
        .Cheap()
        .Flops(flops::Mean)
        .Shape(shape_rules::BroadcastFloat)
        .Flow(flow_rules::Elementwise)
        .Gradient(kNone),
    Unary<2>("PRelu").Bfloat16Since(16).Gradient(At(0, 1)),
    Op("Where")
        .Bfloat16Since(16)
        .Cheap()
        .Flops(flops::PerResult<1>)
        .Shape(shape_rules::Where)
        .Flow(flow_rules::Elementwise)
        .Gradient(At(0)),
    // Swish of the first times the second, same shapes.
    Unary<flops::kSigmoidFlops + 3>("SwiGLU").Gradient(At(0, 1)),

    // Comparisons and bits.
    Compare("Equal"),
    Compare("Greater"),
    Compare("GreaterOrEqual").Bfloat16Since(16),
    Compare("Less"),
    Compare("LessOrEqual").Bfloat16Since(16),
    Compare("And"),
    Compare("Or"),
    Compare("Xor"),
    Unary<1>("Not").Shape(shape_rules::BoolLikeFirst).NoGradient(),
    Unary<1>("IsInf")
        .Float16Since(20)
        .Bfloat16Since(20)
        .Shape(shape_rules::BoolLikeFirst)
        .NoGradient(),
    Unary<1>("IsNaN").Shape(shape_rules::BoolLikeFirst).NoGradient(),
    Bits("BitShift"),
    Bits("BitwiseAnd"),
    Bits("BitwiseOr"),
    Bits("BitwiseXor"),
    Unary<1>("BitwiseNot").NoGradient(),

    // One operand.
    Arithmetic1("Abs").Gradient(At(0)),
    Arithmetic1("Neg").Gradient(kNone),
    Arithmetic1("Ceil").NoGradient(),
    Arithmetic1("Floor").NoGradient(),
    Arithmetic1("Round").Bfloat16Since(22).NoGradient(),
    Arithmetic1("Sign").NoGradient(),
    Arithmetic1<kTf>("Sqrt")
        .Float32(Float32Need::kRange)
        .Gradient(kNone, At(0)),
    Unary<1>("Reciprocal").Float32(Float32Need::kRange).Gradient(kNone, At(0)),
    Unary<kTf>("Acos").Bfloat16Since(22).Gradient(At(0)),
    Unary<kTf>("Acosh")
        .Bfloat16Since(22)
        .Float32(Float32Need::kRange)
        .Gradient(At(0)),
    Unary<kTf>("Asin").Bfloat16Since(22).Gradient(At(0)),
    Unary<kTf>("Asinh").Bfloat16Since(22).Gradient(At(0)),
    Unary<kTf>("Atan").Bfloat16Since(22).Gradient(At(0)),
    Unary<kTf>("Atanh")
        .Bfloat16Since(22)
        .Float32(Float32Need::kRange)
        .Gradient(At(0)),
    Unary<kTf>("Cos")
        .Bfloat16Since(22)
        .Float32(Float32Need::kRange)
        .Gradient(At(0)),
    Unary<kTf>("Cosh")
        .Bfloat16Since(22)
        .Float32(Float32Need::kRange)
        .Gradient(At(0)),
    Unary<kTf>("Erf").Gradient(At(0)),
    Unary<kTf>("Exp").Float32(Float32Need::kRange).Gradient(kNone, At(0)),
    Unary<kTf>("Log").Float32(Float32Need::kRange).Gradient(At(0)),
    Unary<kTf>("Sin")
        .Bfloat16Since(22)
        .Float32(Float32Need::kRange)
        .Gradient(At(0)),
    Unary<kTf>("Sinh")
        .Bfloat16Since(22)
        .Float32(Float32Need::kRange)
        .Gradient(At(0)),
    // d tan = 1 + tan^2.
    Unary<kTf>("Tan")
        .Bfloat16Since(22)
        .Float32(Float32Need::kRange)
        .Gradient(kNone, At(0)),

    // Activations. Those with a slope attribute need their operand, since a
    // negative slope hides its sign.
    Activation<kTf + 3>("Celu").Float16Since(28).Bfloat16Since(28).Gradient(
        At(0)),
    Activation<kTf + 3>("Elu").Bfloat16Since(22).Gradient(At(0)),
    Activation<4>("HardSigmoid").Bfloat16Since(22).Gradient(kNone, At(0)),
    Activation<2>("LeakyRelu").Bfloat16Since(16).Gradient(At(0)),
    Activation<1>("Relu").Gradient(kNone, At(0)),
    Activation<kTf + 4>("Selu").Bfloat16Since(22).Gradient(At(0)),
    Activation<3>("Shrink").Bfloat16Since(0).Gradient(At(0)),
    Activation<flops::kSigmoidFlops>("Sigmoid").Gradient(kNone, At(0)),
    Activation<2 * kTf + 1>("Softplus")
        .Bfloat16Since(22)
        .Float32(Float32Need::kRange)
        .Gradient(At(0)),
    Activation<3>("Softsign").Bfloat16Since(22).Gradient(At(0)),
    Activation<kTf>("Tanh").Gradient(kNone, At(0)),
    Activation<1>("ThresholdedRelu").Bfloat16Since(22).Gradient(At(0)),
    // The bounds are operands.
    Activation<2>("Clip").Gradient(At(0, 1, 2)),
    // Gelu's kernel has a result of its own; HardSwish, Mish and Swish have no
    // kernel and run as their function bodies.
    Unary<kTf + 4>("Gelu").Gradient(At(0)),
    Unary<5>("HardSwish").Bfloat16Since(22).Gradient(At(0)),
    // x * tanh(log(1 + exp(x)))
    Unary<3 * kTf + 2>("Mish").Bfloat16Since(22).Gradient(At(0)),
    Unary<flops::kSigmoidFlops + 2>("Swish").Gradient(At(0)),
    // Legacy names that ONNX Runtime still knows in this domain.
    Unary<2>("Affine").Gradient(kNone),
    Unary<2>("ImageScaler").Flow(nullptr).Gradient(kNone),
    Unary<2 * kTf + 3>("ParametricSoftplus")
        .Float32(Float32Need::kRange)
        .Gradient(At(0)),
    Activation<kTf + 2>("ScaledTanh").Gradient(kNone, At(0)),

    // Changes of element type. In place where the sizes agree.
    Op("Cast")
        .Cheap()
        .InPlace(At(0))
        .Flops(flops::PerResult<1>)
        .Shape(shape_rules::Cast)
        .Flow(flow_rules::Elementwise)
        .Gradient(kNone),
    Op("CastLike")
        .Cheap()
        .InPlace(At(0))
        .Flops(flops::PerResult<1>)
        .Shape(shape_rules::CastLike)
        .Flow(flow_rules::CastLike)
        .Gradient(kNone),
    // The same bits; ONNX Runtime copies them unless it may reuse the buffer.
    Op("BitCast")
        .Cheap()
        .InPlace(At(0))
        .Flops(flops::Zero)
        .Flow(flow_rules::Elementwise)
        .NoGradient(),

    // Quantisers. Rounding has no gradient; a scale that is trained has.
    Op("QuantizeLinear")
        .Float16Since(19)
        .Bfloat16Since(19)
        .Cheap()
        .Flops(flops::PerResult<4>)
        .Shape(shape_rules::QuantizeLinear)
        .Flow(flow_rules::QuantizeLinear)
        .NoGradient(),
    Op("DequantizeLinear")
        .Float16Since(19)
        .Bfloat16Since(19)
        .Cheap()
        .Flops(flops::PerResult<2>)
        .Shape(shape_rules::DequantizeLinear)
        .Flow(flow_rules::QuantizeLinear)
        .Gradient(At(0, 2)),
    // The extrema, then as QuantizeLinear.
    Op("DynamicQuantizeLinear")
        .Float16Since(0)
        .Bfloat16Since(0)
        .Moderate()
        .Flops(flops::PerOperand<6>)
        .Shape(shape_rules::DynamicQuantizeLinear)
        .NoGradient(),

    // Random numbers. Dropout draws in training, and copies otherwise.
    Op("Bernoulli")
        .Bfloat16Since(22)
        .Cheap()
        .Random()
        .Flops(flops::PerResult<1>)
        .Shape(shape_rules::RandomLike)
        .NoGradient(),
    Op("Dropout")
        .OptionalResults(At(1))
        .Bfloat16Since(22)
        .Cheap()
        .Random()
        .Flops(flops::PerResult<2>)
        .Shape(shape_rules::Dropout)
        .Flow(flow_rules::Dropout)
        .Gradient(At(1, 2), At(1)),
    Op("Multinomial").Bfloat16Since(22).Moderate().Random().NoGradient(),
    Op("RandomNormal")
        .Bfloat16Since(22)
        .Cheap()
        .Random()
        .Flops(flops::PerResult<kTf>)
        .NoGradient(),
    Op("RandomNormalLike")
        .Bfloat16Since(22)
        .Cheap()
        .Random()
        .Flops(flops::PerResult<kTf>)
        .Shape(shape_rules::RandomLike)
        .NoGradient(),
    Op("RandomUniform")
        .Bfloat16Since(22)
        .Cheap()
        .Random()
        .Flops(flops::PerResult<2>)
        .NoGradient(),
    Op("RandomUniformLike")
        .Bfloat16Since(22)
        .Cheap()
        .Random()
        .Flops(flops::PerResult<2>)
        .Shape(shape_rules::RandomLike)
        .NoGradient(),
};

}  // namespace onnx_memopt::ir::op_table

#endif  // ONNX_MEMOPT_LIB_IR_OP_INFO_MATH_H_
