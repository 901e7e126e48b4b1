// Which part of each tensor of a region one step needs, where parts overlap:
// windows of convolutions reach over the border of a part, and the last part of
// an extent that no number divides begins before the one before it ends.
//
// One step makes `part` elements of what leaves the region, and every tensor in
// it is there as a range that is large enough, of the same size in all steps:
//
//   rows:    0                                                     extent
//   part     |          |[--------)|          |          |      [--------)|
//   window   |       [--------------)         |       [------------------)|
//                     before    after           moved to the border: its size
//                                               stays
//
// Nodes run on these ranges with their attributes, padding too. At a border of
// the tensor that is what the whole does there. At any other border results
// are wrong as far as the window of the node reaches, and the halo is as wide
// as all nodes behind it need: what is wrong is cut off at the end, when the
// part is taken out. So no padding depends on the step, and convolutions stay
// next to each other as they were. Rows near borders of parts are computed
// twice.
//
// Where an image is enlarged, a narrower range behind it saves work: there the
// range is cut, and a new level begins.
//
//   ASSIGN_OR_RETURN(RegionWindows windows, RegionWindows::Find(graph, plan));
//   RETURN_IF_ERROR(windows.SetPart(32));
//   int64_t rows = *windows.size(value, axis, 0);
//
// Sizes are in elements of `extent`, the split extent of what leaves the region
// (of the smallest of several); a tensor with twice the rows has ratio 2.
#ifndef ONNX_MEMOPT_REWRITE_REGION_WINDOWS_H_
#define ONNX_MEMOPT_REWRITE_REGION_WINDOWS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "onnx_memopt/ir/dim.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/split_region.h"

namespace onnx_memopt::rewrite {

struct Ratio {
  int64_t num = 1;
  int64_t den = 1;
};

class RegionWindows {
 public:
  // kFailedPrecondition, with the reason, where ranges of the nodes do not move
  // together by a constant ratio.
  static absl::StatusOr<RegionWindows> Find(const ir::Graph& graph,
                                            const SplitPlan& plan);
  // The same for callers who know which results of the region are read outside.
  static absl::StatusOr<RegionWindows> Find(
      const ir::Graph& graph, const SplitPlan& plan,
      llvm::function_ref<bool(ir::ValueId)> is_read_outside);

  const ir::Dim& extent() const { return extent_; }
  // Parts are multiples of this.
  int64_t grain() const { return grain_; }

  // Elements of a part: a multiple of `grain`, below `extent` if that is known.
  absl::Status SetPart(int64_t part);
  int64_t part() const { return part_; }
  const ir::Dim& parts() const { return parts_; }
  // True if the parts do not overlap.
  bool IsExact() const { return exact_; }

  // A range begins at clamp(begin of the part, rounded down to grain(), less
  // `before`, 0, extent - length); the last level has the parts themselves.
  struct Level {
    int64_t grain =
        1;  // of beginnings; lengths are as far from it as extent is
    int64_t before = 0;
    int64_t length = 0;
  };
  // From wide to narrow.
  const std::vector<Level>& levels() const { return levels_; }
  int part_level() const { return static_cast<int>(levels_.size()) - 1; }
  // The level that the node runs at.
  int level(ir::NodeId node) const;

  // Of a tensor that is split along `axis`: elements for each one of `extent`.
  Ratio ratio(ir::ValueId value, int axis) const;
  // Its elements in a range of this level; less where the extent is less.
  ir::Dim size(ir::ValueId value, int axis, int level) const;
  // Without the last restriction.
  int64_t full_size(ir::ValueId value, int axis, int level) const;
  // The extent of the tensor is extent * ratio - deficit / ratio.den.
  int64_t deficit(ir::ValueId value, int axis) const;
  // Where the range begins in step `step`, in elements of `extent`, which has
  // to be a number.
  int64_t Begin(int level, int64_t step) const;

 private:
  struct Place {
    Ratio ratio;
    ir::Dim extent;
    int64_t deficit = 0;
    // Elements needed beyond those of the part, by the nodes that read it.
    bool needed = false;
    int64_t before = 0;
    int64_t after = 0;
  };
  // What one node needs of an operand.
  struct Need {
    size_t place;
    int64_t before;
    int64_t after;
  };
  struct Step {
    ir::NodeId node = ir::kNoNode;
    bool enlarges = false;  // ends a level, if that helps
    std::vector<Need> operands;
    std::vector<size_t> results;
    std::vector<size_t> inside;  // steps that make its operands
    int64_t grain = 1;           // of ranges that it runs on
    int level = 0;
  };

  absl::Status FindRatios(const ir::Graph& graph, const SplitPlan& plan);
  absl::Status FindExtent(
      const ir::Graph& graph, const SplitPlan& plan,
      llvm::function_ref<bool(ir::ValueId)> is_read_outside);
  absl::Status FindGrain(const SplitPlan& plan);
  absl::Status FindNeeds(const ir::Graph& graph, const SplitPlan& plan);
  const Place& place(ir::ValueId value, int axis) const;
  std::vector<Level> Levels(const std::vector<bool>& cuts);

  llvm::DenseMap<std::pair<ir::ValueId, int>, size_t> index_;
  std::vector<Place> places_;
  std::vector<size_t> outputs_;  // places of what leaves the region
  std::vector<Step> steps_;
  llvm::DenseMap<ir::NodeId, size_t> step_;
  ir::Dim extent_;
  int64_t grain_ = 1;
  int64_t part_ = 0;
  ir::Dim parts_;
  bool exact_ = false;
  std::vector<Level> levels_;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_REGION_WINDOWS_H_
