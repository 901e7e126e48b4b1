// What the files flow_rules_*.cc share. Everything here accepts any operands.
#ifndef ONNX_MEMOPT_LIB_IR_FLOW_RULE_UTIL_H_
#define ONNX_MEMOPT_LIB_IR_FLOW_RULE_UTIL_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "ir/shape_rule_util.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "onnx_memopt/ir/dimension_flow.h"
#include "onnx_memopt/ir/flow_rules.h"

namespace onnx_memopt::ir::flow_rules {

using shape_rules::ContentsOf;
using shape_rules::HasAttribute;
using shape_rules::HasOperand;
using shape_rules::IntList;
using shape_rules::IsOnnxBefore;
using shape_rules::ListOf;
using shape_rules::NormalizeAxes;
using shape_rules::NormalizeAxis;
using shape_rules::OptDim;

using Ways = std::vector<SplitWay>;

// Null if left out, not a tensor, or of unknown rank.
const Shape* ResultShape(const ShapeContext& c, size_t i);
bool HasResult(const ShapeContext& c, size_t i);
bool IsOne(const OptDim& dim);
// Both known, and equal for any choice of names.
bool SameExtent(const OptDim& a, const OptDim& b);

// A way in which nothing is split yet.
SplitWay NewWay(const ShapeContext& c, const Dim& extent);
// The same, along `axis` of result 0; nullopt if there is no such axis or its
// extent is unknown.
std::optional<SplitWay> WayAlong(const ShapeContext& c, size_t axis);
// A contraction of `extent`; nullopt if that is unknown.
std::optional<SplitWay> WayOver(const ShapeContext& c, const OptDim& extent,
                                Combine combine);

// Operand i is split along `axis`, which has the extent of the way; false if it
// is not known to.
bool SplitOperand(const ShapeContext& c, SplitWay& way, size_t i, size_t axis);
// Result i is split along `axis`; a result that is left out is not. False if it
// is not known to have the extent of the way.
bool SplitResult(const ShapeContext& c, SplitWay& way, size_t i, size_t axis);
// Operand i is broadcast in numpy's way to a shape of `rank` dims that is split
// along `axis`: its axis is split too, or it has none or one of extent 1 and is
// whole. False if that is not known, or it is left out.
bool BroadcastOperand(const ShapeContext& c, SplitWay& way, size_t i,
                      size_t rank, size_t axis);

// Ways along the axes of result 0 for which `independent` holds: operand 0 and
// all other results have the same shape there, other operands are whole.
Ways SameAxes(const ShapeContext& c,
              llvm::function_ref<bool(size_t)> independent);

// The axis that attribute `axis` names among `rank` ones.
std::optional<size_t> AxisOf(const ShapeContext& c, int64_t default_axis,
                             size_t rank);

}  // namespace onnx_memopt::ir::flow_rules

#endif  // ONNX_MEMOPT_LIB_IR_FLOW_RULE_UTIL_H_
