// The whole search: glue nodes to units, split the graph into cells, take for
// each cell the best of the candidates' orders, then search the cells one by
// one, those with the highest peak first.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "onnx_memopt/plan/schedule.h"
#include "onnx_memopt/support/status_macros.h"
#include "plan/schedule_cell_problem.h"
#include "plan/schedule_cells.h"
#include "plan/schedule_check.h"
#include "plan/schedule_model.h"
#include "plan/schedule_search.h"
#include "plan/schedule_units.h"

namespace onnx_memopt::plan {
namespace {

// States for a cell whose peak is not the one that matters.
constexpr int64_t kSideStates = 20'000;
// Cells above this many units get no local search: every step of it replays
// the cell.
constexpr int32_t kMaxLocalUnits = 20'000;

absl::Status CheckOrder(const Model& model, absl::Span<const int32_t> order) {
  if (order.size() != static_cast<size_t>(model.num_nodes)) {
    return absl::InvalidArgumentError(absl::StrCat("the initial order has ",
                                                   order.size(), " nodes, not ",
                                                   model.num_nodes));
  }
  std::vector<bool> done(order.size(), false);
  for (int32_t node : order) {
    if (node < 0 || node >= model.num_nodes || done[node]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the initial order names node ", node, " twice, or no such node"));
    }
    for (int32_t pred : model.preds[node]) {
      if (done[pred]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the initial order runs node ", node, " before node ",
                       pred, ", which it depends on"));
    }
    done[node] = true;
  }
  return absl::OkStatus();
}

int64_t PeakOf(const Model& model, absl::Span<const int32_t> order) {
  Replay replay(model);
  return replay.live() + replay.Run(order).hill;
}

class Minimizer {
 public:
  Minimizer(const Model& model, const ScheduleOptions& options,
            absl::Span<const int32_t> order)
      : model_(model),
        options_(options),
        units_(GlueUnits(model, order)),
        cells_(FindCells(units_)),
        index_(model, units_, cells_),
        budget_{std::max<int64_t>(options.max_states, 0)} {}

  // Looks for orders with a peak below `input_peak`.
  ScheduleResult Run(int64_t input_peak) {
    TakeCandidates(input_peak);
    SearchCells(input_peak);
    ScheduleResult result;
    size_t highest = 0;
    for (size_t c = 0; c < cells_.size(); ++c) {
      if (PeakOfCell(c) > PeakOfCell(highest)) highest = c;
      for (int32_t local : best_[c].order) {
        const std::vector<int32_t>& members = units_.members[cells_[c][local]];
        result.order.insert(result.order.end(), members.begin(), members.end());
      }
    }
    result.peak_bytes = PeakOfCell(highest);
    result.optimal = result.peak_bytes == Floor();
    // Named after the highest cell that is not as it was; if all are, then
    // gluing nodes together was what helped.
    result.found_by = "units";
    int64_t named = -1;
    for (size_t c = 0; c < cells_.size(); ++c) {
      if (best_[c].found_by == "input" || PeakOfCell(c) <= named) continue;
      named = PeakOfCell(c);
      result.found_by = best_[c].found_by;
    }
    return result;
  }

  // A peak that no order stays below: the highest of the cells that are proved
  // to allow no better.
  int64_t Floor() const {
    int64_t floor = 0;
    for (size_t c = 0; c < cells_.size(); ++c) {
      if (best_[c].proved) floor = std::max(floor, PeakOfCell(c));
    }
    return floor;
  }

 private:
  int64_t PeakOfCell(size_t c) const { return base_[c] + best_[c].peak; }

  // The candidates are orders of the whole graph. Every order runs the cells
  // one after the other (but for floating units), so each can be taken apart.
  void TakeCandidates(int64_t input_peak) {
    best_.resize(cells_.size());
    base_.resize(cells_.size());
    Consider({"input", Concatenated()});
    // Now the cells that are one unit are proved.
    const int64_t floor = Floor();
    if (floor >= input_peak || CurrentPeak() == floor) return;
    for (Candidate& candidate : DepthFirstOrders(model_, units_)) {
      Consider(candidate);
    }
    if (CurrentPeak() == floor) return;
    for (Candidate& candidate : ListOrders(model_, units_)) {
      Consider(candidate);
    }
  }

  std::vector<int32_t> Concatenated() const {
    std::vector<int32_t> order;
    order.reserve(units_.members.size());
    for (const std::vector<int32_t>& cell : cells_) {
      order.insert(order.end(), cell.begin(), cell.end());
    }
    return order;
  }

  void Consider(const Candidate& candidate) {
    std::vector<std::vector<int32_t>> orders(cells_.size());
    for (int32_t unit : candidate.order) {
      orders[index_.cell_of[unit]].push_back(index_.local_of[unit]);
    }
    Replay replay(model_);
    for (size_t c = 0; c < cells_.size(); ++c) {
      base_[c] = replay.live();
      int64_t peak = std::numeric_limits<int64_t>::min();
      for (int32_t local : orders[c]) {
        const int64_t live = replay.live();
        const Effect effect = replay.Run(units_.members[cells_[c][local]]);
        peak = std::max(peak, live - base_[c] + effect.hill);
      }
      CellSolution& best = best_[c];
      if (!best.order.empty() && peak >= best.peak) continue;
      best.order = std::move(orders[c]);
      best.peak = peak;
      best.found_by = candidate.found_by;
      best.proved = cells_[c].size() == 1;
    }
  }

  int64_t CurrentPeak() const {
    int64_t peak = 0;
    for (size_t c = 0; c < cells_.size(); ++c) {
      peak = std::max(peak, PeakOfCell(c));
    }
    return peak;
  }

  void SearchCells(int64_t input_peak) {
    std::vector<size_t> by_peak(cells_.size());
    std::iota(by_peak.begin(), by_peak.end(), 0);
    std::sort(by_peak.begin(), by_peak.end(), [&](size_t a, size_t b) {
      const int64_t peak_a = PeakOfCell(a);
      const int64_t peak_b = PeakOfCell(b);
      return peak_a != peak_b ? peak_a > peak_b : a < b;
    });
    // No search brings the peak below what the cells so far have ended with.
    int64_t floor = Floor();
    for (size_t c : by_peak) {
      // Then the input order is as good as any.
      if (floor >= input_peak) return;
      if (!best_[c].proved) SearchCell(c, PeakOfCell(c) > floor);
      floor = std::max(floor, PeakOfCell(c));
    }
  }

  void SearchCell(size_t c, bool matters) {
    CellSolution& best = best_[c];
    const auto size = static_cast<int32_t>(cells_[c].size());
    const int32_t exact =
        std::min<int32_t>(options_.exact_nodes, kMaxExactUnits);
    // A side cell is worth a quick look only.
    if (!matters && (size > exact || budget_.states < kSideStates)) return;
    CellProblem problem(model_, units_, index_, cells_[c]);
    // Networks repeat their blocks: equal cells are searched once. The first
    // of them had the highest peak, so it was given the most time.
    CellSolution& known = solved_[problem.Signature()];
    if (!known.order.empty()) {
      if (known.peak < best.peak) best = known;
      best.proved = known.proved && known.peak == best.peak;
      return;
    }
    const int64_t bound = problem.PeakBound();
    best.proved = best.peak <= bound;
    if (!best.proved && size <= exact) {
      SearchExactly(problem, bound, matters ? budget_.states / 2 : kSideStates,
                    budget_, best);
    }
    if (!best.proved && matters) {
      SearchBeam(problem, bound, options_.beam_width, budget_, best);
    }
    if (!best.proved && matters && size <= kMaxLocalUnits) {
      ImproveLocally(problem, bound, budget_, best);
    }
    best.proved = best.proved || best.peak <= bound;
    known = best;
  }

  const Model& model_;
  const ScheduleOptions& options_;
  UnitGraph units_;
  std::vector<std::vector<int32_t>> cells_;
  CellIndex index_;
  Budget budget_;
  std::vector<CellSolution> best_;  // per cell
  std::vector<int64_t> base_;       // per cell: live bytes before it
  // By signature. Never iterated over.
  absl::flat_hash_map<std::vector<int64_t>, CellSolution> solved_;
};

}  // namespace

absl::StatusOr<ScheduleResult> MinimizePeak(const ScheduleProblem& problem,
                                            const ScheduleOptions& options) {
  RETURN_IF_ERROR(CheckProblem(problem));
  const Model model = BuildModel(problem);
  std::vector<int32_t> order = options.initial_order;
  if (order.empty()) {
    order.resize(problem.nodes.size());
    std::iota(order.begin(), order.end(), 0);
  }
  RETURN_IF_ERROR(CheckOrder(model, order));
  ScheduleResult input;
  input.found_by = "input";
  if (order.empty()) {
    input.optimal = true;
    return input;
  }
  input.peak_bytes = PeakOf(model, order);
  Minimizer minimizer(model, options, order);
  ScheduleResult found = minimizer.Run(input.peak_bytes);
  if (found.peak_bytes < input.peak_bytes) return found;
  input.order = std::move(order);
  input.optimal = minimizer.Floor() >= input.peak_bytes;
  return input;
}

}  // namespace onnx_memopt::plan
