// Between ir::Attribute and onnx::AttributeProto, for what the IR models by
// value: numbers, strings and lists of them.
#ifndef ONNX_MEMOPT_LIB_IO_ATTRIBUTE_PROTO_H_
#define ONNX_MEMOPT_LIB_IO_ATTRIBUTE_PROTO_H_

#include "absl/status/status.h"
#include "onnx/onnx_pb.h"
#include "onnx_memopt/ir/attribute.h"

namespace onnx_memopt::io {

// OpaqueAttribute for kinds that the IR does not model by value.
ir::AttributeValue FromAttributeProto(const onnx::AttributeProto& proto);

// An internal error for OpaqueAttribute and tensors, which no pass makes.
absl::Status ToAttributeProto(const ir::Attribute& attribute,
                              onnx::AttributeProto* proto);

}  // namespace onnx_memopt::io

#endif  // ONNX_MEMOPT_LIB_IO_ATTRIBUTE_PROTO_H_
