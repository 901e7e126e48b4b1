// One training step as allocations and frees, in the order in which PyTorch
// makes them: forward, loss, backward, optimizer step.
//
//   forward   backward   step
//          /\                    peak: not the sum of all terms, but the
//        _/  \_                  highest point of the curve
//      _/      \___/\__
//    _/                \_
//
//   StepTrace trace = TraceStep(facts, {.batch = 32});
//   TraceProfile profile = Replay(trace);
//   profile.peak_bytes;
//
// Backward frees what forward kept, from the last unit to the first, while the
// gradients of parameters pile up. Gradients of activations are shared where an
// addition passes them on, and added up in place where a value has several
// readers.
#ifndef ONNX_MEMOPT_ESTIMATE_STEP_TRACE_H_
#define ONNX_MEMOPT_ESTIMATE_STEP_TRACE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "onnx_memopt/estimate/model_facts.h"

namespace onnx_memopt::estimate {

enum class Category : uint8_t {
  kParameters,
  kConstants,
  kMaster,
  kOptimizerState,
  kGradients,
  kInputs,
  kSaved,      // activations that backward needs
  kTemporary,  // other activations, their gradients, the optimizer's
               // temporaries
  kLoss,       // the model's outputs, probabilities, their gradients
  kCommunication,
};
inline constexpr size_t kNumCategories = 10;
absl::string_view Name(Category category);

enum class Phase : uint8_t { kStart, kForward, kLoss, kBackward, kOptimizer };
absl::string_view Name(Phase phase);

// What a larger block counts as: no device has as much, and sums of a million
// such blocks do not overflow.
inline constexpr int64_t kMostBlockBytes = int64_t{1} << 43;

struct TraceBlock {
  int64_t bytes = 0;
  Category category = Category::kTemporary;
  BufferIndex buffer = -1;   // of ModelFacts; -1: none
  bool is_gradient = false;  // of that buffer
  std::string name;          // where it is no buffer
};

struct TraceEvent {
  int32_t block = 0;
  bool allocate = true;
};

struct TracePoint {
  Phase phase = Phase::kStart;
  UnitIndex unit = -1;
  bool recompute = false;
  // One past the last event of this point.
  int32_t end_event = 0;
};

struct StepTrace {
  std::vector<TraceBlock> blocks;
  std::vector<TraceEvent> events;
  std::vector<TracePoint> points;
};

// Units [begin, end) run without keeping what they compute; it is computed
// again when backward reaches them.
struct Checkpoint {
  UnitIndex begin = 0;
  UnitIndex end = 0;
};

struct PersistentBlock {
  Category category = Category::kParameters;
  int64_t bytes = 0;
  std::string name;
};

enum class LossKind : uint8_t {
  kAuto,  // of images the squared error, else cross-entropy
  kCrossEntropy,
  kMeanSquaredError,
  kNone,
};

struct TraceOptions {
  int64_t batch = 1;
  int64_t activation_bytes = 4;  // of a floating-point number
  int64_t gradient_bytes = 4;    // of a parameter's gradient
  bool training = true;
  LossKind loss = LossKind::kAuto;
  // The part of the model that this GPU runs; end -1: to the last unit.
  UnitIndex begin = 0;
  UnitIndex end = -1;
  std::vector<Checkpoint> checkpoints;  // in order, disjoint
  int64_t tensor_parallel = 1;
  bool sequence_parallel = false;
  // Micro-batches of a pipeline whose activations wait for their backward.
  int64_t waiting_batches = 0;
  // Gradients of parameters are there from the start (accumulation), or in
  // parts on every GPU (ZeRO): then each one is temporary.
  bool gradients_persist = false;
  // By ParameterIndex; empty: all are trained.
  std::vector<bool> frozen;
  std::vector<PersistentBlock> persistent;
  std::vector<int64_t> optimizer_temporary_bytes;  // of each block
};

StepTrace TraceStep(const ModelFacts& facts, const TraceOptions& options);

struct TraceProfile {
  int64_t peak_bytes = 0;
  int32_t peak_point = 0;
  std::array<int64_t, kNumCategories> at_peak{};
  std::vector<int64_t> live_bytes;   // the highest within each point
  std::vector<int32_t> peak_blocks;  // live at the peak, the largest first
};
TraceProfile Replay(const StepTrace& trace);

// Of one buffer on one GPU.
int64_t BufferBytes(const BufferFact& buffer, const TraceOptions& options);

// Bytes that forward keeps for backward of one micro-batch, with these
// checkpoints: what PyTorch's saved tensors take, but for parameters. Outputs
// of the model and of the loss are not among them.
int64_t SavedBytes(const ModelFacts& facts, const TraceOptions& options);
// The same by the unit whose backward frees them.
std::vector<int64_t> SavedByUnit(const ModelFacts& facts,
                                 const TraceOptions& options);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_ESTIMATE_STEP_TRACE_H_
