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

// lib/ir/flow_rules_matmul.cc
std::vector<SplitWay> MatMul(const ShapeContext& c);
std::vector<SplitWay> FusedMatMul(const ShapeContext& c);
std::vector<SplitWay> Gemm(const ShapeContext& c);

// lib/ir/flow_rules_layout.cc
std::vector<SplitWay> Transpose(const ShapeContext& c);
std::vector<SplitWay> Reshape(const ShapeContext& c);
std::vector<SplitWay> Flatten(const ShapeContext& c);  // and Squeeze, Unsqueeze

// lib/ir/flow_rules_normalize.cc
std::vector<SplitWay> Softmax(const ShapeContext& c);  // LogSoftmax, Hardmax
std::vector<SplitWay> LayerNormalization(const ShapeContext& c);

// lib/ir/flow_rules_conv.cc
std::vector<SplitWay> Conv(const ShapeContext& c);

}  // namespace flow_rules

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_FLOW_RULES_H_
