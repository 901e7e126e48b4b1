// The elements of a small tensor as numbers: shapes, axes, scales.
//
//   ASSIGN_OR_RETURN(ir::Weight weight, ResolveTensor(model, tensor, name));
//   if (std::optional<std::vector<int64_t>> axes = IntegerValues(weight)) ...
#ifndef ONNX_MEMOPT_IO_TENSOR_VALUES_H_
#define ONNX_MEMOPT_IO_TENSOR_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/ir/weight.h"

namespace onnx_memopt::io {

// Of integer and bool tensors. nullopt for other types, external and sparse
// tensors, more than ir::kMaxContentsElements elements, and a uint64 that does
// not fit.
std::optional<std::vector<int64_t>> IntegerValues(const ir::Weight& weight);

// Of float, double, float16 and bfloat16 tensors; nullopt as above.
std::optional<std::vector<double>> RealValues(const ir::Weight& weight);

// Gives the elements of a kRaw or kTyped weight as raw_data would hold them,
// in chunks that are not kept. A number that the element type cannot hold is
// cut to its low bits, as runtimes do. False: strings, external and sparse
// tensors have no such bytes.
bool HasRawForm(const ir::Weight& weight);
absl::Status VisitRawBytes(
    const ir::Weight& weight,
    absl::FunctionRef<absl::Status(absl::string_view)> visit);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_IO_TENSOR_VALUES_H_
