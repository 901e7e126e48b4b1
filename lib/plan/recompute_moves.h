// The changes that the searches try on a sequence of runs.
#ifndef ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_MOVES_H_
#define ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_MOVES_H_

#include <cstdint>

#include "plan/recompute_random.h"
#include "plan/recompute_state.h"

namespace onnx_memopt::plan {

// What to do for an input that is not live where a node is made again.
enum class Supply {
  kRemake,  // make it again too
  kKeep,    // keep it alive until there, if that fits the budget; else remake
  kMix,     // one or the other, at random
};

// Inserts `node` before `position`, and what it takes. False if that needs more
// than `max_runs` runs or an input has never been made by then: take the change
// back in that case.
bool Remake(RecomputeState& state, int32_t node, int32_t position,
            Supply supply, int32_t max_runs, Random& random);

// Changes the sequence at random; false if nothing came of it, and then there
// may be a part of a change to take back.
class MoveMaker {
 public:
  MoveMaker(const RecomputeModel& model, RecomputeState& state, Random& random)
      : model_(model), state_(state), random_(random) {}

  bool Try();

 private:
  bool RemakeForRandomUse();
  bool RemakeAcrossOverflow();
  bool RemoveRandomRun();
  bool ShiftRandomRun();
  bool SwapRuns();
  int32_t FewAtRandom();
  int32_t RandomRepeatPosition();
  bool MoveRun(int32_t from, int32_t to);

  const RecomputeModel& model_;
  RecomputeState& state_;
  Random& random_;
};

}  // namespace onnx_memopt::plan

#endif  // ONNX_MEMOPT_LIB_PLAN_RECOMPUTE_MOVES_H_
