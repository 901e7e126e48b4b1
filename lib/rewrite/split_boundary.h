// What goes into a Scan over parts, and what comes out of it.
#ifndef ONNX_MEMOPT_LIB_REWRITE_SPLIT_BOUNDARY_H_
#define ONNX_MEMOPT_LIB_REWRITE_SPLIT_BOUNDARY_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/ir/graph.h"
#include "rewrite/boundary_nodes.h"

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
  SplitBoundary(BoundaryNodes* nodes, ir::Dim parts)
      : nodes_(*nodes),
        builder_(nodes->builder()),
        outer_(nodes->outer()),
        body_(nodes->body()),
        parts_(std::move(parts)) {}

  // The part of `whole` along `axis`, as a value of the body.
  absl::StatusOr<ir::ValueId> Input(ir::ValueId whole, int axis);
  // Makes `whole`, which nothing defines now, of the parts that the body
  // computes as `part`.
  absl::Status Output(ir::ValueId part, ir::ValueId whole, int axis);
  // A Scan needs something to go over.
  absl::Status EnsureInput();

 private:
  enum class Form { kItem, kStacked, kSliced };
  absl::StatusOr<Form> FormOf(const ir::Type& type, int axis,
                              const ir::Dim& part) const;
  // Operands and attributes.
  std::pair<std::vector<ir::ValueId>, std::vector<ir::Attribute>> WithAxes(
      ir::BlockId block, ir::ValueId value, absl::string_view base,
      const std::vector<int64_t>& axes);
  ir::ValueId Unsqueeze(BoundaryNodes::Place place, ir::ValueId value, int axes,
                        const ir::Type& type, bool squeeze);
  absl::StatusOr<ir::ValueId> Start(ir::ValueId whole, int axis, int64_t part);

  BoundaryNodes& nodes_;
  Builder& builder_;
  const ir::BlockId outer_;
  const ir::BlockId body_;
  const ir::Dim parts_;
  // The first element of a part, for each extent of a part.
  std::vector<std::pair<int64_t, ir::ValueId>> starts_;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_SPLIT_BOUNDARY_H_
