// What the tool found and did, as plain data. lib/report writes it as text and
// as JSON (docs/report.md has the schema).
//
//   absl::StatusOr<Report> report = Optimize("model.onnx", {});
//   std::cout << ReportToText(*report, {});
//
// Bytes are exact integers. An empty optional means unknown.
#ifndef ONNX_MEMOPT_REPORT_H_
#define ONNX_MEMOPT_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace onnx_memopt {

inline constexpr int kReportSchemaVersion = 1;

struct ReportModel {
  std::string path;  // as given
  std::string sha256;
  int64_t opset = 0;  // of the default domain
  int64_t ir_version = 0;
  int64_t nodes = 0;  // with the bodies of called functions, without subgraphs
  int64_t size_bytes = 0;  // of the model file alone
};

// A named size of the inputs.
struct ReportDim {
  std::string name;
  int64_t value = 0;
  bool assumed = false;  // not bound: numbers are for this value
};

struct ReportWeights {
  int64_t bytes = 0;
  int64_t count = 0;
  int64_t duplicate_bytes = 0;   // what sharing equal weights would save
  int64_t transposed_bytes = 0;  // of matrices that are another one transposed
  // Messages: equal weights, transposed ones, weights that several subgraphs
  // read.
  std::vector<std::string> notes;
};

// What ONNX Runtime takes above the loaded model, as the runtime model predicts
// it for the graph as it is, without the runtime's own optimizers.
struct ReportRuntimePeaks {
  int64_t first_peak_bytes = 0;   // in the first run
  int64_t steady_peak_bytes = 0;  // from the second run on
};

struct ReportPeak {
  int64_t live_peak_bytes = 0;    // activations, the sum at the worst step
  int64_t packed_peak_bytes = 0;  // with every activation at a fixed offset
  int64_t total_bytes = 0;        // weights, inputs and the packed peak
  int64_t peak_step = -1;         // -1: nothing is allocated
  std::string peak_node;
  std::string peak_op;
  // Arena and memory pattern off; and session options as they come.
  ReportRuntimePeaks runtime_bare;
  ReportRuntimePeaks runtime_default;
  // With unbound dims: the live peak is the largest of these formulas.
  std::vector<std::string> live_peak_formulas;
};

// What came of Options::budget_bytes.
struct ReportBudget {
  int64_t bytes = 0;
  int64_t reached_bytes = 0;  // predicted steady peak, default options
  bool met = false;
  std::string reason;  // what holds the peak; empty if it is met
};

// Of a training step: a part of the forward pass that the backward pass makes
// again.
struct ReportCheckpoint {
  std::string first;  // names of nodes
  std::string last;
  int64_t nodes = 0;
  int64_t bytes = 0;  // that are not kept for it
};

// Of a training step: a plan that no other one beats in both.
struct ReportPlan {
  int64_t peak_bytes = 0;  // predicted for ONNX Runtime, steady
  double added_time = 0;   // as a part of the step's without checkpoints
};

// Options of a session of ONNX Runtime, by the names of its Python API, and
// what it takes with them.
struct ReportSessionOptions {
  bool enable_cpu_mem_arena = true;
  bool enable_mem_pattern = true;
  bool enable_mem_reuse = true;
  std::string execution_order = "DEFAULT";
  // Of InferenceSession; the runtime's optimizers that would undo a rewrite.
  std::vector<std::string> disabled_optimizers;
  ReportRuntimePeaks peaks;
};

struct ReportTensor {
  std::string name;
  std::string producer;  // node name; empty for inputs and weights
  std::string kind;      // "input", "weight", "activation"
  std::string dtype;     // empty: unknown
  std::string shape;     // for example "[1, 3, 224, 224]"; "[1, ?]"
  std::optional<int64_t> bytes;
  std::string bytes_formula;  // where symbolic
  int64_t begin = 0;          // half-open range of steps of its graph
  int64_t end = 0;
  int64_t storage = -1;  // equal for tensors that share bytes
  int64_t graph = 0;     // 0: the main graph; else a subgraph
};

struct ReportNode {
  int64_t index = 0;  // the step
  std::string name;
  std::string op;
  int64_t graph = 0;  // 0: the main graph; else a subgraph, whose step it is
  std::optional<int64_t> output_bytes;
  int64_t live_bytes = 0;
  std::optional<int64_t> flops;
  std::optional<int64_t> traffic_bytes;
  // What it reads and makes, as indices of Report::tensors; what a node reads
  // in its subgraphs is read by their nodes.
  std::vector<int64_t> inputs;
  std::vector<int64_t> outputs;
  std::vector<int64_t> graphs;  // its subgraphs
};

// A step of a run in which the steps of subgraphs follow their node's.
struct ReportStep {
  std::string name;
  std::string op;
  int64_t graph = 0;  // 0: the main graph; else a subgraph
  int64_t live_bytes = 0;
};

// Bytes with one place in an arena, for a range of such steps. They may hold
// several tensors, of which `tensor` is the first.
struct ReportBuffer {
  std::string tensor;
  int64_t begin = 0;  // half-open
  int64_t end = 0;
  int64_t bytes = 0;
  int64_t offset_bytes = 0;
};

// How activations take memory over a run, with the subgraphs that need the most
// where the main graph runs them.
struct ReportProfile {
  int64_t arena_bytes = 0;
  std::vector<ReportStep> steps;
  std::vector<ReportBuffer> buffers;
};

struct ReportPass {
  std::string name;
  bool changed = false;
  double seconds = 0;
  std::vector<std::string> remarks;
};

// One point of a sweep over dims.
struct ReportSweepPoint {
  std::vector<std::pair<std::string, int64_t>> dims;
  int64_t weights_bytes = 0;
  ReportPeak before;
  std::optional<ReportPeak> after;
};

// A value that the backward pass reads of the forward pass.
struct ReportSavedValue {
  std::string name;
  std::string module;  // of the exporter; empty: none is named
  int64_t bytes = 0;
};

// A plan of what to keep and what to make again.
struct ReportTrainingPlan {
  int64_t peak_bytes = 0;  // predicted for ONNX Runtime, default options
  double added_time = 0;   // as a part of the step's, by the time model
  // To wrap in torch.utils.checkpoint for about the same plan.
  std::vector<std::string> modules;
};

// What came of Options::training: a step with gradients and without updates.
struct ReportTraining {
  int64_t saved_bytes = 0;
  std::vector<ReportSavedValue> saved;  // the largest first
  // From the largest peak to the smallest, each slower than the one before.
  std::vector<ReportTrainingPlan> plans;
  std::string reason;  // why there is none of this; else empty
};

struct Report {
  ReportModel model;
  std::vector<ReportDim> dims;
  // False if the size of a tensor is unknown: then peaks are lower bounds.
  bool complete = true;
  std::vector<std::string> unknown_tensors;
  ReportWeights weights;  // of the model as read
  int64_t weights_after_bytes = 0;
  int64_t inputs_bytes = 0;  // owned by the caller, not part of the peaks
  int64_t total_flops = 0;   // of what is known
  ReportPeak before;
  std::optional<ReportPeak> after;  // empty if no pass ran
  // Modelled time of a run after the passes, over that before them; empty if
  // no pass ran.
  std::optional<double> time_ratio;
  std::optional<ReportBudget> budget;
  std::vector<ReportCheckpoint> checkpoints;  // empty for other models
  std::vector<ReportPlan> pareto;             // by falling peak
  std::optional<ReportTraining> training;     // of the model as read
  // For the model as it is after the passes: those that were compared, the
  // defaults first, and the index of the best.
  std::vector<ReportSessionOptions> session_options;
  size_t recommended_session = 0;
  // Of the model as it is after the passes.
  std::vector<ReportTensor> tensors;
  std::vector<ReportNode> nodes;        // of the main graph
  std::vector<ReportNode> inner_nodes;  // of its subgraphs
  std::vector<ReportTensor> at_peak;    // the largest first
  std::vector<ReportPass> passes;
  std::vector<ReportSweepPoint> sweep;
  ReportProfile profile_before;
  std::optional<ReportProfile> profile_after;  // empty if no pass ran
  std::vector<std::string> warnings;
  std::vector<std::string> outputs;  // files that were written
};

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_REPORT_H_
