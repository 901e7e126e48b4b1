// Where a region may begin and end: positions of a block where few bytes cross
// from what is before to what is after.
//
//   const RegionCuts cuts(flow, bytes_of);
//   cuts.Fewest(region, seed, /*left=*/true);   // before the seed
//   cuts.Nearest(region, seed, /*left=*/false);  // behind it
//
// `region`: positions of the nodes of the largest region, ascending, among them
// the seed's.
#ifndef ONNX_MEMOPT_LIB_REWRITE_REGION_CUTS_H_
#define ONNX_MEMOPT_LIB_REWRITE_REGION_CUTS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/grow_region.h"

namespace onnx_memopt::rewrite {

class RegionCuts {
 public:
  RegionCuts(const BlockFlow& flow, std::function<int64_t(ir::ValueId)> bytes);

  // The end of the region and the cuts that the fewest bytes cross.
  std::vector<int> Fewest(const std::vector<int>& region, int seed,
                          bool left) const;
  // The nearest positions where clearly fewer bytes cross than at any between
  // them and the seed. Images shrink from layer to layer, so the fewest cross
  // far away, where halos are as large as parts.
  std::vector<int> Nearest(const std::vector<int>& region, int seed,
                           bool left) const;

 private:
  int64_t Crossing(int before, int after) const;
  template <typename Visit>
  void ForEachRead(int position, Visit visit) const;

  const BlockFlow& flow_;
  const std::function<int64_t(ir::ValueId)> bytes_;
  // By position: bytes made before it and read there or later.
  std::vector<int64_t> crossing_;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_REGION_CUTS_H_
