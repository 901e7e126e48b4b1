#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "onnx_memopt/ir/graph.h"

namespace onnx_memopt::ir {
namespace {

void BindType(const Bindings& sizes, Type* type) {
  if (type->shape.has_value()) {
    for (std::optional<Dim>& dim : *type->shape) {
      // Overflow: unknown.
      if (dim.has_value()) dim = dim->Substitute(sizes);
    }
  }
  if (type->nested != nullptr) {
    Type nested = *type->nested;
    BindType(sizes, &nested);
    type->nested = std::make_shared<const Type>(std::move(nested));
  }
}

std::shared_ptr<const Contents> BindContents(
    const Bindings& sizes, const std::shared_ptr<const Contents>& contents) {
  const auto is_symbolic = [](const Element& element) {
    return element.integer.has_value() && !element.integer->is_constant();
  };
  if (contents == nullptr ||
      std::none_of(contents->elements.begin(), contents->elements.end(),
                   is_symbolic)) {
    return contents;
  }
  auto bound = std::make_shared<Contents>(*contents);
  for (Element& element : bound->elements) {
    if (element.integer.has_value()) {
      element.integer = element.integer->Substitute(sizes);
    }
  }
  return bound;
}

}  // namespace

void Bind(const Bindings& sizes, Graph* graph) {
  for (size_t i = 0; i < graph->num_values(); ++i) {
    Value& value = graph->mutable_value(ValueId(static_cast<uint32_t>(i)));
    BindType(sizes, &value.type);
    value.contents = BindContents(sizes, value.contents);
  }
  std::erase_if(graph->symbols,
                [&](const std::string& name) { return sizes.contains(name); });
}

}  // namespace onnx_memopt::ir
