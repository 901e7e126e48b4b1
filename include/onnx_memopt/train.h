// From a forward model to a model of one training step.
//
//   TrainOptions options{.output = "step.onnx"};
//   options.step.optimizer = grad::Optimizer::kAdamW;
//   absl::StatusOr<TrainResult> result = Train("model.onnx", options);
//
// Errors are those of Optimize (optimize.h): kInvalidArgument for a model that
// cannot be trained, with the node or tensor that is the reason; kOutOfRange
// for options that do not fit it, as a pattern that no weight matches.
#ifndef ONNX_MEMOPT_TRAIN_H_
#define ONNX_MEMOPT_TRAIN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/grad/training_step.h"
#include "onnx_memopt/options.h"

namespace onnx_memopt {

// The order in which nodes stand in the file. A runtime lets go of a gradient
// early only if it runs the update as soon as that gradient exists.
enum class NodeOrder {
  kDefault,  // ONNX Runtime's default: depth first from the last leaf
  kFile,     // runtimes that go by the file: ONNX Runtime's PRIORITY_BASED
};

struct TrainOptions {
  grad::StepOptions step;
  // Sizes of named dimensions and shapes of inputs. They are for good: the step
  // takes no others. What is not given stays as it is in the model.
  std::map<std::string, int64_t> dims;
  std::map<std::string, std::vector<int64_t>> input_shapes;
  NodeOrder order = NodeOrder::kDefault;

  std::string output;         // where to write the step; "-": stdout
  std::string initial_state;  // where to write what it begins with, or empty
  ExternalDataMode external_data = ExternalDataMode::kAuto;
  std::string external_dir;
  std::function<void(const std::string& phase)> progress;
};

struct TrainResult {
  size_t parameters = 0;  // tensors
  int64_t parameter_elements = 0;
  int64_t parameter_bytes = 0;
  int64_t state_bytes = 0;
  int64_t saved_bytes = -1;  // -1: a size is unknown
  size_t forward_nodes = 0;
  size_t nodes = 0;
  std::vector<std::string> frozen;
  std::vector<std::string> notes;
  std::vector<std::string> outputs;  // files that were written
};

absl::StatusOr<TrainResult> Train(const std::string& path,
                                  const TrainOptions& options);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_TRAIN_H_
