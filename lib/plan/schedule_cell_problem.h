// One cell by itself, with local unit numbers 0, 1, ..., and sets of units as
// bits, so that the effect of a unit can be asked for any set that ran before.
#ifndef ONNX_MEMOPT_PLAN_SCHEDULE_CELL_PROBLEM_H_
#define ONNX_MEMOPT_PLAN_SCHEDULE_CELL_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "plan/schedule_model.h"
#include "plan/schedule_units.h"

namespace onnx_memopt::plan {

// Where each unit and buffer belongs, for the problems of all cells.
struct CellIndex {
  CellIndex(const Model& model, const UnitGraph& units,
            absl::Span<const std::vector<int32_t>> cells);

  std::vector<int32_t> cell_of;    // per unit
  std::vector<int32_t> local_of;   // per unit: its place in its cell
  std::vector<int32_t> last_cell;  // per buffer: of its readers; -1: none
};

class CellProblem {
 public:
  CellProblem(const Model& model, const UnitGraph& units,
              const CellIndex& index, absl::Span<const int32_t> cell);

  int32_t size() const { return preds_.size(); }
  size_t num_words() const { return (static_cast<size_t>(size()) + 63) / 64; }
  const Lists& preds() const { return preds_; }
  const Lists& succs() const { return succs_; }

  // `done` holds all that the unit depends on, and not the unit.
  Effect Evaluate(int32_t unit, const uint64_t* done);

  // The peak of an order, relative to the live bytes before the cell.
  int64_t Peak(absl::Span<const int32_t> order);

  // A peak that no order stays below, relative to the live bytes before.
  int64_t PeakBound();

  // Equal for cells that differ only in where they are.
  std::vector<int64_t> Signature() const;

 private:
  struct Free {  // a buffer that a node may free
    int64_t size_bytes;
    int32_t shared;  // in shared_: other units read it too; -1: none does
  };
  struct Pair {
    int32_t free;    // in frees_
    int32_t result;  // a number for each result of pairs
  };
  struct Node {
    int64_t alloc_bytes;
    int64_t extra_bytes;
    int64_t dead_bytes;
    int32_t frees_end;  // begins where the previous node's ends
    int32_t pairs_end;
  };
  struct Word {
    int32_t index;
    uint64_t bits;
  };
  // A buffer that units of the cell read or produce, for PeakBound.
  struct CellBuffer {
    int64_t size_bytes;
    int32_t producer;  // unit; -1: live before the cell
    bool survives;     // live after the cell
    std::vector<int32_t> readers;
  };

  bool IsLast(int32_t shared, int32_t unit, const uint64_t* done) const;
  void FindEdges(const UnitGraph& units, const CellIndex& index,
                 absl::Span<const int32_t> cell);
  void FindBuffers(const Model& model, const UnitGraph& units,
                   const CellIndex& index, absl::Span<const int32_t> cell);
  void AddUnit(const Model& model, absl::Span<const int32_t> members,
               absl::Span<const int32_t> freeable);
  void AddPairs(const Model& model, int32_t node, size_t first_free,
                absl::Span<const int32_t> freed);
  int64_t EndsBound();

  Lists preds_;
  Lists succs_;
  std::vector<Node> nodes_;
  std::vector<int32_t> nodes_end_;  // per unit
  std::vector<Free> frees_;
  std::vector<Pair> pairs_;
  int32_t num_results_ = 0;
  std::vector<std::vector<Word>> shared_;  // the units that read it
  std::vector<CellBuffer> buffers_;
  std::vector<std::pair<bool, Effect>> constant_;  // per unit: known, effect

  // Scratch of Evaluate.
  std::vector<bool> is_free_;
  std::vector<int64_t> operand_taken_;
  std::vector<int64_t> result_taken_;
  int64_t clock_ = 0;
};

// Sets of units as bits.
inline bool Has(const uint64_t* set, int32_t unit) {
  return ((set[unit / 64] >> (unit % 64)) & 1) != 0;
}
inline void Insert(uint64_t* set, int32_t unit) {
  set[unit / 64] |= uint64_t{1} << (unit % 64);
}

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_PLAN_SCHEDULE_CELL_PROBLEM_H_
