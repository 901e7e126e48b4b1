// The nodes that a Scan over the parts of a region needs around those that move
// into its body, and what goes into the Scan and comes out of it. What the
// parts are is the business of split_boundary.h and window_boundary.h.
//
//   ValueId start = nodes.ScanOver(starts, type_of_one, "split/start");
//   ValueId part = nodes.Add(Place::kBodyBegin, "Gather", {x, start}, ...);
//   nodes.Return(part, parts_of_x);
#ifndef ONNX_MEMOPT_LIB_REWRITE_BOUNDARY_NODES_H_
#define ONNX_MEMOPT_LIB_REWRITE_BOUNDARY_NODES_H_

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::rewrite {

class BoundaryNodes {
 public:
  // In order of execution: before the Scan, in its body, after it.
  enum class Place { kBefore, kBodyBegin, kBodyEnd, kAfter };

  BoundaryNodes(Builder* builder, ir::BlockId outer, ir::BlockId body)
      : builder_(*builder), outer_(outer), body_(body) {}

  Builder& builder() const { return builder_; }
  ir::BlockId outer() const { return outer_; }
  ir::BlockId body() const { return body_; }
  ir::BlockId block(Place place) const {
    return place == Place::kBefore || place == Place::kAfter ? outer_ : body_;
  }

  // Adds a node and returns its result.
  ir::ValueId Add(Place place, absl::string_view op_type,
                  absl::Span<const ir::ValueId> operands, ir::Type type,
                  absl::string_view base,
                  std::vector<ir::Attribute> attributes = {}) {
    const ir::ValueId result =
        builder_.Op(block(place), op_type, operands, std::move(type), base,
                    std::move(attributes));
    lists_[Number(place)].push_back(builder_.graph().value(result).producer);
    return result;
  }
  // A node that was made already.
  void Append(Place place, ir::NodeId node) {
    lists_[Number(place)].push_back(node);
  }
  // Adds a node after the Scan that makes `result`, which nothing defines now.
  void Define(ir::ValueId result, absl::string_view op_type,
              absl::Span<const ir::ValueId> operands, const std::string& name,
              std::vector<ir::Attribute> attributes = {}) {
    lists_[Number(Place::kAfter)].push_back(builder_.Node(
        outer_, op_type, operands, {result}, name, std::move(attributes)));
  }

  // What the body gets of `operand`, which the Scan goes over; it has `type`.
  ir::ValueId ScanOver(ir::ValueId operand, ir::Type type,
                       absl::string_view base) {
    operands_.push_back(operand);
    params_.push_back(builder_.Value(body_, std::move(type), base,
                                     ir::ValueKind::kBlockParam));
    return params_.back();
  }
  // `result`, of the Scan, is `inner`, of the body, stacked.
  void Return(ir::ValueId inner, ir::ValueId result) {
    body_results_.push_back(inner);
    results_.push_back(result);
  }

  // Of the Scan.
  const std::vector<ir::ValueId>& operands() const { return operands_; }
  const std::vector<ir::ValueId>& params() const { return params_; }
  const std::vector<ir::ValueId>& body_results() const { return body_results_; }
  const std::vector<ir::ValueId>& results() const { return results_; }
  const std::vector<ir::NodeId>& at(Place place) const {
    return lists_[Number(place)];
  }

 private:
  static size_t Number(Place place) { return static_cast<size_t>(place); }

  Builder& builder_;
  const ir::BlockId outer_;
  const ir::BlockId body_;
  std::vector<ir::ValueId> operands_, params_, body_results_, results_;
  std::array<std::vector<ir::NodeId>, 4> lists_;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_BOUNDARY_NODES_H_
