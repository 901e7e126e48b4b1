// How a model is trained or served, and what that takes on each GPU.
//
//   Model model(&graph, {});
//   ASSIGN_OR_RETURN(Estimate e, Evaluate(&model, {.batch = 32}, {}));
//   e.stages[e.fullest].total_bytes;
#ifndef ONNX_MEMOPT_ESTIMATE_CONFIGURATION_H_
#define ONNX_MEMOPT_ESTIMATE_CONFIGURATION_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/estimate/allocator.h"
#include "onnx_memopt/estimate/blocks.h"
#include "onnx_memopt/estimate/model_facts.h"
#include "onnx_memopt/estimate/states.h"
#include "onnx_memopt/estimate/step_trace.h"

namespace onnx_memopt::estimate {

// Stated, not computed: the CUDA context with its kernels, and the workspace of
// the matrix library.
inline constexpr int64_t kContextBytes = int64_t{512} << 20;
inline constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;
// Parameters in one bucket of ZeRO's reductions; the configuration that is
// written asks for the same.
inline constexpr int64_t kBucketElements = 50'000'000;

enum class CheckpointKind : uint8_t {
  kNone,
  kSelective,  // attention cores are computed again
  kFull,       // of each block its input is kept
  kSqrt,       // groups of blocks, about the square root of their number
  kEvery,      // groups of `checkpoint_every` blocks
  // Attention cores, blocks and groups of them, at the least arithmetic with
  // which the fullest GPU takes no more than `checkpoint_budget_bytes`.
  kBudget,
};

// Another model in this one's place.
enum class ModelChange : uint8_t {
  kNone,
  kShareBlocks,  // all blocks use the parameters of the first
  kLowRank,      // each large matrix as two of a quarter of its rank
  kHalfBlocks,   // a student with every second block
  kAdapters,     // frozen weights, trained factors of rank 8 (LoRA)
};

struct Configuration {
  bool training = true;
  int64_t batch = 1;  // samples of one micro-batch on one GPU
  int64_t accumulate = 1;
  const OptimizerRow* optimizer = FindOptimizer("adam");
  const PrecisionRow* precision = FindPrecision("fp32");
  LossKind loss = LossKind::kAuto;
  CheckpointKind checkpoint = CheckpointKind::kNone;
  int64_t checkpoint_every = 1;
  int64_t checkpoint_budget_bytes = 0;
  bool fused_attention = false;
  int64_t data_parallel = 1;
  int zero = 0;
  bool offload_optimizer = false;
  bool offload_parameters = false;
  int64_t tensor_parallel = 1;
  bool sequence_parallel = false;
  int64_t pipeline_parallel = 1;
  int64_t micro_batches = 1;
  bool gpipe = false;  // else one forward, one backward
  ModelChange change = ModelChange::kNone;

  int64_t gpus() const {
    return data_parallel * tensor_parallel * pipeline_parallel;
  }
};

// The facts of a graph under the options that change them, each computed once.
class Model {
 public:
  // `graph` must outlive it.
  Model(const ir::Graph* graph, std::string batch_symbol)
      : graph_(graph), batch_symbol_(std::move(batch_symbol)) {}

  struct View {
    ModelFacts facts;
    ModelBlocks blocks;
    std::vector<bool> frozen;  // by ParameterIndex; empty: none
  };
  absl::StatusOr<const View*> Get(const Configuration& configuration);
  const ir::Graph& graph() const { return *graph_; }

 private:
  const ir::Graph* graph_;
  std::string batch_symbol_;
  // By what changes the facts: fused attention, autocast, tensor parallelism,
  // the model itself.
  std::map<std::tuple<bool, bool, int64_t, ModelChange>, std::unique_ptr<View>>
      views_;
};

// One stage of a pipeline; every GPU of its data- and tensor-parallel groups
// has the same.
struct StageEstimate {
  UnitIndex begin = 0;
  UnitIndex end = 0;
  int64_t gpus = 1;
  int64_t parameters = 0;   // elements on one GPU, before ZeRO
  StateBytes states;        // on one GPU, after ZeRO
  int64_t host_bytes = 0;   // offloaded, for one GPU
  int64_t saved_bytes = 0;  // activations of one micro-batch
  int64_t in_flight = 1;    // micro-batches whose activations live together
  int64_t live_peak_bytes = 0;
  std::array<int64_t, kNumCategories> at_peak{};
  // With rounding and fragmentation; the live peak where no allocator was
  // simulated.
  AllocatorResult caching;
  int64_t reserved_bytes = 0;
  int64_t total_bytes = 0;  // reserved, context and workspace
  StepTrace trace;
  TraceProfile profile;
};

struct Estimate {
  std::vector<StageEstimate> stages;
  size_t fullest = 0;
  double recompute_overhead = 0;  // of the time of a step, by arithmetic
  std::vector<Checkpoint> checkpoints;

  const StageEstimate& worst() const { return stages[fullest]; }
};

struct EvaluateOptions {
  bool allocators = true;  // simulate PyTorch's; else the live peak is taken
};

// Errors (kOutOfRange): a degree of parallelism that does not fit the model, a
// budget that no checkpoints reach.
absl::StatusOr<Estimate> Evaluate(Model* model,
                                  const Configuration& configuration,
                                  const EvaluateOptions& options);

// Memory against recomputation, from none of it to the least memory: each point
// takes less than the one before, and is one of the kinds of checkpoints.
struct CheckpointPoint {
  Configuration configuration;
  int64_t total_bytes = 0;
  double overhead = 0;
};
absl::StatusOr<std::vector<CheckpointPoint>> CheckpointCurve(
    Model* model, const Configuration& configuration,
    const EvaluateOptions& options);

// Whether the fullest GPU takes at most `budget_bytes`.
absl::StatusOr<bool> Fits(Model* model, const Configuration& configuration,
                          int64_t budget_bytes);

// The largest batch whose total is at most `budget_bytes`; 0: none.
absl::StatusOr<int64_t> LargestBatch(Model* model,
                                     const Configuration& configuration,
                                     int64_t budget_bytes);

}  // namespace onnx_memopt::estimate

#endif  // ONNX_MEMOPT_ESTIMATE_CONFIGURATION_H_
