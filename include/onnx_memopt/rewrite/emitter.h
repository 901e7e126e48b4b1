// Emits straight-line code into one block: nodes whose result types follow from
// the op table's shape rules, in the form that the model's opset asks for, with
// equal constants made once.
//
//   Emitter e(&builder, kMainBlock);
//   ValueId half = e.Mul(e.Real(0.5, ElementType::kFloat), e.Op("Exp", {x}));
//   schedule.insert(schedule.end(), e.nodes().begin(), e.nodes().end());
//
// The nodes are in no schedule until they are put there.
#ifndef ONNX_MEMOPT_REWRITE_EMITTER_H_
#define ONNX_MEMOPT_REWRITE_EMITTER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::rewrite {

class Emitter {
 public:
  using Attributes = std::vector<ir::Attribute>;
  using Axes = std::vector<int64_t>;

  Emitter(Builder* builder, ir::BlockId block)
      : builder_(*builder), graph_(builder->graph()), block_(block) {}

  Builder& builder() { return builder_; }
  ir::Graph& graph() { return graph_; }
  int opset() const { return builder_.opset(); }
  ir::BlockId block() const { return block_; }
  // Of the names of what is emitted from now on.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  // All that was emitted, in order.
  const std::vector<ir::NodeId>& nodes() const { return nodes_; }
  std::vector<ir::NodeId>& mutable_nodes() { return nodes_; }

  const ir::Type& type(ir::ValueId value) const {
    return graph_.value(value).type;
  }
  ir::ElementType element(ir::ValueId value) const {
    return type(value).element;
  }
  // Null if the rank is unknown.
  const ir::Shape* shape(ir::ValueId value) const {
    const ir::Type& t = type(value);
    return t.is_tensor() && t.shape ? &*t.shape : nullptr;
  }

  ir::ValueId Op(absl::string_view op_type,
                 absl::Span<const ir::ValueId> operands,
                 Attributes attributes = {});
  std::vector<ir::ValueId> Ops(absl::string_view op_type,
                               absl::Span<const ir::ValueId> operands,
                               size_t results, Attributes attributes = {});

  // Constants; the same one twice is one initializer.
  ir::ValueId Real(double value, ir::ElementType element);
  // Of the element type of `like`.
  ir::ValueId RealLike(double value, ir::ValueId like) {
    return Real(value, element(like));
  }
  ir::ValueId Int(int64_t value);                      // of shape []
  ir::ValueId Ints(absl::Span<const int64_t> values);  // of shape [n]

  ir::ValueId Add(ir::ValueId a, ir::ValueId b) { return Op("Add", {a, b}); }
  ir::ValueId Sub(ir::ValueId a, ir::ValueId b) { return Op("Sub", {a, b}); }
  ir::ValueId Mul(ir::ValueId a, ir::ValueId b) { return Op("Mul", {a, b}); }
  ir::ValueId Div(ir::ValueId a, ir::ValueId b) { return Op("Div", {a, b}); }
  ir::ValueId Add(ir::ValueId a, double b) { return Add(a, RealLike(b, a)); }
  ir::ValueId Mul(ir::ValueId a, double b) { return Mul(a, RealLike(b, a)); }
  ir::ValueId RSub(double a, ir::ValueId b) { return Sub(RealLike(a, b), b); }
  ir::ValueId Neg(ir::ValueId a) { return Op("Neg", {a}); }
  ir::ValueId Exp(ir::ValueId a) { return Op("Exp", {a}); }
  ir::ValueId Sqrt(ir::ValueId a) { return Op("Sqrt", {a}); }
  ir::ValueId Square(ir::ValueId a) { return Mul(a, a); }
  ir::ValueId Greater(ir::ValueId a, double b) {
    return Op("Greater", {a, RealLike(b, a)});
  }
  ir::ValueId Less(ir::ValueId a, double b) {
    return Op("Less", {a, RealLike(b, a)});
  }
  ir::ValueId Where(ir::ValueId c, ir::ValueId a, ir::ValueId b) {
    return Op("Where", {c, a, b});
  }
  // `a` where `c` holds, else zero.
  ir::ValueId Keep(ir::ValueId c, ir::ValueId a) {
    return Where(c, a, RealLike(0, a));
  }
  ir::ValueId MatMul(ir::ValueId a, ir::ValueId b) {
    return Op("MatMul", {a, b});
  }
  // The operand itself where it has that type already.
  ir::ValueId Cast(ir::ValueId a, ir::ElementType to);
  // What another Transpose has read, where this one would take it back.
  ir::ValueId Transpose(ir::ValueId a, Axes perm);
  ir::ValueId SwapLastAxes(ir::ValueId a);
  // To these dims, at most one of them -1.
  ir::ValueId Reshape(ir::ValueId a, absl::Span<const int64_t> dims);
  // To the dims that a list operand holds.
  ir::ValueId Reshape(ir::ValueId a, ir::ValueId dims) {
    return Op("Reshape", {a, dims});
  }
  ir::ValueId Unsqueeze(ir::ValueId a, const Axes& axes);
  ir::ValueId Squeeze(ir::ValueId a, const Axes& axes);
  ir::ValueId ReduceSum(ir::ValueId a, const Axes& axes, bool keep_dims = true);
  ir::ValueId ReduceMean(ir::ValueId a, const Axes& axes,
                         bool keep_dims = true);
  ir::ValueId ReduceMax(ir::ValueId a, const Axes& axes, bool keep_dims = true);
  ir::ValueId Slice(ir::ValueId a, const Axes& axes, const Axes& starts,
                    const Axes& ends);
  // Zeros around: begin of each axis, then end of each.
  ir::ValueId Pad(ir::ValueId a, const Axes& pads);
  ir::ValueId Concat(absl::Span<const ir::ValueId> parts, int64_t axis);
  ir::ValueId Expand(ir::ValueId a, ir::ValueId dims) {
    return Op("Expand", {a, dims});
  }
  // Tensors of zeros made at run time: a constant of that size would be held
  // the whole run.
  ir::ValueId Zeros(ir::ElementType element, ir::ValueId dims);
  // A scalar that is known at run time only, and always zero; Zeros is made
  // from it, so that no runtime folds it.
  void set_zero(ir::ValueId int64_scalar) { zero_ = int64_scalar; }

  // The shape of `value` as a list: numbers where they are known, sizes of the
  // model's inputs where they are symbolic. Reads `value` itself only if it has
  // to, since that would keep it alive.
  ir::ValueId ShapeOf(ir::ValueId value);
  // One extent, as a list of one; nullopt if it does not follow from the
  // inputs.
  std::optional<ir::ValueId> DimValue(const ir::Dim& dim);
  // `a` with the elements of `like`, which has as many.
  ir::ValueId ReshapeLike(ir::ValueId a, ir::ValueId like);

 private:
  ir::ValueId Reduce(absl::string_view op_type, ir::ValueId a, const Axes& axes,
                     bool keep_dims, int axes_operand_since);
  std::optional<ir::ValueId> SymbolValue(const std::string& name);

  Builder& builder_;
  ir::Graph& graph_;
  ir::BlockId block_;
  std::string prefix_ = "memopt";
  std::vector<ir::NodeId> nodes_;
  ir::ValueId zero_ = ir::kNoValue;
  std::map<std::pair<ir::ElementType, double>, ir::ValueId> reals_;
  std::map<int64_t, ir::ValueId> scalars_;
  std::map<std::vector<int64_t>, ir::ValueId> lists_;
  std::map<std::string, ir::ValueId> symbols_;
};

ir::Attribute Attr(absl::string_view name, ir::AttributeValue value);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_EMITTER_H_
