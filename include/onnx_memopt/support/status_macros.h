// Early return on failure, for functions that return absl::Status or
// absl::StatusOr. Debian's abseil has no status_macros.h of its own.
//
//   absl::Status Foo() {
//     RETURN_IF_ERROR(Check());
//     ASSIGN_OR_RETURN(int64_t bytes, CheckedMul(rows, columns));
//     ...
//   }
#ifndef ONNX_MEMOPT_SUPPORT_STATUS_MACROS_H_
#define ONNX_MEMOPT_SUPPORT_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define ONNX_MEMOPT_CONCAT_INNER_(a, b) a##b
#define ONNX_MEMOPT_CONCAT_(a, b) ONNX_MEMOPT_CONCAT_INNER_(a, b)

#define RETURN_IF_ERROR(expression)                                         \
  do {                                                                      \
    if (absl::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

// Declares variables, so that its arguments cannot be in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ONNX_MEMOPT_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                          \
  if (!result.ok()) return std::move(result).status();                 \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

#define ASSIGN_OR_RETURN(declaration, expression)                          \
  ONNX_MEMOPT_ASSIGN_OR_RETURN_(ONNX_MEMOPT_CONCAT_(status_or_, __LINE__), \
                                declaration, expression)

#endif  // ONNX_MEMOPT_SUPPORT_STATUS_MACROS_H_
