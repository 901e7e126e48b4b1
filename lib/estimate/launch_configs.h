// Configuration files for the programs that run the training. Private to
// lib/estimate.
#ifndef ONNX_MEMOPT_LIB_ESTIMATE_LAUNCH_CONFIGS_H_
#define ONNX_MEMOPT_LIB_ESTIMATE_LAUNCH_CONFIGS_H_

#include <string>

#include "onnx_memopt/estimate/configuration.h"

namespace onnx_memopt::estimate {

// For deepspeed.initialize(config=...). Optimizers that DeepSpeed has no name
// for are left to the program.
std::string DeepSpeedConfig(const Configuration& configuration);
// For `accelerate launch --config_file`.
std::string AccelerateConfig(const Configuration& configuration);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_LIB_ESTIMATE_LAUNCH_CONFIGS_H_
