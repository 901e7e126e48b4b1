// One node's gradient, as its rule sees it: x are the node's operands, y its
// results, dy the gradients of the results that have one.
//
//   absl::Status Tanh(RuleContext& c) {   // dx = dy * (1 - y^2)
//     Emitter& e = c.e();
//     return c.Give(0, e.Mul(c.dy(), e.RSub(1, e.Square(c.y()))));
//   }
//
// x() and y() read data of the forward pass, which is saved for it: a rule that
// reads what its row in the op table does not list is an internal error. Types
// and small constants may be asked for at any time.
#ifndef ONNX_MEMOPT_LIB_GRAD_RULE_CONTEXT_H_
#define ONNX_MEMOPT_LIB_GRAD_RULE_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/emitter.h"

namespace onnx_memopt::grad {

using ir::ValueId;
using rewrite::Attr;
using rewrite::Emitter;
using Numbers = std::vector<int64_t>;

class RuleContext {
 public:
  RuleContext(Emitter* emitter, ir::NodeId node);

  Emitter& e() { return emitter_; }
  // A copy: emitting moves the graph's own.
  const ir::Node& node() const { return node_; }
  ir::NodeId id() const { return id_; }

  size_t num_operands() const { return node_.operands.size(); }
  bool has(size_t i) const {
    return i < node_.operands.size() && node_.operands[i] != ir::kNoValue;
  }
  bool has_result(size_t i) const {
    return i < node_.results.size() && node_.results[i] != ir::kNoValue;
  }
  // Data of the forward pass.
  ValueId x(size_t i = 0);
  ValueId y(size_t i = 0);
  // Their types, and their names for shapes: no data.
  ValueId x_id(size_t i = 0) const { return node_.operands[i]; }
  ValueId y_id(size_t i = 0) const { return node_.results[i]; }
  const ir::Type& x_type(size_t i = 0) const;
  // Null if the operand is left out or its rank is unknown.
  const ir::Shape* x_shape(size_t i = 0) const;
  const ir::Shape* y_shape(size_t i = 0) const;
  // The rank of operand i or result i; an error if it is unknown.
  absl::StatusOr<size_t> Rank(size_t i = 0) const;
  absl::StatusOr<Numbers> StaticShape(size_t i = 0) const;
  absl::StatusOr<Numbers> StaticResultShape(size_t i = 0) const;
  // The integers of a list operand or an attribute; nullopt: not given.
  absl::StatusOr<std::optional<Numbers>> List(absl::string_view attribute,
                                              size_t operand) const;
  // The integers of a list operand, or these if it is left out.
  absl::StatusOr<Numbers> ListOr(size_t operand, Numbers otherwise) const;
  int64_t Int(absl::string_view name, int64_t otherwise) const;
  float Float(absl::string_view name, float otherwise) const;
  std::string String(absl::string_view name, absl::string_view otherwise) const;
  const Numbers* Ints(absl::string_view name) const;
  // An axis attribute as an index below `rank`.
  absl::StatusOr<int64_t> Axis(int64_t axis, size_t rank) const;

  // The node's result i, which it is made to give if it does not yet.
  ValueId AskFor(size_t i, ir::Type type);

  // kNoValue: that result has no gradient, which is zero then.
  ValueId dy(size_t i = 0) const {
    return i < result_gradients_.size() ? result_gradients_[i] : ir::kNoValue;
  }
  bool wants(size_t i) const { return i < wanted_.size() && wanted_[i]; }
  // Sets the gradient of operand i.
  absl::Status Give(size_t i, ValueId gradient);
  // The same of a gradient that has the shape that operands were broadcast to.
  absl::Status GiveBroadcast(size_t i, ValueId gradient);

  absl::Status Error(absl::string_view reason) const;

  // For differentiate.cc.
  void SetResultGradient(size_t i, ValueId gradient) {
    result_gradients_[i] = gradient;
  }
  void Want(size_t i) { wanted_[i] = true; }
  const std::vector<ValueId>& gradients() const { return gradients_; }
  uint32_t operands_read() const { return operands_read_; }
  uint32_t results_read() const { return results_read_; }

 private:
  Emitter& emitter_;
  ir::NodeId id_;
  ir::Node node_;
  std::vector<ValueId> result_gradients_;
  std::vector<bool> wanted_;
  std::vector<ValueId> gradients_;
  uint32_t operands_read_ = 0;
  uint32_t results_read_ = 0;
};

// The part of `gradient` that belongs to `value`, which was broadcast to its
// shape: summed over the axes that broadcasting made or stretched.
ValueId SumToShapeOf(Emitter& e, ValueId gradient, ValueId value);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_LIB_GRAD_RULE_CONTEXT_H_
