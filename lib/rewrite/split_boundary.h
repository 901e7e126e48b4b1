// What goes into a Scan over parts, and what comes out of it.
#ifndef ONNX_MEMOPT_LIB_REWRITE_SPLIT_BOUNDARY_H_
#define ONNX_MEMOPT_LIB_REWRITE_SPLIT_BOUNDARY_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/builder.h"

namespace onnx_memopt::rewrite {

// Makes the Scan's operands, parameters and results, with the nodes before it,
// at the beginning and at the end of its body, and after it. A part keeps the
// rank of the whole. There are three forms, the cheapest that fits is taken:
//
//   an item    the extent of a part is 1 and all axes before are 1: the Scan
//              goes over the axis itself, whatever the other dims are
//   stacked    all dims are numbers and all axes before are 1: the whole is
//              reshaped to [parts, part...], which moves no data
//   sliced     else: the body takes a Slice of the captured whole; results
//              are transposed when the Scan has ended, which copies them
class SplitBoundary {
 public:
  SplitBoundary(Builder* builder, ir::BlockId outer, ir::BlockId body,
                ir::Dim parts)
      : builder_(*builder),
        outer_(outer),
        body_(body),
        parts_(std::move(parts)) {}

  // The part of `whole` along `axis`, as a value of the body.
  absl::StatusOr<ir::ValueId> Input(ir::ValueId whole, int axis);
  // Makes `whole`, which nothing defines now, of the parts that the body
  // computes as `part`.
  absl::Status Output(ir::ValueId part, ir::ValueId whole, int axis);
  // A Scan needs something to go over.
  absl::Status EnsureInput();

  // Of the Scan.
  const std::vector<ir::ValueId>& operands() const { return operands_; }
  const std::vector<ir::ValueId>& params() const { return params_; }
  const std::vector<ir::ValueId>& body_results() const { return body_results_; }
  const std::vector<ir::ValueId>& results() const { return results_; }
  // In order of execution.
  const std::vector<ir::NodeId>& before() const { return before_; }
  const std::vector<ir::NodeId>& body_begin() const { return body_begin_; }
  const std::vector<ir::NodeId>& body_end() const { return body_end_; }
  const std::vector<ir::NodeId>& after() const { return after_; }

  // The shape operand of a node for one part: `shape` with these elements
  // replaced by extents of parts.
  struct Replacement {
    int element;
    ir::Dim extent;
  };
  absl::StatusOr<ir::ValueId> PartShape(
      ir::ValueId shape, const std::vector<Replacement>& replacements);

 private:
  enum class Form { kItem, kStacked, kSliced };
  absl::StatusOr<Form> FormOf(const ir::Type& type, int axis,
                              const ir::Dim& part) const;
  // Adds a node to one of the lists above and returns its result.
  ir::ValueId Add(std::vector<ir::NodeId>* list, ir::BlockId block,
                  absl::string_view op_type,
                  absl::Span<const ir::ValueId> operands, ir::Type type,
                  absl::string_view base,
                  std::vector<ir::Attribute> attributes = {});
  // Operands and attributes.
  std::pair<std::vector<ir::ValueId>, std::vector<ir::Attribute>> WithAxes(
      ir::BlockId block, ir::ValueId value, absl::string_view base,
      const std::vector<int64_t>& axes);
  ir::ValueId Unsqueeze(std::vector<ir::NodeId>* list, ir::BlockId block,
                        ir::ValueId value, int axes, const ir::Type& type,
                        bool squeeze);
  absl::StatusOr<ir::ValueId> Start(ir::ValueId whole, int axis, int64_t part);

  Builder& builder_;
  ir::BlockId outer_;
  ir::BlockId body_;
  ir::Dim parts_;
  std::vector<ir::ValueId> operands_, params_, body_results_, results_;
  std::vector<ir::NodeId> before_, body_begin_, body_end_, after_;
  // The first element of a part, for each extent of a part.
  std::vector<std::pair<int64_t, ir::ValueId>> starts_;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_SPLIT_BOUNDARY_H_
