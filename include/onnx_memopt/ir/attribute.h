// A node's attribute. Subgraphs are not attributes here but blocks of the node;
// tensors are weights of the graph. A reference to an attribute of a function's
// call has been resolved.
//
//   Attribute axis{.name = "axis", .value = int64_t{1}};
//   if (const auto* i = std::get_if<int64_t>(&axis.value)) Use(*i);
//   IntAttribute(node, "axis", /*default_value=*/0);  // graph.h: by name
#ifndef ONNX_MEMOPT_IR_ATTRIBUTE_H_
#define ONNX_MEMOPT_IR_ATTRIBUTE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "onnx_memopt/ir/ids.h"

namespace onnx_memopt::ir {

// A kind that the IR does not model (sparse tensors, type protos, lists of
// tensors). The source model keeps it.
struct OpaqueAttribute {};

using AttributeValue =
    std::variant<OpaqueAttribute, int64_t, float, std::string,
                 std::vector<int64_t>, std::vector<float>,
                 std::vector<std::string>, WeightId>;

struct Attribute {
  std::string name;
  AttributeValue value;
};

}  // namespace onnx_memopt::ir

#endif  // ONNX_MEMOPT_IR_ATTRIBUTE_H_
