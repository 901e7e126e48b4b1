// The stages of a pipeline, cut so that the fullest takes as little as
// possible. Private to lib/estimate.
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_PIPELINE_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_PIPELINE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "onnx_memopt/estimate/model_facts.h"

namespace onnx_memopt::estimate {

// Units [begin, end) as stage number `stage`.
using StageCost =
    std::function<int64_t(int64_t stage, UnitIndex begin, UnitIndex end)>;

// Begins of the stages and the number of units: one more than `stages`. Optimal
// for `estimate`, a cost that grows with the range; from there, boundaries move
// as long as the largest `exact` cost falls. Error (kOutOfRange): too few cuts.
absl::StatusOr<std::vector<UnitIndex>> BalanceStages(
    absl::Span<const UnitIndex> cuts, UnitIndex units, int64_t stages,
    const StageCost& estimate, const StageCost& exact);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_PIPELINE_H_
