// Recomputation in a training step: of the forward pass only some values are
// kept (the checkpoints); the backward pass makes the others again.
//
//   forward   [ segment 0 ]|[ segment 1 ]|[ segment 2 ]    | values that cross
//   backward  dX ... <- segment 1' <- ... <- segment 0'      are kept
//
// A recomputed segment is a Scan of one step, whose body holds clones of the
// segment's nodes and reads the checkpoints from outside. Runtimes would merge
// plain clones with their originals; a body they leave alone, and run when its
// results are asked for.
//
//   ASSIGN_OR_RETURN(CheckpointResult r,
//                    InsertCheckpoints({.segments = 8}, step, &graph));
//   // or, with a budget:
//   ASSIGN_OR_RETURN(CheckpointSearch s, SearchCheckpoints(o, step, graph));
#ifndef ONNX_MEMOPT_GRAD_CHECKPOINT_H_
#define ONNX_MEMOPT_GRAD_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/grad/recomputed_segment.h"
#include "onnx_memopt/grad/training_step.h"
#include "onnx_memopt/ir/graph.h"
#include "onnx_memopt/ir/op_info.h"

namespace onnx_memopt::grad {

struct CheckpointOptions {
  int segments = 1;  // the last one is never recomputed: it is needed at once
  // Results of costlier ops are kept.
  ir::RecomputeCost most = ir::RecomputeCost::kExpensive;
  // Where a segment is made again: as early in the file as it can be, for
  // runtimes that go depth first, or right before it is read.
  bool early = true;
};

struct CheckpointResult {
  std::vector<RecomputedSegment> segments;
  double seconds = 0;
  double overhead = 0;  // the same, as a part of the step's time
};

// Changes nothing if there is nothing to gain. `graph` as BuildTrainingStep
// left it; its sizes have to be known.
absl::StatusOr<CheckpointResult> InsertCheckpoints(
    const CheckpointOptions& options, const StepInfo& step, ir::Graph* graph);

// One point of the curve of budget against overhead.
struct CheckpointPoint {
  CheckpointOptions options;
  int64_t peak_bytes = 0;  // predicted for ONNX Runtime, default options
  double overhead = 0;     // added time, as a part of the step's
};

struct CheckpointSearch {
  // From the largest peak (nothing recomputed) to the smallest; each costs
  // more time than the one before it.
  std::vector<CheckpointPoint> curve;
  // Where the smallest peak is, what is held, largest first: names and bytes.
  std::vector<std::pair<std::string, int64_t>> floor;
};

// `finish` is what happens to a step after checkpoints are in (dead nodes out,
// order), before its peak is predicted.
using FinishStep = std::function<absl::Status(ir::Graph& graph)>;
absl::StatusOr<CheckpointSearch> SearchCheckpoints(const StepInfo& step,
                                                   const ir::Graph& graph,
                                                   bool early,
                                                   const FinishStep& finish);

}  // namespace onnx_memopt::grad

#endif  // ONNX_MEMOPT_GRAD_CHECKPOINT_H_
