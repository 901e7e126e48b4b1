// A run as one list of steps, for pictures: after a node with subgraphs come
// the steps of the one that needs the most, and so on inside it. What the loop
// runs many times is there once.
//
//   main graph   0 Conv   1 If                      2 Add
//   branch                  0 Exp   1 Neg
//   flat         0 Conv   1 If   2 Exp   3 Neg      4 Add
//
// A buffer is an activation storage, of the main graph or of a subgraph that is
// shown, with its range in flat steps and its offset in one arena for all. A
// node's result that is the subgraph's own last value is one buffer, from where
// the subgraph makes it on. Storages of unknown size are left out.
//
// The peak is MemoryProfile's: that of the main graph. It may be above it where
// a subgraph returns what is not its own, or one value twice.
//
//   ASSIGN_OR_RETURN(const FlatProfile* flat, analyses.Get<FlatProfile>());
//   for (const FlatBuffer& buffer : flat->buffers()) Draw(buffer);
#ifndef ONNX_MEMOPT_ANALYSIS_FLAT_PROFILE_H_
#define ONNX_MEMOPT_ANALYSIS_FLAT_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

struct FlatStep {
  ir::NodeId node = ir::kNoNode;
  ir::BlockId block = ir::kNoBlock;  // whose steps it is one of
  int64_t live_bytes = 0;
};

struct FlatBuffer {
  StorageId storage = kNoStorage;
  LiveRange range;  // in flat steps
  int64_t size_bytes = 0;
  int64_t offset_bytes = 0;
};

class FlatProfile {
 public:
  // The offsets are Packing's where there are no subgraphs, else made and
  // checked in the same way.
  static absl::StatusOr<FlatProfile> Compute(const ir::Graph& graph,
                                             AnalysisManager& analyses);

  const std::vector<FlatStep>& steps() const { return steps_; }
  // In order of definition, outer graphs first.
  const std::vector<FlatBuffer>& buffers() const { return buffers_; }
  int64_t arena_bytes() const { return arena_bytes_; }

  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  friend class FlatProfileBuilder;
  std::vector<FlatStep> steps_;
  std::vector<FlatBuffer> buffers_;
  int64_t arena_bytes_ = 0;
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_FLAT_PROFILE_H_
