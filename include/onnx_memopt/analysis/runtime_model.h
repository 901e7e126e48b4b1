// What a runtime really does with a graph: in which order it runs the nodes,
// which tensors share a buffer, when buffers are freed, and how much memory the
// process takes for it. docs/runtime_model.md has the rules and their evidence.
//
// Targets: `ideal` (MemoryProfile: pure liveness in the file's order) and
// `onnxruntime` (the CPU provider of the version in lib/analysis/ort_facts.h).
//
//   ASSIGN_OR_RETURN(RuntimePrediction now,
//                    PredictRuntime(graph, analyses, {.threads = 2}));
//   now.peak_first_bytes;   // above the loaded session, first run
//   now.peak_steady_bytes;  // from the second run on
//
// The parts are usable alone. A search over orders builds a RuntimeBlock once,
// and asks for an order and a peak thousands of times:
//
//   ASSIGN_OR_RETURN(RuntimeBlock block,
//                    BuildRuntimeBlock(graph, analyses, ir::kMainBlock, {}));
//   std::vector<int32_t> order = RunOrder(block, ExecutionOrder::kDefault);
//   int64_t peak = BarePeak(block, order, PlanBuffers(block, order, {}));
//
//   block (steps, values)  --RunOrder-->  order  --PlanBuffers-->  plan
//     plan --BarePeak--> peak of arena off, pattern off
//     plan --TraceRun--> allocations and frees --SimulateMemory--> peaks
#ifndef ONNX_MEMOPT_ANALYSIS_RUNTIME_MODEL_H_
#define ONNX_MEMOPT_ANALYSIS_RUNTIME_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "llvm/ADT/SmallVector.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

enum class RuntimeTarget : uint8_t { kIdeal, kOnnxRuntime };

// SessionOptions::execution_order.
enum class ExecutionOrder : uint8_t {
  kDefault,        // depth first from the leaves, the highest index first
  kPriorityBased,  // the file's order, Shape and Size as early as possible
  // The file's order itself. The runtime writes the graph that it has made
  // (optimized_model_filepath) in the order in which a DEFAULT session runs it;
  // read again, that file would run in another one.
  kFile,
};

// The runtime maps external files. Pages of weights that no kernel packs when
// the session is made become resident in the first run, and stay: which of the
// graph's external weights does that concern?
enum class MappedWeights : uint8_t {
  kNone,  // none: the session's model has them inside
  // Those that the runtime's optimizer did not make: for a graph that a session
  // wrote, and a prediction for that session.
  kOriginal,
  kAll,
};

// The session options that decide about memory; the defaults are the runtime's.
struct RuntimeOptions {
  RuntimeTarget target = RuntimeTarget::kOnnxRuntime;
  ExecutionOrder execution_order = ExecutionOrder::kDefault;
  bool arena = true;    // enable_cpu_mem_arena
  bool pattern = true;  // enable_mem_pattern
  bool reuse = true;    // enable_mem_reuse
  int threads = 1;      // intra_op_num_threads
  // What the main graph computes from weights alone is computed when the model
  // is loaded, as the runtime does unless graph_optimization_level is "none".
  bool folding = false;
  // A convolution runs together with what the runtime folds into it (scales and
  // norms with constant operands) and with the sum behind it, as at its default
  // level. For graphs that it has not optimized yet; needs `folding`.
  bool fusion = false;
  MappedWeights mapped_weights = MappedWeights::kAll;
};

// Arena off, pattern off: every tensor is an allocation of its own.
inline RuntimeOptions Bare(RuntimeOptions options = {}) {
  options.arena = false;
  options.pattern = false;
  return options;
}

// --- The problem: one block of the graph, in the file's order ---

struct RuntimeValue {
  ir::ValueId id = ir::kNoValue;
  int64_t size_bytes = 0;  // 0 where it is unknown
  // Values of one class have the same element size and shape as far as the
  // runtime sees: one may inherit another's buffer. -1: like no other value.
  int32_t shape_class = -1;
  int32_t producer = -1;   // step; -1: the caller's, a weight, or a parameter
  bool is_scalar = false;  // of rank 0: overwritten, but never inherited
  bool is_output = false;  // of the block
};

struct RuntimeBodies;

struct RuntimeStep {
  ir::NodeId node = ir::kNoNode;
  // Indices of RuntimeBlock::values, in the order of operands; without those
  // that are left out, but with repetitions.
  llvm::SmallVector<int32_t, 4> inputs;
  llvm::SmallVector<int32_t, 0> captured;  // what its bodies read
  llvm::SmallVector<int32_t, 2> outputs;
  int32_t first_output = -1;  // result 0; -1 where it is left out
  // Values: the first output is this one's bytes; -1: none.
  int32_t alias_of = -1;
  // Values that the first output may overwrite.
  llvm::SmallVector<int32_t, 1> in_place;
  // Steps that must have run before; sorted, no duplicates.
  llvm::SmallVector<int32_t, 4> after;
  // What the kernel takes while it runs, all at once, from the runtime's
  // allocator, and from malloc.
  llvm::SmallVector<int64_t, 1> scratch_bytes;
  int64_t scratch_total_bytes = 0;
  bool scratch_first = false;  // it is asked for before the outputs
  // Asked for together with the last of these, and never written to.
  int64_t untouched_bytes = 0;
  int64_t malloc_bytes = 0;
  // Pages of mapped weights that this step is the first to touch.
  int64_t mapped_bytes = 0;
  // Shape and Size: run as soon as they can in kPriorityBased.
  bool eager = false;
  // An Identity in a loop's body: it hands a parameter through uncopied.
  bool passes_through = false;
  // Of If, Loop and Scan; null for others.
  std::shared_ptr<const RuntimeBodies> bodies;
  // Arena off, pattern off: the most that the bodies and the step's own outputs
  // take together.
  int64_t nested_peak_bytes = 0;
};

struct RuntimeBlock {
  ir::BlockId block = ir::kNoBlock;
  std::vector<RuntimeValue> values;
  std::vector<RuntimeStep> steps;    // in the file's order
  std::vector<int32_t> outputs;      // values, in order; may repeat
  std::vector<ir::ValueId> unknown;  // values of unknown size
  // False where something other than a tensor is fed: no memory pattern then.
  bool keeps_pattern = true;
};

// What If, Loop and Scan run.
struct RuntimeBodies {
  enum class Kind : uint8_t { kIf, kLoop, kScan };
  Kind kind = Kind::kIf;
  std::vector<RuntimeBlock> blocks;  // of an If: both branches
  int64_t trip_count = 1;            // of a loop
  // Of Loop and Scan: how many values are carried. A body's results begin with
  // these (after Loop's condition).
  int32_t num_carried = 0;
  // Of Scan: bytes of inputs that are copied since they are scanned along
  // another axis than the first; and for each stacked result whether it is
  // built in a buffer of its own and then transposed.
  std::vector<int64_t> input_copies_bytes;
  std::vector<bool> output_is_copied;
};

// Calls of functions are replaced by their bodies, which the runtime appends.
absl::StatusOr<RuntimeBlock> BuildRuntimeBlock(const ir::Graph& graph,
                                               AnalysisManager& analyses,
                                               ir::BlockId block,
                                               const RuntimeOptions& options);

// --- Order ---

// The steps in order of execution. `rank`: the position in the file that each
// step would have; empty: as they are.
std::vector<int32_t> RunOrder(const RuntimeBlock& block, ExecutionOrder order,
                              absl::Span<const int32_t> rank = {});

// kDefault, and how the walk came to each step.
struct DepthFirstWalk {
  std::vector<int32_t> order;  // steps, as by RunOrder
  // By step: the reader from which the walk came; -1: it began here.
  std::vector<int32_t> came_from;
};
DepthFirstWalk WalkDepthFirst(const RuntimeBlock& block,
                              absl::Span<const int32_t> rank = {});

// --- Buffers ---

struct BufferPlan {
  // By value: the value that is the first in its buffer; its own index for
  // most.
  std::vector<int32_t> buffer_of;
  // By step: buffers that are freed when it has run.
  std::vector<llvm::SmallVector<int32_t, 2>> frees;
};

// `order` as by RunOrder.
BufferPlan PlanBuffers(const RuntimeBlock& block,
                       absl::Span<const int32_t> order,
                       const RuntimeOptions& options);

// True if the value is the first in a buffer that the run allocates.
bool OwnsBuffer(const RuntimeBlock& block, const BufferPlan& plan,
                int32_t value);

// The most bytes at once where each buffer is an allocation of its own. The
// cheap one: neither arena nor pattern. `peak_at`, if not null, is set to the
// position in `order`.
int64_t BarePeak(const RuntimeBlock& block, absl::Span<const int32_t> order,
                 const BufferPlan& plan, int32_t* peak_at = nullptr);

// The same along the order, by position.
struct BareProfile {
  std::vector<int64_t> during_bytes;  // while the step runs
  std::vector<int64_t> after_bytes;   // when it has run
};
BareProfile ProfileBare(const RuntimeBlock& block,
                        absl::Span<const int32_t> order,
                        const BufferPlan& plan);

// All three steps for the main graph.
absl::StatusOr<int64_t> PredictBarePeak(const ir::Graph& graph,
                                        AnalysisManager& analyses,
                                        const RuntimeOptions& options);

// --- The whole prediction ---

struct LiveBuffer {
  ir::ValueId value;  // the first in it
  int64_t size_bytes = 0;
};

struct RuntimePrediction {
  std::vector<ir::NodeId> order;  // of the main graph
  // Resident memory above that of the loaded session, at its highest.
  int64_t peak_first_bytes = 0;   // in the first run
  int64_t peak_steady_bytes = 0;  // from then on
  // Of the peak of the first run in the main graph.
  ir::NodeId peak_node = ir::kNoNode;  // kNoNode where nothing is allocated
  int32_t peak_step = -1;
  std::vector<LiveBuffer> at_peak;  // the largest first
  int64_t scratch_at_peak_bytes = 0;
  // The block that replaces the tensors of the main graph from the second run
  // on; 0 without a pattern.
  int64_t pattern_bytes = 0;
  // Regions of the arena, as they come from the system; more than resident.
  int64_t arena_bytes = 0;
  // Pages of mapped weights; part of both peaks.
  int64_t mapped_weight_bytes = 0;
  bool complete = true;  // false: a size is unknown, the peaks are lower bounds
  std::vector<ir::ValueId> unknown;
};

absl::StatusOr<RuntimePrediction> PredictRuntime(const ir::Graph& graph,
                                                 AnalysisManager& analyses,
                                                 const RuntimeOptions& options);

// Both peaks alone, of a block as if it were the main graph, with its steps in
// the file by `rank` as for RunOrder.
struct RuntimePeaks {
  int64_t first_bytes = 0;
  int64_t steady_bytes = 0;
};
RuntimePeaks PredictPeaks(const RuntimeBlock& block,
                          const RuntimeOptions& options,
                          absl::Span<const int32_t> rank = {});

// One step of the allocators in a run, in order of time.
struct MemoryEvent {
  enum class Kind : uint8_t {
    kAllocate,       // from the runtime's allocator
    kAllocateBlock,  // the same; its pages are touched later, by kTouch
    kAllocateMalloc,
    kMap,   // pages that stay
    kFree,  // of any kind
    kTouch,
  };
  Kind kind = Kind::kAllocate;
  int32_t id = -1;  // of the allocation
  int64_t size_bytes = 0;
  int64_t offset_bytes = 0;  // kTouch: where in the block
  int32_t position = -1;     // in the order of the main block
};

// The first run of the main graph, as the runtime asks its allocators.
absl::StatusOr<std::vector<MemoryEvent>> TraceFirstRun(
    const ir::Graph& graph, AnalysisManager& analyses,
    const RuntimeOptions& options);

// As an analysis: bare and default peaks with one thread, for printing.
class RuntimeModel {
 public:
  static absl::StatusOr<RuntimeModel> Compute(const ir::Graph& graph,
                                              AnalysisManager& analyses);

  const RuntimePrediction& ideal() const { return ideal_; }
  const RuntimePrediction& bare() const { return bare_; }
  const RuntimePrediction& stock() const { return stock_; }

  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  RuntimePrediction ideal_;
  RuntimePrediction bare_;
  RuntimePrediction stock_;
  std::vector<ir::NodeId> priority_order_;
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_RUNTIME_MODEL_H_
