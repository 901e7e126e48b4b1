// Cells: parts of the graph that every order finishes before it starts the
// next. The live set between two cells is the same in every order, so each cell
// can be ordered alone, and the peak is the largest of the cells' peaks.
//
//        b           d - e
//      /   \       /       \             cells: {a} {b c} {x} {d e f} {y}
//    a       - x -           - y
//      \   /       \       /
//        c           - f -
#ifndef ONNX_MEMOPT_PLAN_SCHEDULE_CELLS_H_
#define ONNX_MEMOPT_PLAN_SCHEDULE_CELLS_H_

#include <cstdint>
#include <vector>

#include "plan/schedule_units.h"

namespace onnx_memopt::plan {

// The cells in order; the units of each ascending. A floating unit is in the
// cell of the first unit that needs it: it can wait until there. Linear time.
std::vector<std::vector<int32_t>> FindCells(const UnitGraph& units);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_SCHEDULE_CELLS_H_
