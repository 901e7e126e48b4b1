// Symbolic shape rules: what ONNX's own inference cannot do. They carry
// polynomials through Shape-Gather-Concat-Reshape chains, and compute the
// contents of small integer tensors on the way.
//
// A rule reads a ShapeContext and sets result types and contents. It returns
// true if it determined the element type and every dimension of every result;
// otherwise the caller asks ONNX's inference too and merges the two. A rule
// never guesses: what does not follow from the operands stays unset. It may be
// handed any operands at all (wrong ranks, wrong types, missing ones, negative
// or enormous attribute values) and must then return false.
//
//   ShapeContext c{.node = relu, .operand_types = {&x}};
//   c.operand_contents.resize(1);
//   c.result_types.resize(1);
//   c.result_contents.resize(1);
//   shape_rules::SameAsFirst(c);  // true: c.result_types[0] is the type of x
#ifndef ONNX_MEMOPT_IR_SHAPE_RULES_H_
#define ONNX_MEMOPT_IR_SHAPE_RULES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/contents.h"
#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::ir {

struct Node;

// One application of an op, as its shape rule sees it. Types and contents are
// borrowed for the call. Entries of operands that are left out are null.
// Constant tensors among the node's attributes (ConstantOfShape's value) follow
// the operands as if they were further ones.
struct ShapeContext {
  const Node& node;  // op_type, domain, opset, attributes
  std::vector<const Type*> operand_types;
  std::vector<std::shared_ptr<const Contents>> operand_contents;
  // As many as the node has results; to be filled in.
  std::vector<Type> result_types;
  std::vector<std::shared_ptr<const Contents>> result_contents;

  // Null if left out or not a tensor.
  const Type* tensor(size_t i) const {
    return i < operand_types.size() && operand_types[i] != nullptr &&
                   operand_types[i]->is_tensor()
               ? operand_types[i]
               : nullptr;
  }
  // Null if left out, not a tensor, or of unknown rank.
  const Shape* shape(size_t i) const {
    const Type* t = tensor(i);
    return t != nullptr && t->shape ? &*t->shape : nullptr;
  }
  const Contents* contents(size_t i) const {
    return i < operand_contents.size() ? operand_contents[i].get() : nullptr;
  }
};

using ShapeRule = bool (*)(ShapeContext& context);

namespace shape_rules {

// lib/ir/shape_rules_elementwise.cc
bool SameAsFirst(ShapeContext& c);     // type of operand 0; Identity's contents
bool BroadcastFloat(ShapeContext& c);  // element type of operand 0, broadcast
bool Arithmetic(
    ShapeContext& c);  // Add Sub Mul Div Mod Pow Min Max: + contents
bool Comparison(ShapeContext& c);  // Equal Less Greater ..., And Or Xor: bool
bool UnaryArithmetic(ShapeContext& c);  // Neg Abs Floor Ceil Round Sqrt Not ...
bool Cast(ShapeContext& c);
bool CastLike(ShapeContext& c);
bool Where(ShapeContext& c);
bool BoolLikeFirst(ShapeContext& c);  // IsNaN, IsInf, Not
bool Dropout(ShapeContext& c);
bool QuantizeLinear(ShapeContext& c);
bool DequantizeLinear(ShapeContext& c);
bool DynamicQuantizeLinear(ShapeContext& c);
bool RandomLike(ShapeContext& c);
bool EyeLike(ShapeContext& c);

// lib/ir/shape_rules_{layout,index,make,resize}.cc
bool ShapeOf(ShapeContext& c);
bool Size(ShapeContext& c);
bool Gather(ShapeContext& c);
bool GatherElements(ShapeContext& c);
bool GatherNd(ShapeContext& c);
bool Concat(ShapeContext& c);
bool Reshape(ShapeContext& c);
bool Flatten(ShapeContext& c);
bool Squeeze(ShapeContext& c);
bool Unsqueeze(ShapeContext& c);
bool Slice(ShapeContext& c);
bool Split(ShapeContext& c);
bool Transpose(ShapeContext& c);
bool Expand(ShapeContext& c);
bool Tile(ShapeContext& c);
bool Pad(ShapeContext& c);
// Its attribute `value` is a weight, which a rule cannot read: a caller that
// can may append the type and contents of that tensor as if it were operand 1.
bool ConstantOfShape(ShapeContext& c);
bool Range(ShapeContext& c);
bool OneHot(ShapeContext& c);
bool DepthToSpace(ShapeContext& c);
bool SpaceToDepth(ShapeContext& c);
bool Resize(ShapeContext& c);  // and Upsample

// lib/ir/shape_rules_{matmul,conv,reduce,sequence}.cc
bool MatMul(ShapeContext& c);
bool MatMulInteger(ShapeContext& c);
bool QLinearMatMul(ShapeContext& c);
bool Gemm(ShapeContext& c);
bool Conv(ShapeContext& c);
bool ConvInteger(ShapeContext& c);
bool QLinearConv(ShapeContext& c);
bool ConvTranspose(ShapeContext& c);
bool Pool(ShapeContext& c);  // MaxPool (two results), AveragePool, LpPool
bool GlobalPool(ShapeContext& c);
bool Reduce(ShapeContext& c);     // all Reduce*, with contents for small ints
bool ArgReduce(ShapeContext& c);  // ArgMax, ArgMin
bool TopK(ShapeContext& c);
bool BatchNormalization(ShapeContext& c);
bool LayerNormalization(ShapeContext& c);
bool Einsum(ShapeContext& c);
bool Recurrent(ShapeContext& c);       // LSTM, GRU, RNN
bool Attention(ShapeContext& c);       // ai.onnx Attention, opset 23
bool SequenceEmpty(ShapeContext& c);   // its contents; the type is ONNX's
bool SequenceLength(ShapeContext& c);  // with contents for the empty sequence
// com.microsoft
bool FusedMatMul(ShapeContext& c);
bool SkipLayerNormalization(ShapeContext& c);
// com.microsoft.nchwc
bool NchwcReorderInput(ShapeContext& c);
bool NchwcReorderOutput(ShapeContext& c);
bool NchwcUpsample(ShapeContext& c);

}  // namespace shape_rules

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_SHAPE_RULES_H_
