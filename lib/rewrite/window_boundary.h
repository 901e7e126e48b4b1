// What goes into a Scan over ranges that may overlap, and what comes out of it.
//
//   before     the beginnings of the ranges, [parts, 1], one list for each
//   level
//              and ratio; computed when the model runs if the extent has a name
//   body       each tensor from outside is captured, and the step takes its
//              range: by Gather if its size is a number, so that the runtime
//              knows it too, else by Slice, which stops at the end of a tensor
//              that is smaller than a range
//   after      results are transposed where other axes come before, and
//              reshaped; where the last part overlaps, its first elements are
//              left out by a Gather
#ifndef ONNX_MEMOPT_LIB_REWRITE_WINDOW_BOUNDARY_H_
#define ONNX_MEMOPT_LIB_REWRITE_WINDOW_BOUNDARY_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/region_windows.h"
#include "rewrite/boundary_nodes.h"

namespace onnx_memopt::rewrite {

class WindowBoundary {
 public:
  // Results get so many axes of one element behind the one that is split, as
  // long as they are parts. A runtime that lends the buffer of a dead tensor to
  // one of the same shape holds it until then; parts of no two loops should
  // have the same shape.
  WindowBoundary(BoundaryNodes* nodes, const RegionWindows* windows,
                 int unit_axes)
      : nodes_(*nodes),
        builder_(nodes->builder()),
        windows_(*windows),
        unit_axes_(unit_axes) {}

  // The range of `whole` at `level`, as a value of the body.
  absl::StatusOr<ir::ValueId> Input(ir::ValueId whole, int axis, int level);
  // Makes `whole`, which nothing defines now, of `inner`, the range that the
  // body computes at `level`.
  absl::Status Output(ir::ValueId inner, ir::ValueId whole, int axis,
                      int level);
  // The range of `whole` at level `to`, of `inner`, the range at level `from`.
  // The nodes that take it are added to `order`. If it has to be taken, axes of
  // one element may come with it.
  absl::StatusOr<ir::ValueId> Cut(ir::ValueId inner, ir::ValueId whole,
                                  int axis, int from, int to,
                                  std::vector<ir::NodeId>* order,
                                  int unit_axes = 0);

  // A Scan needs something to go over.
  absl::Status EnsureInput();

 private:
  static constexpr int kOutside = -1;
  // Where ranges of one level begin in those of another, or outside.
  struct Offset {
    int from;
    int to;
    Ratio ratio;
    ir::ValueId param;
  };

  absl::StatusOr<ir::ValueId> OffsetParam(ir::ValueId whole, int axis, int from,
                                          int to);
  absl::StatusOr<ir::ValueId> OffsetsAtRunTime(ir::ValueId whole, int axis,
                                               int from, int to);
  // The value `extent` of `windows_`, as a list of one element.
  ir::ValueId ExtentAtRunTime(ir::ValueId whole, int axis);
  ir::ValueId BeginsAtRunTime(ir::ValueId extent, int level);
  absl::StatusOr<ir::ValueId> Take(ir::ValueId from_value, ir::ValueId whole,
                                   int axis, int from, int to,
                                   std::vector<ir::NodeId>* order,
                                   int unit_axes = 0);
  // The elements to keep of `parts` joined parts.
  ir::ValueId KeptIndices(ir::ValueId whole, int axis);
  ir::ValueId JoinedShape(ir::ValueId ordered, const ir::Shape& joined,
                          int64_t rows_each, int axis);
  ir::ValueId RowsAtRunTime();

  // Small nodes before the Scan, on lists of one element.
  ir::ValueId Before(absl::string_view op, ir::ValueId a, int64_t b);
  ir::ValueId Before(absl::string_view op, ir::ValueId a, ir::ValueId b);
  ir::ValueId Scalar(ir::ValueId list);

  BoundaryNodes& nodes_;
  Builder& builder_;
  const RegionWindows& windows_;
  const int unit_axes_;
  std::vector<Offset> offsets_;
  llvm::DenseMap<int64_t, ir::ValueId> indices_;  // 0 ... n - 1, by n
  ir::ValueId extent_ = ir::kNoValue;             // at run time
  ir::ValueId rows_ = ir::kNoValue;
  std::vector<std::pair<int, ir::ValueId>> begins_;  // by level, at run time
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_WINDOW_BOUNDARY_H_
