// What Evaluate is made of. Private to lib/estimate.
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_EVALUATE_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_EVALUATE_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "onnx_memopt/estimate/configuration.h"

namespace onnx_memopt::estimate {

// Of every kind but kBudget, which has none until it is searched.
std::vector<Checkpoint> CheckpointsOf(const Model::View& view,
                                      const Configuration& configuration);

// Of the whole model on one GPU, without checkpoints.
TraceOptions WholeStep(const Model::View& view,
                       const Configuration& configuration);

// With these checkpoints, whatever the configuration says of them.
absl::StatusOr<Estimate> EvaluateWith(
    const Model::View& view, const Configuration& configuration,
    const EvaluateOptions& options, const std::vector<Checkpoint>& checkpoints);

// The largest number for which `fits` holds, by doubling and halving, where it
// holds for all below it; 0 if not for 1, and up to `most`, about.
absl::StatusOr<int64_t> LargestThatFits(
    int64_t most, absl::FunctionRef<absl::StatusOr<bool>(int64_t)> fits);

// Searches the checkpoints of kBudget.
absl::StatusOr<Estimate> EvaluateBudget(const Model::View& view,
                                        const Configuration& configuration,
                                        const EvaluateOptions& options);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_EVALUATE_H_
