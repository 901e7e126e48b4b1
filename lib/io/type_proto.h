// Between ir::Type and onnx::TypeProto.
#ifndef ONNX_MEMOPT_LIB_IO_TYPE_PROTO_H_
#define ONNX_MEMOPT_LIB_IO_TYPE_PROTO_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/ir/type.h"

namespace onnx_memopt::io {

// Names that stand for symbolic dims in protos: ONNX's inference passes a
// dim_param through unchanged, so a dim goes in as its text and is found again.
using NamedDims = absl::flat_hash_map<std::string, ir::Dim>;

// Shapes are listed, compared and printed all over; none of a real model comes
// near.
inline constexpr int kMaxRank = 1024;

// A shape of more than kMaxRank dims is unknown. So are dim_params that are not
// in `names`, and negative dim_values.
ir::Type FromTypeProto(const onnx::TypeProto& proto, const NamedDims& names);

// Adds the symbolic dims of `type` to `names`.
onnx::TypeProto ToTypeProto(const ir::Type& type, NamedDims* names);

// Fills what is unknown in `type` from `other`. Returns false if the two
// contradict each other; then `type` keeps its own.
bool MergeType(const ir::Type& other, ir::Type* type);

// What holds for both: of two types that disagree in a dimension, that
// dimension becomes unknown.
ir::Type JoinTypes(const ir::Type& a, const ir::Type& b);

// Element type and every dimension known (for non-tensors: the nested type).
bool IsComplete(const ir::Type& type);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_LIB_IO_TYPE_PROTO_H_
