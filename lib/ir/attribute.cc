// Typed access to the attributes of a node.
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"  // graph.h names absl::StatusOr
#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::ir {
namespace {

// Null where the node has none of that name and type. Nodes have a handful of
// attributes: a scan is faster than an index.
template <typename T>
const T* Find(const Node& node, absl::string_view name) {
  for (const Attribute& attribute : node.attributes) {
    if (attribute.name == name) return std::get_if<T>(&attribute.value);
  }
  return nullptr;
}

}  // namespace

int64_t IntAttribute(const Node& node, absl::string_view name,
                     int64_t default_value) {
  const auto* value = Find<int64_t>(node, name);
  return value == nullptr ? default_value : *value;
}

float FloatAttribute(const Node& node, absl::string_view name,
                     float default_value) {
  const auto* value = Find<float>(node, name);
  return value == nullptr ? default_value : *value;
}

std::string StringAttribute(const Node& node, absl::string_view name,
                            absl::string_view default_value) {
  const auto* value = Find<std::string>(node, name);
  return value == nullptr ? std::string(default_value) : *value;
}

const std::vector<int64_t>* IntsAttribute(const Node& node,
                                          absl::string_view name) {
  return Find<std::vector<int64_t>>(node, name);
}

const std::vector<float>* FloatsAttribute(const Node& node,
                                          absl::string_view name) {
  return Find<std::vector<float>>(node, name);
}

}  // namespace onnx_memopt::ir
