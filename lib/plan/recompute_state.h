// A sequence of runs that the local search changes one run at a time, with its
// memory profile kept up to date.
//
//   RecomputeState s(scaled, order);
//   const size_t mark = s.Mark();
//   s.Insert(u, position);             // before the run at `position`
//   if (s.overflow() > 0) s.Undo(mark);
//
// A change costs the length of the lifetimes that it changes, plus a shift of
// what stands behind it. Memory is held in doubles that are whole numbers below
// 2^53 (see ScaledModel), so additions are exact and leave no drift.
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_STATE_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "plan/recompute_model.h"

namespace onnx_memopt::plan {

// The problem in numbers that add up exactly. Where the sums are too large,
// memory is rounded up and the budget down, so that what fits here fits; costs
// are rounded, and only guide the search.
struct ScaledModel {
  const RecomputeModel* model = nullptr;
  std::vector<double> memory;
  std::vector<double> cost;
  double budget = 0;
  bool exact_cost = true;  // costs are those of the problem

  static ScaledModel Create(const RecomputeModel& model, int64_t budget);
};

class RecomputeState {
 public:
  // `sequence` must be valid. `scaled` must outlive this.
  RecomputeState(const ScaledModel& scaled, absl::Span<const int32_t> sequence);

  const ScaledModel& scaled() const { return *scaled_; }
  int32_t length() const { return static_cast<int32_t>(seq_.size()); }
  int32_t node_at(int32_t position) const { return node_[seq_[position]]; }
  double memory_at(int32_t position) const { return live_[position]; }
  double cost() const { return cost_; }
  // Memory beyond the budget, summed over the steps.
  double overflow() const { return overflow_; }

  // Positions of the node's runs, ascending, by index.
  int32_t num_runs(int32_t node) const {
    return static_cast<int32_t>(runs_[node].size());
  }
  int32_t run_position(int32_t node, int32_t index) const {
    return pos_[runs_[node][index]];
  }
  // Index of the node's latest run before `position`; -1: none.
  int32_t LatestRun(int32_t node, int32_t position) const;
  // Where the value of that run is read last; its own position if nowhere.
  int32_t last_use(int32_t node, int32_t index) const {
    return pos_[last_[runs_[node][index]]];
  }
  // Where it is read last before `position`; its own position if nowhere.
  int32_t LastUseBefore(int32_t node, int32_t index, int32_t position) const;
  // Where it is read first at or after `position`; -1 if nowhere.
  int32_t FirstUseFrom(int32_t node, int32_t index, int32_t position) const;
  // Nodes that run more than once, in no special order.
  absl::Span<const int32_t> repeated() const { return repeated_; }

  // Whether all inputs have been made before `position`.
  bool CanInsert(int32_t node, int32_t position) const;
  // Whether the node runs elsewhere too, and early enough.
  bool CanRemove(int32_t position) const;
  void Insert(int32_t node, int32_t position);
  void Remove(int32_t position);
  // Removes runs that nothing reads, of nodes that run elsewhere too, as far as
  // changes since `mark` have caused them.
  void RemoveUseless(size_t mark);

  // Changes can be taken back to an earlier mark, until Commit.
  size_t Mark() const { return journal_.size(); }
  void Undo(size_t mark);
  void Commit() { journal_.clear(); }

  std::vector<int32_t> Sequence() const;

 private:
  struct Change {
    int32_t node;
    int32_t position;
    bool inserted;
  };

  void DoInsert(int32_t node, int32_t position);
  void DoRemove(int32_t position);
  void AddRange(int32_t begin, int32_t end, double memory);
  double Excess(double live) const {
    return live > scaled_->budget ? live - scaled_->budget : 0;
  }
  int32_t NewRun(int32_t node);
  void NoteRepeated(int32_t node);

  const ScaledModel* scaled_;
  const RecomputeModel* model_;
  std::vector<int32_t> seq_;  // run by position
  std::vector<double> live_;  // by position
  std::vector<int32_t> pos_;  // by run
  std::vector<int32_t> node_;
  std::vector<int32_t> last_;  // by run: the run that reads it last, or itself
  std::vector<int32_t> free_;  // run numbers to use again
  std::vector<std::vector<int32_t>> runs_;  // by node
  std::vector<int32_t> repeated_;
  std::vector<int32_t> repeated_at_;  // by node: index in repeated_, or -1
  std::vector<Change> journal_;
  double cost_ = 0;
  double overflow_ = 0;
};

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_STATE_H_
