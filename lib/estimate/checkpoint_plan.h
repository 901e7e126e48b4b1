// Which parts of a model to compute again so that forward keeps no more than
// some bytes, at the least arithmetic. Private to lib/estimate.
//
// Candidates are attention cores, blocks, and groups of neighbouring blocks; a
// plan is a set of them that do not overlap: what torch.utils.checkpoint can
// do. Between a candidate that is computed again and all of its activations
// kept, the cheapest plan is found by dynamic programming over the places where
// candidates begin and end, with bytes in 512 steps of the limit:
//
//   kept  |####|----|####|          ----: the input of the block alone
//          b 0   b 1   b 2           while backward is in b 1, all of it is
//                                    there once more
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_CHECKPOINT_PLAN_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_CHECKPOINT_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "onnx_memopt/estimate/blocks.h"
#include "onnx_memopt/estimate/model_facts.h"
#include "onnx_memopt/estimate/step_trace.h"

namespace onnx_memopt::estimate {

class CheckpointChooser {
 public:
  // `options`: of the step without checkpoints.
  CheckpointChooser(const ModelFacts& facts, const ModelBlocks& blocks,
                    const TraceOptions& options);

  // What forward keeps with no checkpoints.
  int64_t all_bytes() const { return all_bytes_; }
  // In order, disjoint; nullopt: no candidates keep within the limit.
  std::optional<std::vector<Checkpoint>> Choose(int64_t limit_bytes) const;

 private:
  struct Candidate {
    Checkpoint range;
    size_t end_place = 0;
    int64_t kept_bytes = 0;  // its inputs
    int64_t all_bytes = 0;   // without a checkpoint
    int64_t cost = 0;
  };

  void AddCandidate(const Checkpoint& range);
  void AddPlaces();

  const ModelFacts& facts_;
  int64_t batch_;
  std::vector<int64_t> saved_before_;  // by unit: sums
  std::vector<UnitIndex> first_;       // by buffer: the unit that writes it
  std::vector<int64_t> buffer_bytes_;
  std::vector<Candidate> candidates_;
  // Where something begins or ends, and the candidates that begin there.
  std::vector<UnitIndex> places_;
  std::vector<std::vector<size_t>> from_place_;
  int64_t all_bytes_ = 0;
  // While backward is in a candidate, the loss is gone: that much more fits.
  int64_t loss_bytes_ = 0;
};

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_CHECKPOINT_PLAN_H_
