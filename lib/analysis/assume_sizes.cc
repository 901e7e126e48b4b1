#include "onnx_memopt/analysis/assume_sizes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "onnx_memopt/analysis/sizes.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::analysis {
namespace {

constexpr int64_t kLargest = 1 << 16;

// A dimension that depends on names or is negative, and the tensor that has it.
struct Named {
  ir::Dim dim;
  ir::ValueId value;
};

std::vector<Named> NamedDims(const ir::Graph& graph) {
  std::vector<Named> named;
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const ir::ValueId id{static_cast<uint32_t>(i)};
    const std::optional<ir::Shape>& shape = graph.value(id).type.shape;
    if (!shape.has_value()) continue;
    for (const std::optional<ir::Dim>& dim : *shape) {
      if (!dim.has_value() || (dim->is_constant() && dim->constant() >= 0)) {
        continue;
      }
      // The same ones come again and again, mostly one after the other.
      if (!named.empty() && named.back().dim == *dim) continue;
      named.push_back({*dim, id});
    }
  }
  return named;
}

// The first that is below `bound`.
const Named* Below(const std::vector<Named>& named,
                   const ir::Bindings& bindings, int64_t bound) {
  const auto it = std::find_if(named.begin(), named.end(), [&](const Named& n) {
    const std::optional<int64_t> size = n.dim.Evaluate(bindings);
    return size.has_value() && *size < bound;
  });
  return it == named.end() ? nullptr : &*it;
}

}  // namespace

absl::StatusOr<std::set<std::string>> AssumeSizes(ir::Graph* graph) {
  std::set<std::string> larger;
  const std::vector<Named> named = NamedDims(*graph);
  ir::Bindings bindings = AssumedBindings(*graph);
  const Named* negative = Below(named, bindings, 0);
  if (negative == nullptr) return larger;
  std::set<std::string> open;
  for (const std::string& name : graph->symbols) {
    if (!graph->assumed.contains(name)) open.insert(name);
  }
  int64_t size = 2;
  for (; size <= kLargest; size *= 2) {
    for (const std::string& name : open) bindings[name] = size;
    if (Below(named, bindings, 1) == nullptr) break;
  }
  if (open.empty() || size > kLargest) {
    // What is below 1 even so.
    if (const Named* left = Below(named, bindings, 1)) negative = left;
    const ir::Value& value = graph->value(negative->value);
    return absl::InvalidArgumentError(absl::StrCat(
        value.producer == ir::kNoNode
            ? std::string()
            : absl::StrCat("node \"",
                           Printable(graph->DisplayName(value.producer)),
                           "\": "),
        "\"", Printable(value.name), "\" has a dimension of ",
        negative->dim.ToString(),
        " elements, less than none; give larger sizes with --dim"));
  }
  for (const std::string& name : open) {
    bindings[name] = 1;
    if (Below(named, bindings, 1) == nullptr) continue;
    bindings[name] = size;
    graph->assumed[name] = size;
    larger.insert(name);
  }
  return larger;
}

}  // namespace onnx_memopt::analysis
