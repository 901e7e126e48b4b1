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

// What becomes of the stored elements when they are written. The result is
// never in memory as a whole.
struct WeightTransform {
  // What the stored bytes are: kFloat; kUndefined for no transform.
  ElementType from = ElementType::kUndefined;
  // Numbers beyond the range of the new type become its largest and smallest,
  // not infinities.
  bool clamp = false;

  friend bool operator==(const WeightTransform&,
                         const WeightTransform&) = default;
};

struct Weight {
  std::string name;  // for messages: the initializer or the Constant's output
  // Type, dims and bytes are those of the result of `transform`; storage, bytes
  // and external say where the stored elements are.
  ElementType element = ElementType::kUndefined;
  llvm::SmallVector<int64_t, 4> dims;
  // Bytes of the dense tensor; of a sparse one, bytes of values and indices.
  int64_t size_bytes = 0;
  WeightStorage storage = WeightStorage::kRaw;
  absl::string_view bytes;  // kRaw and kTyped; owned by the loaded model
  ExternalRange external;   // kExternal
  WeightTransform transform;
  bool is_transformed() const {
    return transform.from != ElementType::kUndefined;
  }
  int64_t num_elements() const {
    int64_t elements = 1;
    for (const int64_t dim : dims) elements *= dim;
    return elements;
  }
};

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_WEIGHT_H_
