#include <cstddef>
#include <string>
#include <utility>

#include "io/importer.h"

namespace onnx_memopt::io {

void ImportState::Reserve(const onnx::GraphProto& proto) {
  const auto nodes = static_cast<size_t>(proto.node_size());
  const auto weights = static_cast<size_t>(proto.initializer_size()) +
                       static_cast<size_t>(proto.sparse_initializer_size());
  size_t values = weights + static_cast<size_t>(proto.input_size());
  for (const onnx::NodeProto& node : proto.node()) {
    values += static_cast<size_t>(node.output_size());
  }
  node_sources.reserve(nodes);
  stated_types.reserve(values);
  weight_protos.reserve(weights);
}

void ImportState::Warn(std::string message) {
  constexpr size_t kMaxWarnings = 20;
  if (graph.warnings.size() < kMaxWarnings) {
    graph.warnings.push_back(std::move(message));
  } else {
    ++warnings_left_out;
  }
}

const onnx::AttributeProto* ResolveAttribute(
    const onnx::AttributeProto& attribute, const CallFrame* frame) {
  if (attribute.ref_attr_name().empty()) return &attribute;
  if (frame == nullptr) return nullptr;
  const auto it = frame->attributes.find(attribute.ref_attr_name());
  return it == frame->attributes.end() ? nullptr : it->second;
}

}  // namespace onnx_memopt::io
