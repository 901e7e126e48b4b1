// Op table: views, data movement, indexing, constants, sequences, optionals,
// strings and control flow of ai.onnx. See op_row.h.
//
// A view here is what ONNX Runtime's CPU kernels alias always. Slice, Split and
// Transpose copy. Sequence ops are not views: an element may be copied out.
#ifndef ONNX_MEMOPT_LIB_IR_OP_INFO_LAYOUT_H_
#define ONNX_MEMOPT_LIB_IR_OP_INFO_LAYOUT_H_

#include "ir/op_row.h"

namespace onnx_memopt::ir::op_table {

constexpr Row View(absl::string_view name, ShapeRule shape,
                   FlowRule flow = nullptr) {
  return Op(name).View().Shape(shape).Flow(flow).Gradient(kNone);
}

inline constexpr OpInfo kLayoutRows[] = {
    // Views.
    View("Flatten", shape_rules::Flatten, flow_rules::Flatten),
    View("Identity", shape_rules::SameAsFirst, flow_rules::Elementwise),
    View("Reshape", shape_rules::Reshape, flow_rules::Reshape),
    View("Squeeze", shape_rules::Squeeze, flow_rules::Flatten),
    View("Unsqueeze", shape_rules::Unsqueeze, flow_rules::Flatten),
    View("Optional", nullptr).Bfloat16Since(28),
    View("OptionalGetElement", nullptr).Bfloat16Since(28),

    // Constants, and facts of a tensor that need none of its data.
    Op("Constant").Free().NoGradient(),
    Op("Shape").Free().Shape(shape_rules::ShapeOf).NoGradient(),
    Op("Size").Free().Shape(shape_rules::Size).NoGradient(),
    Op("OptionalHasElement").Bfloat16Since(28).Free().NoGradient(),
    Op("SequenceEmpty").Free().Shape(shape_rules::SequenceEmpty).NoGradient(),
    Op("SequenceLength").Free().Shape(shape_rules::SequenceLength).NoGradient(),
    Move("ConstantOfShape", shape_rules::ConstantOfShape)
        .Bfloat16Since(20)
        .NoGradient(),
    Move("EyeLike", shape_rules::EyeLike).Bfloat16Since(22).NoGradient(),
    // start + i * delta.
    Op("Range")
        .Float16Since(27)
        .Bfloat16Since(27)
        .Float32(Float32Need::kCoordinates)
        .Cheap()
        .Flops(flops::PerResult<2>)
        .Shape(shape_rules::Range)
        .Gradient(kNone),

    // Moves. Sizes that the gradient needs are those of operand and result, so
    // only index operands are saved.
    Move("CenterCropPad", nullptr).Gradient(kNone),
    Move("Compress", nullptr).Bfloat16Since(28).Gradient(At(1)),
    Move("Concat", shape_rules::Concat)
        .Flow(flow_rules::Concat)
        .Gradient(kNone),
    Move("DepthToSpace", shape_rules::DepthToSpace)
        .Flow(flow_rules::DepthToSpace)
        .Gradient(kNone),
    Move("Expand", shape_rules::Expand)
        .Flow(flow_rules::Expand)
        .Gradient(kNone),
    Move("Gather", shape_rules::Gather)
        .Flow(flow_rules::Gather)
        .Gradient(At(1)),
    Move("GatherElements", shape_rules::GatherElements)
        .Flow(flow_rules::GatherElements)
        .Gradient(At(1)),
    Move("GatherND", shape_rules::GatherNd)
        .Flow(flow_rules::GatherNd)
        .Gradient(At(1)),
    Move("NonZero", nullptr).NoGradient(),
    Move("OneHot", shape_rules::OneHot)
        .Bfloat16Since(0)
        .Flow(flow_rules::OneHot)
        .Gradient(At(0, 1)),
    // Mode reflect or edge may read an element several times: pads and axes.
    Move("Pad", shape_rules::Pad).Flow(flow_rules::Pad).Gradient(At(1, 3)),
    Move("ReverseSequence", shape_rules::SameAsFirst)
        .Bfloat16Since(28)
        .Flow(flow_rules::ReverseSequence)
        .Gradient(At(1)),
    Move("Slice", shape_rules::Slice)
        .Flow(flow_rules::Slice)
        .Gradient(At(1, 2, 3, 4)),
    Move("SpaceToDepth", shape_rules::SpaceToDepth)
        .Flow(flow_rules::DepthToSpace)
        .Gradient(kNone),
    Move("Split", shape_rules::Split).Flow(flow_rules::Split).Gradient(kNone),
    Move("Tile", shape_rules::Tile).Flow(flow_rules::Tile).Gradient(kNone),
    Move("Transpose", shape_rules::Transpose)
        .Flow(flow_rules::Transpose)
        .Gradient(kNone),
    Move("Trilu", shape_rules::SameAsFirst)
        .InPlace(At(0))
        .Flow(flow_rules::Trilu)
        .Gradient(At(1)),
    Op("Unique")
        .OptionalResults(At(1, 2, 3))
        .Bfloat16Since(28)
        .Moderate()
        .GradientUnknown(),

    // Writes into a copy of operand 0, or into it. Reductions by product and
    // extremum need everything, plain writes only the indices. ONNX Runtime's
    // ScatterND has a result of its own.
    Move("Scatter", shape_rules::SameAsFirst)
        .Bfloat16Since(0)
        .InPlace(At(0))
        .Flow(flow_rules::ScatterElements)
        .Gradient(At(1)),
    Move("ScatterElements", shape_rules::SameAsFirst)
        .InPlace(At(0))
        .Flow(flow_rules::ScatterElements)
        .Gradient(At(0, 1, 2), At(0)),
    Move("ScatterND", shape_rules::SameAsFirst)
        .Flow(flow_rules::ScatterNd)
        .Gradient(At(0, 1, 2), At(0)),
    Move("TensorScatter", shape_rules::SameAsFirst)
        .InPlace(At(0))
        .Gradient(At(2)),

    // Between devices; ONNX Runtime puts them into models that it saves.
    Move("MemcpyFromHost", shape_rules::SameAsFirst)
        .Flow(flow_rules::Elementwise)
        .Gradient(kNone),
    Move("MemcpyToHost", shape_rules::SameAsFirst)
        .Flow(flow_rules::Elementwise)
        .Gradient(kNone),

    // Sequences. The position operands are saved.
    Move("ConcatFromSequence", nullptr).Bfloat16Since(0).GradientUnknown(),
    Move("SequenceAt", nullptr).Bfloat16Since(0).Gradient(At(1)),
    Move("SequenceConstruct", nullptr).Bfloat16Since(0).Gradient(kNone),
    Move("SequenceErase", nullptr).Gradient(At(1)),
    Move("SequenceInsert", nullptr).Bfloat16Since(0).Gradient(At(2)),
    Move("SplitToSequence", nullptr).Bfloat16Since(24).Gradient(At(1)),

    // Strings.
    Move("RegexFullMatch", nullptr).NoGradient(),
    Move("StringConcat", nullptr).NoGradient(),
    Move("StringNormalizer", nullptr).NoGradient(),
    Move("StringSplit", nullptr).NoGradient(),
    Op("TfIdfVectorizer")
        .Float16Since(0)
        .Bfloat16Since(0)
        .Moderate()
        .NoGradient(),

    // Control flow: cost, randomness and gradient are those of the bodies.
    Op("If").Bfloat16Since(16).GradientUnknown(),
    Op("Loop").Bfloat16Since(16).GradientUnknown(),
    Op("Scan").Bfloat16Since(16).GradientUnknown(),
    Op("SequenceMap").Bfloat16Since(0).GradientUnknown(),
};

}  // namespace onnx_memopt::ir::op_table

#endif  // ONNX_MEMOPT_LIB_IR_OP_INFO_LAYOUT_H_
