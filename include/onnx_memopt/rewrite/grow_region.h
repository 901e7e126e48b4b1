// Finds the nodes that can run part by part together with a given one.
//
//   BlockFlow flow(graph, ir::kMainBlock);
//   int seed = flow.position(matmul);
//   std::optional<SplitPlan> plan =
//       GrowRegion(flow, seed, flow.ways(seed).front(), 0, flow.size());
//   plan->parts = DivisorsOf(*plan).back();  // or RegionWindows, and
//   plan->part
#ifndef ONNX_MEMOPT_REWRITE_GROW_REGION_H_
#define ONNX_MEMOPT_REWRITE_GROW_REGION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "llvm/ADT/DenseMap.h"
#include "onnx_memopt/ir/dimension_flow.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/split_region.h"

namespace onnx_memopt::rewrite {

// What is asked of a block again and again: ways, positions, users.
class BlockFlow {
 public:
  BlockFlow(const ir::Graph& graph, ir::BlockId block);

  const ir::Graph& graph() const { return graph_; }
  ir::BlockId block() const { return block_; }
  int size() const { return static_cast<int>(nodes_.size()); }
  ir::NodeId node(int position) const { return nodes_[position]; }
  // -1 if it is not in the schedule of this block.
  int position(ir::NodeId node) const;
  // The position of what makes it; -1 if no node of this block does.
  int producer(ir::ValueId value) const;
  // Positions of the nodes that read it, captures included; sorted.
  const std::vector<int>& users(ir::ValueId value) const;
  // Values of outer scope that the node at `position` reads.
  const std::vector<ir::ValueId>& uses(int position) const {
    return uses_[position];
  }
  // Of a node that can be part of a region; empty for others.
  const std::vector<ir::SplitWay>& ways(int position) const;

 private:
  const ir::Graph& graph_;
  ir::BlockId block_;
  std::vector<ir::NodeId> nodes_;
  llvm::DenseMap<ir::NodeId, int> position_;
  std::vector<std::vector<ir::ValueId>> uses_;
  llvm::DenseMap<ir::ValueId, std::vector<int>> users_;
  mutable std::vector<std::optional<std::vector<ir::SplitWay>>> ways_;
};

// The region around the node at `seed`, split by `way`: what makes its split
// operands, what reads its results, and so on, as far as the dimension flows
// and within positions [begin, end) of the schedule. Where a node would need
// all of something that is split, it stays outside; so does what would leave
// the region and come back. Nullopt if the seed itself cannot be split.
//
// Without `parts` and `part`; the caller chooses: among what divides every
// extent, or the size of parts that overlap.
std::optional<SplitPlan> GrowRegion(const BlockFlow& flow, int seed,
                                    const ir::SplitWay& way, int begin,
                                    int end);

// Numbers of parts, above 1, that divide every extent of the region: all of
// them from few to many, or, where extents are symbolic, the one that divides
// all; none where there is none, or where parts have to overlap.
std::vector<ir::Dim> DivisorsOf(const SplitPlan& plan);

// Some region of the main graph in some number of parts, whether it pays or
// not, for tests; nullopt where the numbers drawn do not give one. The same
// `seed` gives the same region.
std::optional<SplitPlan> RandomRegion(const ir::Graph& graph, uint64_t seed);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_REWRITE_GROW_REGION_H_
