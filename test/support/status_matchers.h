// GoogleTest matchers for absl::Status and absl::StatusOr.
//
//   EXPECT_THAT(Load(path), IsOk());
//   EXPECT_THAT(Load(path), StatusIs(absl::StatusCode::kNotFound,
//                                    HasSubstr("no such file")));
#ifndef ONNX_MEMOPT_TEST_SUPPORT_STATUS_MATCHERS_H_
#define ONNX_MEMOPT_TEST_SUPPORT_STATUS_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"

namespace onnx_memopt::testing {

inline const absl::Status& GetStatus(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& status) {
  return status.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).ok();
}

MATCHER_P2(StatusIs, code, message_matcher, "has that code and message") {
  const absl::Status& status = GetStatus(arg);
  *result_listener << status.ToString();
  return ::testing::ExplainMatchResult(code, status.code(), result_listener) &&
         ::testing::ExplainMatchResult(
             message_matcher, std::string(status.message()), result_listener);
}

}  // namespace onnx_memopt::testing

#endif  // ONNX_MEMOPT_TEST_SUPPORT_STATUS_MATCHERS_H_
