// Which of the names that exist a mistyped one may have meant.
//
//   for (size_t i : NearNames("encodr", names, 3)) ... names[i] ...
#ifndef ONNX_MEMOPT_SUPPORT_NEAR_NAMES_H_
#define ONNX_MEMOPT_SUPPORT_NEAR_NAMES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace onnx_memopt {

// Indices of at most `count` of `names`, the nearest first: those that contain
// `name` or are a part of it, then by the letters that differ. Ties keep their
// order. Of long names the first letters count.
std::vector<size_t> NearNames(absl::string_view name,
                              absl::Span<const std::string> names,
                              size_t count);

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_SUPPORT_NEAR_NAMES_H_
