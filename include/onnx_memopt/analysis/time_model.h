// How long a run takes in ONNX Runtime on a CPU, as a model: for each node the
// arithmetic at the rate of its kind of kernel, the bytes of weights, which a
// product of few rows reads for little arithmetic, the bytes of operands and
// results, cheaper while they fit into the cache, and a fixed cost. A loop
// costs its body and a fixed cost for each trip, and reads its weights again in
// each.
//
//   ASSIGN_OR_RETURN(const TimeModel* time, analyses.Get<TimeModel>());
//   time->total_seconds();         // one run of the main graph
//   time->node_seconds(matmul);    // one execution of a node
//
// The constants are those of one machine (lib/analysis/time_facts.h), so the
// seconds are; what passes decide with is the ratio of two totals. What is not
// known counts as nothing: sizes of unknown tensors, arithmetic of ops without
// a rule. Contract: deterministic, the same on every machine.
#ifndef ONNX_MEMOPT_ANALYSIS_TIME_MODEL_H_
#define ONNX_MEMOPT_ANALYSIS_TIME_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

enum class KernelKind : uint8_t {
  kNone,            // done when the model is loaded, or by the node before
  kView,            // moves no data
  kMove,            // copies: Transpose, Concat, Slice, Gather
  kElementwise,     // one pass, little arithmetic
  kTranscendental,  // one pass with exp, erf, pow and their like
  kModerate,        // a few passes: softmax, normalisation, pooling
  kLrn,             // a power for each element, one after the other
  kProduct,         // of a matrix with weights
  kBatchedProduct,  // of matrices that are both computed, and attention
  kConv,
  kPointwiseConv,  // 1x1
  kDepthwiseConv,  // as many groups as channels
};

// What one execution of a node does; of a node with bodies, beside these.
struct NodeWork {
  KernelKind kind = KernelKind::kNone;
  double flops = 0;
  double weight_bytes = 0;
  double data_bytes = 0;  // operands read and results written
  // Of a product, read again before anything has driven them out of the cache.
  bool near_weights = false;
  // Weights or filters that the runtime does not lay out when it loads.
  bool unpacked = false;
};

class TimeModel {
 public:
  static absl::StatusOr<TimeModel> Compute(const ir::Graph& graph,
                                           AnalysisManager& analyses);

  double node_seconds(ir::NodeId id) const { return seconds_[ir::Index(id)]; }
  double total_seconds() const { return total_seconds_; }
  const NodeWork& work(ir::NodeId id) const { return work_[ir::Index(id)]; }
  // How often the nodes of a block are executed in a run.
  double runs(ir::BlockId block) const { return runs_[ir::Index(block)]; }

  // A line for each node, as bench/fit_time.py reads it, and the total.
  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  std::vector<NodeWork> work_;     // by NodeId
  std::vector<double> seconds_;    // by NodeId
  std::vector<double> runs_;       // by BlockId
  std::vector<ir::NodeId> shown_;  // in order, those of bodies too
  double total_seconds_ = 0;
};

// Whether a body that reads so many bytes of weights in each trip finds them in
// the cache in the next one.
bool StayInCache(double weight_bytes);

// For work that is alone in a graph; with bodies, TimeModel adds to it.
double SecondsOf(const NodeWork& work);

// One of equal parts of the work. Each reads the weights, unless these are
// read for each item of what is divided (`per_item`), and `whole_bytes` of the
// data, of operands that are not divided.
NodeWork PartOf(const NodeWork& work, double parts, bool per_item,
                double whole_bytes = 0);

// What a loop of so many trips takes beside its body.
double LoopSeconds(double trips);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_TIME_MODEL_H_
