// What overlapping parts compute twice.
#ifndef ONNX_MEMOPT_LIB_REWRITE_EXTRA_WORK_H_
#define ONNX_MEMOPT_LIB_REWRITE_EXTRA_WORK_H_

#include "onnx_memopt/analysis/cost.h"
#include "onnx_memopt/ir/dim.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/rewrite/region_windows.h"
#include "onnx_memopt/rewrite/split_region.h"

namespace onnx_memopt::rewrite {

// The work of all parts of the region over that of the whole, less 1:
// arithmetic, and bytes that are read and written. Names have the sizes of
// `bindings`. A part is set.
double ExtraWork(const ir::Graph& graph, const SplitPlan& plan,
                 const RegionWindows& windows, const analysis::Cost& cost,
                 const ir::Bindings& bindings);

}  // namespace onnx_memopt::rewrite

#endif  // ONNX_MEMOPT_LIB_REWRITE_EXTRA_WORK_H_
