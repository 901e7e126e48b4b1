// The rules behind dimension_flow.h, one for each kind of op; the op table
// refers to them (OpInfo::flow).
//
// A rule reads a ShapeContext whose result types are what the graph knows of
// them, and lists the ways to run the op in parts. It may be handed any
// operands and attributes at all, and lists nothing where these make no sense.
//
//   flow_rules::Elementwise(context);   // a way along each axis
#ifndef ONNX_MEMOPT_IR_FLOW_RULES_H_
#define ONNX_MEMOPT_IR_FLOW_RULES_H_

#include <vector>

#include "onnx_memopt/ir/shape_rules.h"

namespace onnx_memopt::ir {

struct SplitWay;

using FlowRule = std::vector<SplitWay> (*)(const ShapeContext& op);

namespace flow_rules {

// lib/ir/flow_rules_elementwise.cc
// Every operand broadcast to result 0, in numpy's way.
std::vector<SplitWay> Elementwise(const ShapeContext& c);
std::vector<SplitWay> CastLike(const ShapeContext& c);
std::vector<SplitWay> Dropout(const ShapeContext& c);
std::vector<SplitWay> QuantizeLinear(const ShapeContext& c);  // and back

// lib/ir/flow_rules_{matmul,einsum}.cc
std::vector<SplitWay> MatMul(const ShapeContext& c);
std::vector<SplitWay> MatMulInteger(const ShapeContext& c);
std::vector<SplitWay> QLinearMatMul(const ShapeContext& c);
std::vector<SplitWay> MatMulNBits(const ShapeContext& c);
std::vector<SplitWay> FusedMatMul(const ShapeContext& c);
std::vector<SplitWay> Gemm(const ShapeContext& c);
std::vector<SplitWay> BatchOfMatrices(const ShapeContext& c);  // Det, Inverse
std::vector<SplitWay> Einsum(const ShapeContext& c);

// lib/ir/flow_rules_layout.cc
std::vector<SplitWay> Transpose(const ShapeContext& c);
std::vector<SplitWay> Reshape(const ShapeContext& c);
std::vector<SplitWay> Flatten(const ShapeContext& c);  // and Squeeze, Unsqueeze

// lib/ir/flow_rules_move.cc
std::vector<SplitWay> Expand(const ShapeContext& c);
std::vector<SplitWay> Tile(const ShapeContext& c);
std::vector<SplitWay> Concat(const ShapeContext& c);
std::vector<SplitWay> Split(const ShapeContext& c);
std::vector<SplitWay> Slice(const ShapeContext& c);
std::vector<SplitWay> Pad(const ShapeContext& c);
std::vector<SplitWay> Trilu(const ShapeContext& c);
std::vector<SplitWay> DepthToSpace(const ShapeContext& c);  // and back

// lib/ir/flow_rules_index.cc
std::vector<SplitWay> Gather(const ShapeContext& c);
std::vector<SplitWay> GatherElements(const ShapeContext& c);
std::vector<SplitWay> GatherNd(const ShapeContext& c);
std::vector<SplitWay> ScatterElements(const ShapeContext& c);
std::vector<SplitWay> ScatterNd(const ShapeContext& c);
std::vector<SplitWay> OneHot(const ShapeContext& c);
std::vector<SplitWay> ReverseSequence(const ShapeContext& c);
std::vector<SplitWay> GridSample(const ShapeContext& c);
std::vector<SplitWay> RegionPool(
    const ShapeContext& c);  // RoiAlign, MaxRoiPool

// lib/ir/flow_rules_reduce.cc
std::vector<SplitWay> Reduce(const ShapeContext& c);
std::vector<SplitWay> ArgReduce(const ShapeContext& c);
// All axes but the one that attribute `axis` names, by default the last.
std::vector<SplitWay> OtherAxes(const ShapeContext& c);
std::vector<SplitWay> CumSum(const ShapeContext& c);  // the axis is operand 1
std::vector<SplitWay> GlobalPool(const ShapeContext& c);

// lib/ir/flow_rules_normalize.cc
std::vector<SplitWay> Softmax(const ShapeContext& c);  // LogSoftmax, Hardmax
std::vector<SplitWay> LayerNormalization(const ShapeContext& c);
std::vector<SplitWay> SkipLayerNormalization(const ShapeContext& c);
std::vector<SplitWay> InstanceNormalization(const ShapeContext& c);
std::vector<SplitWay> GroupNormalization(const ShapeContext& c);
std::vector<SplitWay> ChannelsLastGroupNorm(const ShapeContext& c);
std::vector<SplitWay> BatchNormalization(const ShapeContext& c);
std::vector<SplitWay> LocalResponse(const ShapeContext& c);
std::vector<SplitWay> MeanVarianceNormalization(const ShapeContext& c);

// lib/ir/flow_rules_{conv,resize}.cc
std::vector<SplitWay> Conv(const ShapeContext& c);
std::vector<SplitWay> FusedConv(const ShapeContext& c);
std::vector<SplitWay> ConvInteger(const ShapeContext& c);
std::vector<SplitWay> QLinearConv(const ShapeContext& c);
std::vector<SplitWay> ConvTranspose(const ShapeContext& c);
std::vector<SplitWay> Pool(const ShapeContext& c);
std::vector<SplitWay> Resize(const ShapeContext& c);  // and Upsample

// lib/ir/flow_rules_sequence.cc
std::vector<SplitWay> Recurrent(const ShapeContext& c);  // LSTM, GRU, RNN
std::vector<SplitWay> Attention(const ShapeContext& c);  // of ai.onnx
// com.microsoft
std::vector<SplitWay> MultiHeadAttention(const ShapeContext& c);
std::vector<SplitWay> GroupQueryAttention(const ShapeContext& c);
std::vector<SplitWay> RotaryEmbedding(const ShapeContext& c);  // of both

}  // namespace flow_rules

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_FLOW_RULES_H_
