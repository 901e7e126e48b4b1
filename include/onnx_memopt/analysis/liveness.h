// When each value lives, and which bytes it lives in.
//
// Time is the step of the block that defines the value. A range is half-open:
//
//     x = Conv(..)   step 0     x [0, 3)     #
//     r = Relu(x)    step 1     r [1, 3)     # r is written over x if x's last
//     s = Add(r, x)  step 2     s [2, 4)         use is step 1; here it is not
//
// A result lives from its step to its last use, at least one step; outputs of a
// block to the block's end; inputs, params and weights from its start, and
// params that nobody reads to its end. What a nested block reads of the outside
// is a use at the node that holds the block.
//
// Values share a storage if one is a view of the other, or if it was written in
// place over the other: the op may (OpInfo::in_place), the operand is not used
// later, it is neither the caller's nor an output, and the byte sizes agree.
//
//   ASSIGN_OR_RETURN(const Liveness* liveness, analyses.Get<Liveness>());
//   LiveRange range = liveness->range(value);
//   const Storage& bytes = liveness->storage(liveness->storage_of(value));
#ifndef ONNX_MEMOPT_ANALYSIS_LIVENESS_H_
#define ONNX_MEMOPT_ANALYSIS_LIVENESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "llvm/ADT/SmallVector.h"
#include "onnx_memopt/analysis/analysis_manager.h"
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::analysis {

enum class StorageKind : uint8_t {
  kInput,       // owned by the caller of the runtime
  kWeight,      // initializers and constants
  kActivation,  // allocated during the run
};

struct LiveRange {
  ir::Step begin = 0;
  ir::Step end = 0;  // exclusive
};

enum class StorageId : uint32_t {};
inline constexpr StorageId kNoStorage{UINT32_MAX};

struct Storage {
  StorageKind kind = StorageKind::kActivation;
  ir::BlockId block = ir::kNoBlock;  // whose steps `range` counts
  LiveRange range;
  std::optional<int64_t> size_bytes;         // nullopt: unknown
  llvm::SmallVector<ir::ValueId, 2> values;  // in order of definition
};

class Liveness {
 public:
  static absl::StatusOr<Liveness> Compute(const ir::Graph& graph,
                                          AnalysisManager& analyses);

  // Of a value that is defined in the model as it is now; kNoStorage otherwise.
  StorageId storage_of(ir::ValueId value) const {
    return storage_of_[ir::Index(value)];
  }
  const LiveRange& range(ir::ValueId value) const {
    return ranges_[ir::Index(value)];
  }
  const Storage& storage(StorageId id) const {
    return storages_[static_cast<size_t>(id)];
  }
  // All storages, in order of definition, outer blocks first.
  const std::vector<Storage>& storages() const { return storages_; }

  void Print(const ir::Graph& graph, std::string* out) const;

 private:
  friend class LivenessBuilder;
  std::vector<Storage> storages_;
  std::vector<StorageId> storage_of_;  // by ValueId
  std::vector<LiveRange> ranges_;      // by ValueId
};

}  // namespace onnx_memopt::analysis

#endif  // ONNX_MEMOPT_ANALYSIS_LIVENESS_H_
