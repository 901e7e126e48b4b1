// The searches on one cell, and the candidates for the whole graph.
#ifndef ONNX_MEMOPT_PLAN_SCHEDULE_SEARCH_H_
#define ONNX_MEMOPT_PLAN_SCHEDULE_SEARCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "plan/schedule_cell_problem.h"
#include "plan/schedule_model.h"
#include "plan/schedule_units.h"

namespace onnx_memopt::plan {

struct Candidate {
  std::string found_by;
  std::vector<int32_t> order;  // of units
};

// Depth-first orders from the sinks, several ways of sorting children and
// sinks. O(E log E) each.
std::vector<Candidate> DepthFirstOrders(const Model& model,
                                        const UnitGraph& units);

// List scheduling: always the ready unit that looks best, by several measures.
// O(E log E) each.
std::vector<Candidate> ListOrders(const Model& model, const UnitGraph& units);

// What a search of one cell found. Peaks are relative to the live bytes before
// the cell, orders are of local units.
struct CellSolution {
  std::vector<int32_t> order;
  int64_t peak = 0;
  bool proved = false;  // no order has a lower peak
  std::string found_by;
};

// States that may still be looked at, shared by all searches.
struct Budget {
  int64_t states = 0;
};

// Each takes the best solution so far and makes it better if it can; `bound` is
// a peak that no order stays below.

// Best first over sets of units that ran, for cells of at most kMaxExactUnits
// units. Sets `proved` unless it needs more than `max_states`.
constexpr int32_t kMaxExactUnits = 62;
void SearchExactly(CellProblem& cell, int64_t bound, int64_t max_states,
                   Budget& budget, CellSolution& best);

// The `width` most promising sets of each size. Sets `proved` if nothing that
// could be better was ever dropped.
void SearchBeam(CellProblem& cell, int64_t bound, int width, Budget& budget,
                CellSolution& best);

// Moves single units across the peak step while that lowers it.
void ImproveLocally(CellProblem& cell, int64_t bound, Budget& budget,
                    CellSolution& best);

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_SCHEDULE_SEARCH_H_
