#include "onnx_memopt/pass/pass.h"

#include "absl/strings/str_cat.h"

namespace onnx_memopt::pass {

absl::StatusOr<bool> PassContext::LeaveAsIs(const absl::Status& why) {
  if (!absl::IsFailedPrecondition(why)) return why;
  Remark(absl::StrCat("left as it is: ", why.message()));
  return false;
}

}  // namespace onnx_memopt::pass
