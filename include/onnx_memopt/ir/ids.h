// Dense ids of the IR. Each is an index into one vector of ir::Graph, so data
// about nodes or values is a std::vector indexed by Index(id).
//
//   std::vector<int64_t> size_bytes(graph.num_values());
//   size_bytes[Index(value)] = 4;
#ifndef ONNX_MEMOPT_IR_IDS_H_
#define ONNX_MEMOPT_IR_IDS_H_

#include <cstddef>
#include <cstdint>

namespace onnx_memopt::ir {

enum class NodeId : uint32_t {};
enum class ValueId : uint32_t {};
enum class BlockId : uint32_t {};
enum class WeightId : uint32_t {};

// Not one of the two largest numbers: llvm::DenseMap keeps those for itself,
// and looking one up finds an entry that nobody put there.
inline constexpr uint32_t kNoIndex = UINT32_MAX - 2;
inline constexpr NodeId kNoNode{kNoIndex};
// As an operand: an optional input that was left out (an empty name in ONNX).
inline constexpr ValueId kNoValue{kNoIndex};
inline constexpr BlockId kNoBlock{kNoIndex};
inline constexpr WeightId kNoWeight{kNoIndex};
// The top-level graph of the model.
inline constexpr BlockId kMainBlock{0};

template <typename Id>
constexpr size_t Index(Id id) {
  return static_cast<size_t>(id);
}

// Position in the order of execution. Live ranges are half-open [begin, end).
using Step = int32_t;

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_IDS_H_
