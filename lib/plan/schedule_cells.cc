#include "plan/schedule_cells.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/schedule_units.h"

// There is a cut at position p of a topological order if every unit after p
// depends on every unit before p. That is so if each source of the part after
// (a unit without predecessors there) depends on each sink of the part before,
// and a path from a sink to a source can only be a single edge. So it is enough
// to count, for every p: sinks x sources = edges between them?

namespace onnx_memopt::plan {

std::vector<std::vector<int32_t>> FindCells(const UnitGraph& units) {
  std::vector<int32_t> fixed;  // not floating; by position
  std::vector<int32_t> position(units.members.size(), -1);
  for (int32_t unit = 0; unit < units.size(); ++unit) {
    if (units.floating[unit]) continue;
    position[unit] = static_cast<int32_t>(fixed.size());
    fixed.push_back(unit);
  }
  const auto n = static_cast<int32_t>(fixed.size());
  // For the cut at p, units at positions below p come before.
  std::vector<int32_t> first_succ(n, n);  // position; n: none
  std::vector<int32_t> last_pred(n, -1);
  for (int32_t p = 0; p < n; ++p) {
    for (int32_t pred : units.preds[fixed[p]]) {
      const int32_t q = position[pred];
      if (q < 0) continue;
      last_pred[p] = std::max(last_pred[p], q);
      first_succ[q] = std::min(first_succ[q], p);
    }
  }
  // Changes of the three counts from one cut to the next.
  std::vector<int64_t> sinks(n + 2, 0);
  std::vector<int64_t> sources(n + 2, 0);
  std::vector<int64_t> edges(n + 2, 0);
  for (int32_t p = 0; p < n; ++p) {
    ++sinks[p + 1];  // for cuts in (p, first_succ]
    --sinks[first_succ[p] + 1];
    ++sources[last_pred[p] + 1];  // for cuts in (last_pred, p]
    --sources[p + 1];
    for (int32_t pred : units.preds[fixed[p]]) {
      const int32_t q = position[pred];
      if (q < 0 || last_pred[p] >= first_succ[q]) continue;
      ++edges[last_pred[p] + 1];
      --edges[first_succ[q] + 1];
    }
  }
  std::vector<std::vector<int32_t>> cells;
  std::vector<int32_t> cell_of(units.members.size(), -1);
  int64_t num_sinks = 0;
  int64_t num_sources = 0;
  int64_t num_edges = 0;
  for (int32_t p = 0; p < n; ++p) {
    num_sinks += sinks[p];
    num_sources += sources[p];
    num_edges += edges[p];
    if (p == 0 || num_edges == num_sinks * num_sources) cells.emplace_back();
    cell_of[fixed[p]] = static_cast<int32_t>(cells.size()) - 1;
    cells.back().push_back(fixed[p]);
  }
  for (int32_t unit = 0; unit < units.size(); ++unit) {
    if (!units.floating[unit]) continue;
    int32_t cell = static_cast<int32_t>(cells.size());
    for (int32_t succ : units.succs[unit]) {
      cell = std::min(cell, cell_of[succ]);
    }
    cells[cell].push_back(unit);
  }
  for (std::vector<int32_t>& cell : cells) std::sort(cell.begin(), cell.end());
  return cells;
}

}  // namespace onnx_memopt::plan
