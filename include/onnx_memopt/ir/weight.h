// A constant tensor: where its bytes are, never the bytes themselves.
//
// A weight is in the model file (a view of the mapped file), in an external
// file (a path and a range that analysis never opens), or made by a pass (owned
// bytes).
//
//   const Weight& w = graph.weight(graph.value(initializer).weight);
//   if (w.storage == WeightStorage::kRaw) Hash(w.bytes);  // a view, no copy
//   total_bytes += w.size_bytes;  // known for all kinds
#ifndef ONNX_MEMOPT_IR_WEIGHT_H_
#define ONNX_MEMOPT_IR_WEIGHT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "llvm/ADT/SmallVector.h"
#include "onnx_memopt/ir/ids.h"
#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::ir {

enum class WeightStorage : uint8_t {
  // `bytes` are the elements, little-endian, as TensorProto.raw_data.
  kRaw,
  // `bytes` are the wire encoding of one of TensorProto's typed fields (varints
  // or strings): equal bytes mean equal tensors, but not the other way round.
  kTyped,
  kExternal,
  kSparse,
};

struct ExternalRange {
  std::string path;  // location joined to the model's directory
  int64_t offset_bytes = 0;
  int64_t length_bytes = 0;
};

struct Weight {
  std::string name;  // for messages: the initializer or the Constant's output
  ElementType element = ElementType::kUndefined;
  llvm::SmallVector<int64_t, 4> dims;
  // Bytes of the dense tensor; of a sparse one, bytes of values and indices.
  int64_t size_bytes = 0;
  WeightStorage storage = WeightStorage::kRaw;
  absl::string_view bytes;  // kRaw and kTyped; owned by the loaded model
  ExternalRange external;   // kExternal
};

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_WEIGHT_H_
