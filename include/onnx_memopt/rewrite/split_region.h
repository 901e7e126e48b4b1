// Runs a region of a block part by part: the nodes move into the body of one
// Scan, which slices what comes in, and puts together what goes out.
//
//     x: [16, 3, 224, 224]                  x
//     a = Conv(x, w)                        y = Scan(x) {
//     b = Relu(a)                 =>          part: [3, 224, 224]
//     y = GlobalAveragePool(b)                Unsqueeze, Conv, Relu,
//                                             GlobalAveragePool, Squeeze }
//
// While the Scan runs, its inputs and outputs are there as a whole, and one
// part of all that is between them. Parts are equal: either so many that they
// divide every extent, or of a given size, and then they overlap where windows
// of convolutions reach over their borders, and at the end. A Scan is emitted,
// never a list of slices: runtimes merge those again. Weights and other
// operands that every part needs as a whole are captured.
#ifndef ONNX_MEMOPT_REWRITE_SPLIT_REGION_H_
#define ONNX_MEMOPT_REWRITE_SPLIT_REGION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/ir/dimension_flow.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::rewrite {

struct SplitNode {
  ir::NodeId node;
  ir::SplitWay way;  // how it is split
};

// A region: nodes of one block, in the order of its schedule, that agree. Where
// one reads what another makes, either it needs the part that the other makes,
// or the plan is refused. No path leaves the region and comes back.
struct SplitPlan {
  ir::BlockId block = ir::kMainBlock;
  std::vector<SplitNode> nodes;
  // Divides the extent of every axis that is split: the number of parts. May be
  // symbolic (one part for each item of a batch of any size).
  ir::Dim parts;
  // If given, parts have so many elements and may overlap (region_windows.h);
  // `parts` follows from it then.
  std::optional<int64_t> part;
};

// True if a node of a region can be split this way: its parts are joined, and
// its attributes stay.
bool CanSplit(const ir::SplitWay& way);
// True if the plan can only be carried out with a given `part`.
bool NeedsWindows(const SplitPlan& plan);

// Changes `graph` to run the region in parts; returns the Scan.
// kFailedPrecondition if the plan cannot be expressed, with the reason; the
// graph may be half changed then: try it on a clone.
absl::StatusOr<ir::NodeId> SplitRegion(ir::Graph& graph, const SplitPlan& plan);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_SPLIT_REGION_H_
