#include "rewrite/part_shape.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt::rewrite {
namespace {

using ir::Dim;
using ir::Shape;
using ir::Type;
using ir::ValueId;

std::optional<std::vector<int64_t>> Numbers(
    const std::vector<std::optional<Dim>>& dims) {
  std::vector<int64_t> numbers;
  for (const auto& dim : dims) {
    if (!dim.has_value() || !dim->is_constant()) return std::nullopt;
    numbers.push_back(dim->constant());
  }
  return numbers;
}

}  // namespace

absl::StatusOr<ValueId> PartShape(
    BoundaryNodes& nodes, ValueId shape,
    const std::vector<ExtentOfPart>& replacements) {
  Builder& builder = nodes.builder();
  const ir::Graph& graph = builder.graph();
  const std::string name = graph.value(shape).name;
  const Type type = graph.value(shape).type;
  if (!type.is_tensor() || type.element != ir::ElementType::kInt64 ||
      !type.shape || type.shape->size() != 1 || !(*type.shape)[0] ||
      !(*type.shape)[0]->is_constant()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", Printable(name), "\" is no list of extents that can be edited"));
  }
  const auto& contents = graph.value(shape).contents;
  const auto count = static_cast<int>((*type.shape)[0]->constant());
  std::vector<std::optional<Dim>> elements(static_cast<size_t>(count));
  if (contents != nullptr) {
    for (int i = 0; i < count; ++i) elements[i] = contents->elements[i].integer;
  }
  for (const ExtentOfPart& r : replacements) elements[r.element] = r.extent;
  if (const auto numbers = Numbers(elements)) {
    return builder.Int64s(nodes.body(), absl::StrCat(name, "/part"), *numbers);
  }
  // Elements that are not replaced are read when the model runs.
  std::vector<ValueId> pieces;
  const auto read = [&](int begin, int end) {
    if (begin == end) return;
    const Type list =
        Type::Tensor(ir::ElementType::kInt64, Shape{Dim(end - begin)});
    pieces.push_back(nodes.Add(
        BoundaryNodes::Place::kBefore, "Slice",
        {shape,
         builder.Int64s(nodes.outer(), absl::StrCat(name, "/begin"), {begin}),
         builder.Int64s(nodes.outer(), absl::StrCat(name, "/end"), {end})},
        list, absl::StrCat(name, "/piece")));
  };
  std::vector<ExtentOfPart> sorted = replacements;
  std::sort(sorted.begin(), sorted.end(),
            [](const ExtentOfPart& a, const ExtentOfPart& b) {
              return a.element < b.element;
            });
  int next = 0;
  int inferred = 0;
  for (const ExtentOfPart& r : sorted) {
    read(next, r.element);
    next = r.element + 1;
    int64_t number = -1;
    if (r.extent.is_constant()) {
      number = r.extent.constant();
    } else if (++inferred > 1) {
      return absl::FailedPreconditionError(absl::StrCat(
          "\"", Printable(name), "\" has two extents that depend on the run"));
    }
    pieces.push_back(
        builder.Int64s(nodes.outer(), absl::StrCat(name, "/extent"), {number}));
  }
  read(next, count);
  if (inferred > 0) {
    for (int i = 0; i < count; ++i) {
      // Another -1 would make it ambiguous; an unknown element may be one.
      if (!elements[i].has_value() || *elements[i] == Dim(-1)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "\"", Printable(name), "\" may have another extent to infer"));
      }
    }
  }
  return nodes.Add(BoundaryNodes::Place::kBefore, "Concat", pieces, type,
                   absl::StrCat(name, "/part"), {{"axis", int64_t{0}}});
}

}  // namespace onnx_memopt::rewrite
