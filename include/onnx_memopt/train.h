// From a forward model to a model of one training step.
//
//   TrainOptions options{.output = "step.onnx"};
//   options.step.optimizer = grad::Optimizer::kAdamW;
//   absl::StatusOr<TrainResult> result = Train("model.onnx", options);
//
// Errors are those of Optimize (optimize.h): kInvalidArgument for a model that
// cannot be trained, with the node or tensor that is the reason; kOutOfRange
// for options that do not fit it, as a pattern that no weight matches;
// kResourceExhausted for a budget that no plan keeps to, with what holds it.
#ifndef ONNX_MEMOPT_TRAIN_H_
#define ONNX_MEMOPT_TRAIN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/grad/recomputed_segment.h"
#include "onnx_memopt/grad/step_options.h"
#include "onnx_memopt/options.h"

namespace onnx_memopt {

// The order in which nodes stand in the file. A runtime lets go of a gradient
// early only if it runs the update as soon as that gradient exists.
enum class NodeOrder {
  kDefault,  // ONNX Runtime's default: depth first from the last leaf
  kFile,     // runtimes that go by the file: ONNX Runtime's PRIORITY_BASED
};

enum class Checkpoints {
  kNone,      // everything that the backward pass reads is kept
  kSqrt,      // as many segments as the root of the number of nodes that save
  kPerLayer,  // each repeated module of the exporter keeps what it reads
  kOptimal,   // the least added time within the budget; without one, the least
              // memory
};

// Key in the metadata of a step. Its value: what of an ONNX Runtime's
// SessionOptions is not as it comes, as JSON, for example
// {"enable_cpu_mem_arena": false}.
inline constexpr char kSessionKey[] = "onnx_memopt.session_options";

// The ONNX Runtime session that the step is planned for.
enum class StepSession {
  kDefault,  // options as they come
  // Without arena and memory pattern (DisableCpuMemArena, DisableMemPattern):
  // memory goes back to the system when a tensor dies, which takes some time.
  kBare,
};

struct TrainOptions {
  grad::StepOptions step;
  // A model of the loss, in place of step.loss: inputs that are named as
  // outputs of the model are these, others become inputs of the step; its
  // output is one number.
  std::string loss_file;
  // A trained model that the student learns from as step.distillation says,
  // whose prefix and, if it names none, output follow from the two models.
  // Inputs of the same name are shared, and those of the same place and type.
  std::string teacher;
  Checkpoints checkpoints = Checkpoints::kNone;
  // What the step may take in ONNX Runtime above the loaded session, as
  // predicted, in bytes; of kOptimal.
  std::optional<int64_t> budget_bytes;
  // Sizes of named dimensions and shapes of inputs. They are for good: the step
  // takes no others. What is not given stays as it is in the model.
  std::map<std::string, int64_t> dims;
  std::map<std::string, std::vector<int64_t>> input_shapes;
  // Samples in a step (in a micro-batch of it): the size of the named dimension
  // that comes first in the first input that has one there.
  std::optional<int64_t> batch;
  NodeOrder order = NodeOrder::kDefault;
  // Stated in the step's metadata, with the order, as kSessionKey.
  StepSession session = StepSession::kDefault;

  std::string output;         // where to write the step; "-": stdout
  std::string initial_state;  // where to write what it begins with, or empty
  ExternalDataMode external_data = ExternalDataMode::kAuto;
  std::string external_dir;
  std::function<void(const std::string& phase)> progress;
};

// One point of the curve of budget against added time.
struct BudgetPoint {
  int64_t peak_bytes = 0;
  double added_time = 0;  // as a part of the step's
};

struct TrainResult {
  size_t parameters = 0;  // tensors
  int64_t parameter_elements = 0;
  int64_t parameter_bytes = 0;
  int64_t state_bytes = 0;
  int64_t micro_batches = 1;
  int64_t saved_bytes = -1;  // of a micro-batch; -1: a size is unknown
  size_t forward_nodes = 0;
  size_t nodes = 0;
  size_t teacher_nodes = 0;   // 0: there is no teacher
  int64_t teacher_bytes = 0;  // of its weights, which the step holds
  // Predicted for ONNX Runtime with the options of `session`, above the loaded
  // session; -1: a size is unknown.
  StepSession session = StepSession::kDefault;
  int64_t peak_first_bytes = -1;
  int64_t peak_steady_bytes = -1;
  std::vector<grad::RecomputedSegment> segments;
  std::vector<grad::KeptValue> kept;  // checkpoints, where there are segments
  // Modules to wrap in torch.utils.checkpoint for about the same plan; empty
  // where the model names none.
  std::vector<grad::WrappedModule> wrapped;
  double overhead = 0;  // of the segments: added time, as a part of the step's
  std::vector<BudgetPoint> curve;  // of kOptimal
  std::vector<std::string> frozen;
  std::vector<std::string> notes;
  std::vector<std::string> outputs;  // files that were written
};

absl::StatusOr<TrainResult> Train(const std::string& path,
                                  const TrainOptions& options);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_TRAIN_H_
