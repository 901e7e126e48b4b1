// What it costs in time to run a region in parts, by the time model.
//
//   const RegionTime time(graph, sizes, model, {.max_slowdown = 0.1});
//   if (time.Keeps(plan, parts)) ...
#ifndef ONNX_MEMOPT_LIB_REWRITE_REGION_TIME_H_
#define ONNX_MEMOPT_LIB_REWRITE_REGION_TIME_H_

#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/analysis/time_model.h"
#include "onnx_memopt/ir/dim.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/region_windows.h"
#include "onnx_memopt/rewrite/split_region.h"

namespace onnx_memopt::rewrite {

class RegionTime {
 public:
  struct Limits {
    // A region may take this much longer in parts, or a small share of what is
    // left of `max_seconds`, whichever is more.
    double max_slowdown;
    double max_seconds;  // of a run of the whole graph
  };

  RegionTime(const ir::Graph& graph, const analysis::Sizes& sizes,
             const analysis::TimeModel& time, Limits limits);

  // Seconds by which a run gets longer: parts read weights again, each is a
  // call, and where ranges overlap (`windows`, with its part set) some is
  // computed twice.
  double AddedSeconds(const SplitPlan& plan, const ir::Dim& parts,
                      const RegionWindows* windows = nullptr) const;
  // Whether that is within the limits.
  bool Keeps(const SplitPlan& plan, const ir::Dim& parts,
             const RegionWindows* windows = nullptr) const;

 private:
  double WholeBytes(const SplitNode& split) const;
  double Overlap(const SplitNode& split, double count,
                 const RegionWindows& windows) const;

  const ir::Graph& graph_;
  const analysis::Sizes& sizes_;
  const analysis::TimeModel& time_;
  const ir::Bindings bindings_;
  const Limits limits_;
};

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_REGION_TIME_H_
