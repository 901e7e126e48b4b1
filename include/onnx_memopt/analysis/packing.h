// The arena that a runtime with a plan of offsets needs for the main graph.
//
//   packing.arena_bytes();          // at least MemoryProfile's peak
//   packing.offset_bytes(storage);  // of an activation
#ifndef ONNX_MEMOPT_ANALYSIS_PACKING_H_
#define ONNX_MEMOPT_ANALYSIS_PACKING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/analysis/liveness.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

class Packing {
 public:
  // The plan is checked by plan::ValidateOffsets before it is given out.
  static absl::StatusOr<Packing> Compute(const ir::Graph& graph,
                                         AnalysisManager& analyses);

  int64_t arena_bytes() const { return arena_bytes_; }
  // nullopt: not an activation of the main graph, or of unknown size.
  std::optional<int64_t> offset_bytes(StorageId storage) const {
    return offsets_[static_cast<size_t>(storage)];
  }

  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  std::vector<std::optional<int64_t>> offsets_;  // by StorageId
  int64_t arena_bytes_ = 0;
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_PACKING_H_
