// Bytes of live activations at each step of the main graph, and the peak.
//
//   bytes                 +----+
//   live   +----+    +----+    |
//          |    +----+         +----+
//          +------------------------+--> step
//                         ^ peak_step
//
// Counted: what the run allocates. Not counted: weights and the caller's
// inputs, which are there before the run (reports give them beside it). At a
// node with subgraphs, the largest peak of one of them is added, less what
// becomes the node's own results. Storages of unknown size are left out and
// make the profile incomplete.
//
//   ASSIGN_OR_RETURN(const MemoryProfile* profile,
//                    analyses.Get<MemoryProfile>());
//   profile->main().peak_bytes;                    // the highest step
//   profile->main().live_bytes[profile->main().peak_step];  // the same
#ifndef ONNX_MEMOPT_ANALYSIS_MEMORY_PROFILE_H_
#define ONNX_MEMOPT_ANALYSIS_MEMORY_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

// Of one block.
struct BlockProfile {
  std::vector<int64_t> live_bytes;    // while each step runs, nested included
  std::vector<int64_t> nested_bytes;  // the part of subgraphs at that step
  int64_t peak_bytes = 0;
  ir::Step peak_step = -1;  // the first one; -1 where nothing is allocated
};

class MemoryProfile {
 public:
  static absl::StatusOr<MemoryProfile> Compute(const ir::Graph& graph,
                                               AnalysisManager& analyses);

  const BlockProfile& block(ir::BlockId block) const {
    return blocks_[ir::Index(block)];
  }
  const BlockProfile& main() const { return block(ir::kMainBlock); }
  // False if an activation's size is unknown: then peaks are lower bounds.
  bool complete() const { return complete_; }
  // The activation storages that live at the peak of the main graph, and those
  // of the subgraphs that run then, at their own peaks; the largest first.
  const std::vector<StorageId>& at_peak() const { return at_peak_; }

  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  std::vector<BlockProfile> blocks_;  // by BlockId
  std::vector<StorageId> at_peak_;
  bool complete_ = true;
};

// The peak as formulas in the unbound dimensions: for any sizes of those the
// live peak is the largest of these. In-place sharing is as for all of them
// = 1. At most `max_terms`, of which those that another one is never below are
// left out already; empty if a size is unknown.
absl::StatusOr<std::vector<ir::Dim>> SymbolicPeak(const ir::Graph& graph,
                                                  AnalysisManager& analyses,
                                                  size_t max_terms = 16);

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_MEMORY_PROFILE_H_
