// Arithmetic and memory traffic of each node.
//
// FLOPs come from the op table's rules, with a multiply-add counting as two.
// Traffic is the bytes of operands read and results written once each: a lower
// bound; views move none. A node with subgraphs has those of the subgraph that
// has the most; loops count the body once per trip where the trip count is
// known, else once.
//
//   ASSIGN_OR_RETURN(const Cost* cost, analyses.Get<Cost>());
//   std::optional<int64_t> flops = cost->node(conv).flops;  // nullopt: unknown
#ifndef ONNX_MEMOPT_ANALYSIS_COST_H_
#define ONNX_MEMOPT_ANALYSIS_COST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

struct NodeCost {
  std::optional<int64_t> flops;          // nullopt: unknown
  std::optional<int64_t> traffic_bytes;  // nullopt: unknown
};

class Cost {
 public:
  static absl::StatusOr<Cost> Compute(const ir::Graph& graph,
                                      AnalysisManager& analyses);

  // Of a node in a block of Timeline; empty for others.
  const NodeCost& node(ir::NodeId id) const { return nodes_[ir::Index(id)]; }
  // Sum over the main graph of what is known.
  int64_t total_flops() const { return total_flops_; }
  int64_t unknown_nodes() const { return unknown_nodes_; }

  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  std::vector<NodeCost> nodes_;
  int64_t total_flops_ = 0;
  int64_t unknown_nodes_ = 0;
};

// How often a loop's body runs, from its count, or the extent of a stacked
// result or a scanned operand; 1 where it cannot be told.
int64_t TripCount(const ir::Graph& graph, const ir::Node& node,
                  const ir::Bindings& bindings);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_COST_H_
