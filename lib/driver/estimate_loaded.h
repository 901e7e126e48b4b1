// Estimate of a model that was read already.
#ifndef ONNX_MEMOPT_LIB_DRIVER_ESTIMATE_LOADED_H_
#define ONNX_MEMOPT_LIB_DRIVER_ESTIMATE_LOADED_H_

#include <memory>

#include "absl/status/statusor.h"
#include "onnx_memopt/estimate.h"
#include "onnx_memopt/io/loaded_model.h"

namespace onnx_memopt {

// As Estimate, which reads the model first.
absl::StatusOr<EstimateReport> EstimateLoaded(
    const std::shared_ptr<const io::LoadedModel>& model,
    const EstimateOptions& options);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_LIB_DRIVER_ESTIMATE_LOADED_H_
