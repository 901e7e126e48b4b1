// Two sizes in one sentence, told apart.
//
//   TwoSizes(a, ", more than ", b);  // "2.00 MiB, more than 1.00 MiB"
#ifndef ONNX_MEMOPT_LIB_REPORT_TWO_SIZES_H_
#define ONNX_MEMOPT_LIB_REPORT_TWO_SIZES_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "onnx_memopt/support/format.h"

namespace onnx_memopt {

// In bytes where rounding makes them look equal.
inline std::string TwoSizes(int64_t a, absl::string_view between, int64_t b) {
  if (FormatBytes(a) != FormatBytes(b)) {
    return absl::StrCat(FormatBytes(a), between, FormatBytes(b));
  }
  return absl::StrCat(a, between, b, " bytes");
}

}  // namespace onnx_memopt

#endif  // ONNX_MEMOPT_LIB_REPORT_TWO_SIZES_H_
