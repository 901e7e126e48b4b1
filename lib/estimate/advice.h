// What to change, by what it does to this model. Private to lib/estimate.
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_ADVICE_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_ADVICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/estimate/configuration.h"
#include "onnx_memopt/estimate_report.h"

namespace onnx_memopt::estimate {

struct Advised {
  std::vector<EstimateAdvice> rows;  // the largest effect first
  std::optional<EstimateAdvice> combination;
};

// `base` is what `configuration` takes.
absl::StatusOr<Advised> Advise(Model* model, const Configuration& configuration,
                               const Estimate& base,
                               std::optional<int64_t> budget_bytes);

// For every GPU of the table whether `base` fits, and if not, the cheapest set
// of changes that makes it fit. `names`: only these; empty: all.
absl::StatusOr<std::vector<EstimateFit>> FitGpus(
    Model* model, const Configuration& configuration, const Estimate& base,
    const std::vector<std::string>& names);

// The options of the command line that say `to` where `from` is given.
std::string FlagsBetween(const Configuration& from, const Configuration& to);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_ADVICE_H_
