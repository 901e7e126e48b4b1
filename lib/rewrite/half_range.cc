// What the elements of one weight do in 16 bits.

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "onnx_memopt/ir/weight_reader.h"
#include "onnx_memopt/rewrite/half_precision.h"
#include "onnx_memopt/support/half.h"
#include "onnx_memopt/support/status_macros.h"

namespace onnx_memopt::rewrite {

absl::Status MeasureRange(const ir::Graph& graph, ir::ValueId id,
                          ir::ElementType type, ir::WeightReader* reader,
                          HalfRange* range) {
  const ir::Value& value = graph.value(id);
  const bool bfloat16 = type == ir::ElementType::kBfloat16;
  // Halfway to what would come after the largest, and to the smallest.
  const float infinite = bfloat16 ? 0x1.ffp127F : 65520.0F;
  const float zero = bfloat16 ? 0x1p-134F : 0x1p-25F;
  const float normal = bfloat16 ? kMinNormalBfloat16 : kMinNormalFloat16;
  float largest = 0;
  const auto look = [&](absl::Span<const float> values) {
    range->elements += static_cast<int64_t>(values.size());
    for (const float element : values) {
      const float magnitude = std::abs(element);
      if (magnitude >= infinite && std::isfinite(magnitude)) {
        ++range->too_large;
      }
      if (magnitude <= zero && magnitude > 0) ++range->vanishing;
      largest = std::max(largest, magnitude);
    }
    return absl::OkStatus();
  };
  if (value.weight != ir::kNoWeight) {
    RETURN_IF_ERROR(reader->VisitFloats(graph.weight(value.weight), look));
  } else {
    std::vector<float> values;
    for (const ir::Element& element : value.contents->elements) {
      values.push_back(static_cast<float>(*element.real));
    }
    RETURN_IF_ERROR(look(values));
  }
  range->all_small = largest > 0 && largest < normal;
  return absl::OkStatus();
}

}  // namespace onnx_memopt::rewrite
